"""Collects all findings about this machine."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable

from opsmith.doctor.finding import Finding, warning
from opsmith.errors import OpsmithError

__all__ = ["examine"]

_REPORT = "python -m opsmith doctor --json   (and report it: this is a bug in opsmith)"


def examine(*, with_build: bool = False) -> tuple[Finding, ...]:
    """Look at everything, in the order in which it matters; `with_build` builds and runs operators too.

    Nothing is raised: a topic that check failed is a finding.
    """
    from opsmith.doctor import (
        bridge,
        cache,
        compilers,
        cuda,
        environment,
        gpu,
        memory,
        packages,
        rocm,
        sample_build,
        torch_state,
    )

    # Asked when the first topic needs them, so that what fails there fails for that topic alone.
    torch = functools.cache(torch_state.ask_torch)
    tools = functools.cache(compilers.find_build_tools)
    nvcc = functools.cache(lambda: cuda.find_cuda_state(torch()))
    topics: list[tuple[str, Callable[[], tuple[Finding, ...]]]] = [
        ("packages", lambda: packages.judge_packages(packages.find_missing_packages())),
        ("torch", lambda: torch_state.judge_torch(torch())),
        ("compilers", lambda: compilers.judge_build_tools(tools())),
        ("CUDA compiler", lambda: cuda.judge_cuda(nvcc(), torch(), has_host=not isinstance(tools().host, str))),
        ("ROCm compiler", lambda: rocm.judge_rocm(rocm.find_rocm_state(), torch())),
        ("GPU", lambda: gpu.judge_gpus(gpu.ask_drivers(), torch())),
        ("bridge", lambda: bridge.judge_bridge(torch())),
        ("cache", lambda: cache.judge_cache(cache.find_cache_state())),
        ("memory", lambda: memory.judge_memory(memory.find_memory_state())),
        ("environment", lambda: environment.judge_slips(environment.find_slips(has_gpu=bool(torch().gpus)))),
    ]
    if with_build:
        has_gpu = torch().gpu_error is None and bool(torch().gpus)
        topics.append(("trial", lambda: sample_build.try_builds(cuda=nvcc().compiler is not None, has_gpu=has_gpu)))
    return tuple(finding for topic, judge in topics for finding in _safely(topic, judge))


def _safely(topic: str, judge: Callable[[], tuple[Finding, ...]]) -> tuple[Finding, ...]:
    try:
        return judge()
    except ModuleNotFoundError as error:
        detail = f"It needs the package {error.name}, which is not installed."
        return (warning(topic, f"{topic}: check failed", detail, f"pip install {error.name}"),)
    except OpsmithError as error:  # a setting that is wrong, not opsmith
        return (warning(topic, f"{topic}: check failed", str(error), "opsmith doctor   (again, once that is changed)"),)
    except Exception as error:  # one broken topic must not hide the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        detail = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
        return (warning(topic, f"{topic}: check failed", detail, _REPORT),)
