"""Lists failures of kernels on a GPU or with a driver that they were not built for."""

from __future__ import annotations

from opsmith.catalogue.entry import Entry

__all__ = ["ENTRIES"]

_ARCH = (
    "`python -c 'import torch; print(torch.cuda.get_device_capability())'` prints the GPU's architecture; rebuild for "
    "it, for example `export TORCH_CUDA_ARCH_LIST=9.0` for (9, 0), or 9.0+PTX for that and everything newer."
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "no-kernel-image",
        "Not built for this GPU",
        r"no kernel image is available for execution on the device|cudaErrorNoKernelImageForDevice|"
        r"hipErrorNoBinaryForGpu",
        ("The library has machine code only for other GPUs, and no PTX that the driver could translate.",),
        (_ARCH,),
        "CUDA error: no kernel image is available for execution on the device",
        words=(
            "no kernel image is available",
            "cudaErrorNoKernelImageForDevice",
            "hipErrorNoBinaryForGpu",
        ),
    ),
    Entry(
        "invalid-device-function",
        "The kernel is not in the library for this GPU",
        r"invalid device function|cudaErrorInvalidDeviceFunction",
        (
            "The kernel was not compiled for this GPU, or the process has two CUDA runtimes and the kernel is "
            "registered with the other one.",
        ),
        (_ARCH, "Link the CUDA major version that torch uses.", "torch is built for CUDA {torch_cuda}."),
        "RuntimeError: CUDA error: invalid device function",
        words=(
            "invalid device function",
            "cudaErrorInvalidDeviceFunction",
        ),
    ),
    Entry(
        "ptx-toolchain",
        "The PTX is newer than the driver",
        r"the provided PTX was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion",
        (
            "The library has no machine code for this GPU, and its PTX comes from a newer CUDA than the driver can "
            "translate.",
            "The driver supports CUDA up to {driver_cuda}.",
        ),
        (_ARCH, "Or install a newer driver."),
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.",
        words=(
            "compiled with an unsupported toolchain",
            "cudaErrorUnsupportedPtxVersion",
        ),
    ),
    Entry(
        "driver-too-old",
        "The driver is older than the CUDA runtime",
        r"CUDA driver version is insufficient for CUDA runtime version|The NVIDIA driver on your system is too old",
        (
            "The CUDA runtime needs a newer driver than this machine has.",
            "The driver supports CUDA up to {driver_cuda}.",
            "torch is built for CUDA {torch_cuda}.",
        ),
        (
            "Install a newer driver (`nvidia-smi` shows the current one and its CUDA version), or a torch for an "
            "older CUDA: "
            "https://pytorch.org/get-started/locally.",
        ),
        "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
        words=(
            "CUDA driver version is insufficient",
            "The NVIDIA driver on your system is too old",
        ),
    ),
    Entry(
        "no-gpu",
        "No GPU is visible",
        r"no CUDA-capable device is detected|Found no NVIDIA driver on your system|No CUDA GPUs are available|"
        r"no ROCm-capable device is detected",
        ("This process sees no GPU: there is none, its driver is not loaded, or CUDA_VISIBLE_DEVICES hides it.",),
        (
            "Compare `nvidia-smi` and `echo $CUDA_VISIBLE_DEVICES`; a container needs `docker run --gpus all`, a "
            "batch job must request a GPU.",
        ),
        "RuntimeError: No CUDA GPUs are available",
        words=(
            "no CUDA-capable device is detected",
            "Found no NVIDIA driver on your system",
            "No CUDA GPUs are available",
            "no ROCm-capable device is detected",
        ),
    ),
    Entry(
        "cpu-torch",
        "torch is a CPU build",
        r"Torch not compiled with CUDA enabled",
        ("The installed torch is built for the CPU only.", "The installed torch is {cpu_torch}."),
        (
            "Install a CUDA build as https://pytorch.org/get-started/locally says; `python -m "
            "torch.utils.collect_env` shows which one is installed.",
        ),
        "AssertionError: Torch not compiled with CUDA enabled",
        words=("Torch not compiled with CUDA enabled",),
    ),
    Entry(
        "forward-compatibility",
        "Driver libraries and kernel driver differ in version",
        r"forward compatibility was attempted on non supported HW|Driver/library version mismatch",
        (
            "The driver's libraries in the process and the driver in the kernel have different versions: the driver "
            "was upgraded without a restart, or a container ships its own cuda-compat.",
        ),
        (
            "Restart the machine, or start the container with the host's libraries (`LD_LIBRARY_PATH` without "
            "cuda-compat).",
        ),
        "CUDA error: forward compatibility was attempted on non supported HW",
        words=(
            "forward compatibility was attempted",
            "Driver/library version mismatch",
        ),
    ),
    Entry(
        "launch-resources",
        "A block needs more than the GPU has",
        r"too many resources requested for launch",
        ("For a block of this size, the kernel needs more registers or shared memory than the GPU has.",),
        (
            "Use fewer threads in a block, or `__launch_bounds__(THREADS)` so that nvcc limits registers; "
            "`-Xptxas=-v` prints what each kernel uses.",
        ),
        "RuntimeError: CUDA error: too many resources requested for launch",
        words=("too many resources requested for launch",),
    ),
)
