"""Maps CUDA headers and libraries to the packages that provide them.

On PyPI the parts of a toolkit are wheels with version numbers of their own. The package cuda-toolkit has an extra for each
part and keeps them at one version of CUDA, and PyTorch's own requirements name it; so it is what a remedy installs.
"""

from __future__ import annotations

import re

__all__ = ["package_of_header", "package_of_library", "toolkit_command"]

# The beginning of a header's name -> the extra of cuda-toolkit that has it.
_HEADERS: dict[str, str] = {
    "cublas": "cublas",
    "nvblas": "cublas",
    "cufft": "cufft",
    "curand": "curand",
    "cusolver": "cusolver",
    "cusparse": "cusparse",
    "nvtx3/": "nvtx",
    "nvToolsExt": "nvtx",
    "nvrtc": "nvrtc",
    "nvJitLink": "nvjitlink",
    "nvml": "nvml",
    "nvjpeg": "nvjpeg",
    "npp": "npp",
    "cufile": "cufile",
    "cupti": "cupti",
    "cuda_profiler_api": "profiler",
    "cudaProfiler": "profiler",
    "thrust/": "cccl",
    "cub/": "cccl",
    "cuda/std": "cccl",
    "nv/target": "cccl",
    "crt/": "crt",
    "cuda_runtime": "cudart",
    "cuda_fp": "cudart",
    "cuda_bf": "cudart",
    "cooperative_groups": "cudart",
    "device_launch_parameters": "cudart",
    "driver_types": "cudart",
    "vector_types": "cudart",
    "cuda.h": "cudart",
}

# Libraries that are not part of a toolkit and have wheels of their own, with the major version of CUDA in the name.
_OWN_HEADERS: dict[str, str] = {
    "cudnn": "nvidia-cudnn",
    "cusparseLt": "nvidia-cusparselt",
    "nccl": "nvidia-nccl",
    "nvshmem": "nvidia-nvshmem",
}

# A library's name without lib -> the same.
_LIBRARIES: dict[str, str] = {
    "cudart": "cudart",
    "cublas": "cublas",
    "cublasLt": "cublas",
    "cufft": "cufft",
    "curand": "curand",
    "cusolver": "cusolver",
    "cusparse": "cusparse",
    "nvrtc": "nvrtc",
    "nvJitLink": "nvjitlink",
    "cupti": "cupti",
    "nvToolsExt": "nvtx",
    "cufile": "cufile",
}
_OWN_LIBRARIES: dict[str, str] = {
    "cudnn": "nvidia-cudnn",
    "cusparseLt": "nvidia-cusparselt",
    "nccl": "nvidia-nccl",
    "nvshmem_host": "nvidia-nvshmem",
}

# Parts of their own from CUDA 13 on; before, nvcc's package had them.
_PARTS_OF_13 = {"crt": "nvcc", "nvvm": "nvcc"}

# The wheels of CUDA 12 have ptxas and headers, but no nvcc.
_FIRST_WITH_NVCC = 13

# These libraries count with CUDA itself: libcudart.so.12 is CUDA 12's.
_COUNTED_WITH_CUDA = frozenset({"cudart", "cublas", "cublasLt"})


def package_of_header(header: str, cuda: str | None) -> str | None:
    """Return what to give pip for a header, for a CUDA version such as "12.8"; None if it is not CUDA's."""
    # The longest beginning decides: cusparseLt.h is not cusparse's.
    fitting = [beginning for beginning in (*_HEADERS, *_OWN_HEADERS) if header.startswith(beginning)]
    if not fitting:
        return None
    name = max(fitting, key=len)
    return _own(_OWN_HEADERS[name], cuda) if name in _OWN_HEADERS else _part(_HEADERS[name], cuda)


def package_of_library(library: str, cuda: str | None) -> str | None:
    """Return what to give pip for a library such as libcudart.so.12, whose own number comes before `cuda`."""
    found = re.match(r"lib(?P<name>\w+)\.so(?:\.(?P<major>\d+))?", library)
    if found is None:
        return None
    name = found["name"]
    if name.startswith("cudnn"):  # cuDNN is a family of libraries: libcudnn_ops.so.9
        name = "cudnn"
    if name in _OWN_LIBRARIES:
        return _own(_OWN_LIBRARIES[name], cuda)
    if name not in _LIBRARIES:
        return None
    return _part(_LIBRARIES[name], (found["major"] if name in _COUNTED_WITH_CUDA else None) or cuda)


def toolkit_command(cuda: str) -> str:
    """Return the command that installs an nvcc of a CUDA version such as "12.8" without touching the system."""
    version = ".".join(cuda.split(".")[:2])
    if int(cuda.split(".", maxsplit=1)[0]) >= _FIRST_WITH_NVCC:
        return f"pip install 'opsmith[cuda]' 'cuda-toolkit=={version}.*'"
    parts = " ".join(f"{part}={version}" for part in ("cuda-nvcc", "cuda-cudart-dev", "cuda-cccl"))
    return f"conda install -c nvidia {parts}"


def _part(extra: str, cuda: str | None) -> str:
    if cuda is not None and int(cuda.split(".")[0]) < 13:
        extra = _PARTS_OF_13.get(extra, extra)
    version = f"=={'.'.join(cuda.split('.')[:2])}.*" if cuda else ""
    return f"'cuda-toolkit[{extra}]{version}'"


def _own(wheel: str, cuda: str | None) -> str:
    return f"{wheel}-cu{cuda.split('.')[0] if cuda else 13}"
