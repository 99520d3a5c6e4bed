"""All rows of the suite."""

from __future__ import annotations

from suite.cheats import (
    attacks,
    cuda_numbers,
    cuda_streams,
    kept_results,
    late_results,
    memory,
    numbers,
    prefixes,
    told,
)
from suite.honest import in_cpp, in_cuda, in_pytorch, in_triton
from suite.row import Row, rows_by_name

__all__ = ["CHEATS", "HONEST", "ROWS"]

CHEATS: dict[str, Row] = rows_by_name(
    memory.ROWS,
    late_results.ROWS,
    kept_results.ROWS,
    numbers.ROWS,
    prefixes.ROWS,
    attacks.ROWS,
    told.ROWS,
    cuda_streams.ROWS,
    cuda_numbers.ROWS,
)
HONEST: dict[str, Row] = rows_by_name(in_pytorch.ROWS, in_cpp.ROWS, in_cuda.ROWS, in_triton.ROWS)
ROWS: dict[str, Row] = rows_by_name(CHEATS.values(), HONEST.values())
