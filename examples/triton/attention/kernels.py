import triton.language as tl

import triton


@triton.jit
def loaded(pointer, rows, size, columns, D):
    """Return the rows of a matrix [size, D], with zeros outside."""
    inside = (rows < size)[:, None] & (columns < D)[None, :]
    return tl.load(pointer + rows[:, None] * D + columns[None, :], inside, other=0.0)


@triton.jit
def stored(pointer, rows, size, columns, D, values):
    inside = (rows < size)[:, None] & (columns < D)[None, :]
    tl.store(pointer + rows[:, None] * D + columns[None, :], values.to(pointer.dtype.element_ty), inside)


@triton.jit
def scored(q, k, rows, columns, N, scale, causal):
    """The scores of some queries (rows) and keys (columns), -inf where a query does not see a key."""
    scores = tl.dot(q, tl.trans(k)) * scale
    seen = (columns < N)[None, :] & ((columns[None, :] <= rows[:, None]) | (causal == 0))
    return tl.where(seen, scores, -float("inf"))


@triton.jit
def forward(
    query,
    key,
    value,
    causal: tl.constexpr,
    y,
    logs,
    M,
    N,
    D,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One block of queries of one head: keys go by, and sums are rescaled when a larger score comes."""
    head = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    depth = tl.arange(0, BLOCK_D)
    query, y = query + head * M * D, y + head * M * D
    key, value = key + head * N * D, value + head * N * D
    scale = 1 / tl.sqrt(D.to(tl.float32))
    q = loaded(query, rows, M, depth, D)
    most = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end = N
    if causal:
        end = tl.minimum(N, (tl.program_id(0) + 1) * BLOCK_M)
    for start in range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        scores = scored(q, loaded(key, columns, N, depth, D), rows, columns, N, scale, causal)
        larger = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp(scores - larger[:, None])
        shrink = tl.exp(most - larger)
        total = total * shrink + tl.sum(weights, 1)
        v = loaded(value, columns, N, depth, D)
        sums = sums * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
        most = larger
    empty = total == 0  # there are no keys
    stored(y, rows, M, depth, D, tl.where(empty[:, None], 0.0, sums / tl.where(empty, 1.0, total)[:, None]))
    tl.store(logs + head * M + rows, most + tl.log(total), rows < M)


@triton.jit
def weighted(q, k, g, v, sums, most, rows, columns, M, N, scale, causal):
    """The softmax's weights of some queries and keys, and the gradients of their scores."""
    weights = tl.exp(scored(q, k, rows, columns, N, scale, causal) - most[:, None])
    weights = tl.where((rows < M)[:, None], weights, 0.0)
    return weights, weights * (tl.dot(g, tl.trans(v)) - sums[:, None]) * scale


@triton.jit
def backward(
    grad_y,
    query,
    key,
    value,
    causal,
    y,
    logs,
    grad_query,
    grad_key,
    grad_value,
    M,
    N,
    D,
    BLOCK: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One block of keys, past which all queries go, and then one block of queries, past which all keys go.

    `causal` decides no loop here, so it is no constant: there are half as many kernels to compile.
    """
    head = tl.program_id(1).to(tl.int64)
    own = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, BLOCK_D)
    of_queries, of_keys = head * M * D, head * N * D
    scale = 1 / tl.sqrt(D.to(tl.float32))

    k, v = loaded(key + of_keys, own, N, depth, D), loaded(value + of_keys, own, N, depth, D)
    by_key = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    by_value = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    for start in range(0, M, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        q, g = loaded(query + of_queries, rows, M, depth, D), loaded(grad_y + of_queries, rows, M, depth, D)
        found = loaded(y + of_queries, rows, M, depth, D)
        sums = tl.sum(g.to(tl.float32) * found.to(tl.float32), 1)
        most = tl.load(logs + head * M + rows, rows < M, other=0.0)
        weights, by_scores = weighted(q, k, g, v, sums, most, rows, own, M, N, scale, causal)
        by_value += tl.dot(tl.trans(weights.to(g.dtype)), g)
        by_key += tl.dot(tl.trans(by_scores.to(q.dtype)), q)
    stored(grad_key + of_keys, own, N, depth, D, by_key)
    stored(grad_value + of_keys, own, N, depth, D, by_value)

    q, g = loaded(query + of_queries, own, M, depth, D), loaded(grad_y + of_queries, own, M, depth, D)
    found = loaded(y + of_queries, own, M, depth, D)
    sums = tl.sum(g.to(tl.float32) * found.to(tl.float32), 1)
    most = tl.load(logs + head * M + own, own < M, other=0.0)
    by_query = tl.zeros([BLOCK, BLOCK_D], tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        k, v = loaded(key + of_keys, columns, N, depth, D), loaded(value + of_keys, columns, N, depth, D)
        _, by_scores = weighted(q, k, g, v, sums, most, own, columns, M, N, scale, causal)
        by_query += tl.dot(by_scores.to(k.dtype), k)
    stored(grad_query + of_queries, own, M, depth, D, by_query)
