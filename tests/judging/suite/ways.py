"""The ways in which published kernels fooled a judge, by number; each is in the suite at least once."""

from __future__ import annotations

__all__ = ["WAYS"]

WAYS = {
    1: "the output is left as allocated, in memory that the reference freed (Sakana's CUDA engineer, KernelBench)",
    2: "the inputs are zeroed, so that a reference that runs later agrees (KernelBench)",
    3: "the work is done on another stream, which events of the current one do not see (CUDA-L1)",
    4: "a thread does the work after the timer stopped",
    5: "a lazy tensor computes its values when they are compared (gpu-mode)",
    6: "clocks, events, synchronize or allclose are patched (gpu-mode)",
    7: "results are kept by the tensor's identity or version (kernelbench.com)",
    8: "results are kept by pointer, in C++ (kernelguard)",
    9: "a CUDA graph is replayed on stale pointers, or chosen by part of its key (kernelbench.com)",
    10: "right for the first calls, wrong later (llm.c)",
    11: "a slow warm-up, so that few samples are taken (pygpubench)",
    12: "one shape costs nothing, and the mean over shapes is 0 (gpu-mode)",
    13: "inputs are kept in L2 by a persisting carve-out (llm.c, pygpubench)",
    14: "the caller is read from the stack: exact where checked, fast where timed (kernelbench.com)",
    15: "exact below a size, half precision at the timed sizes (kernelbench.com)",
    16: "a prefix of the input decides on a truncated series (kernelbench.com)",
    17: "thresholds fit the tails of a normal distribution (kernelbench.com)",
    18: "a lower precision, within a tolerance of 1e-2",
    19: "a constant or a copy, where the task is degenerate (kernelbench.com, JAXBench)",
    20: "parameters are missing, and loaded without strict (kernelbench.com)",
    21: "only the first row, or half of the threads (Sakana's CUDA engineer)",
    22: "a launch with too much shared memory fails silently, and what lay there is returned (Wafer)",
    23: "the judge's files are edited (kernelbench.com)",
    24: "expected tensors are found with gc, and copied or set to NaN (pygpubench)",
    25: "frames, memory, descriptors or processes of the judge are attacked (pygpubench)",
    26: "a library call under the name of a kernel; it is right, and to be told",
    27: "what fails falls back to the reference; it is right, and to be told (kernelguard)",
}
