"""CUDA kernels: one that is right, and others with one defect each."""

from jaxtyping import Float32
from torch import Tensor

import opsmith


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def doubled(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x."""
    return 2 * x


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def doubled_on_default_stream(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x, on the default stream whatever stream is current."""
    return 2 * x


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def doubled_on_first_gpu(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x, always on the first GPU."""
    return 2 * x


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def doubled_and_waited_for(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x, and the host waits for it."""
    return 2 * x


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def doubled_with_malloc(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x, with memory that PyTorch knows nothing of."""
    return 2 * x


@opsmith.op(cuda="on_gpu.cu", contiguous="x")
def shifted_on_gpu(x: Float32[Tensor, "N"]) -> Float32[Tensor, "N"]:
    """2 x, read one element too far."""
    return 2 * x
