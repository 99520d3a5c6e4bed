"""Judges what is in a wheel besides code: RECORD, libraries that must not be bundled, licences, time stamps."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opsmith.package.audit.facts import Facts, Wheel
from opsmith.package.audit.finding import Finding, fault, note
from opsmith.package.audit.judge.requires import find_required

__all__ = ["judge_contents"]

# auditwheel and delocate put a hash before the ending of what they copy: libcuda-1a2b3c4d.so.1, libcuda.1a2b3c4d.so.1.
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler|amdhip64_driver)(?:[-.][0-9a-f]{6,})?\.so[.\d]*")
_TORCH = re.compile(
    r"lib(?:torch|torch_cpu|torch_cuda|torch_hip|torch_python|torch_global_deps|c10|c10_cuda|c10_hip|shm)(?:[-.][0-9a-f]{6,})?\.so[.\d]*"
)
_CUDA = re.compile(
    r"lib(?:cudart|cublas|cublasLt|cudnn\w*|cufft|curand|cusolver|cusparse|nccl|nvrtc\w*|nvjpeg)(?:[-.][0-9a-f]{6,})?\.so[.\d]*"
)
# Files that RECORD cannot have digests of: itself, and signatures of it.
_WITHOUT_DIGEST = ("RECORD", "RECORD.jws", "RECORD.p7s")
_MOST_NAMED = 3
_REBUILD = "build the wheel again, or `wheel unpack` and `wheel pack` it after a change: they write RECORD anew"


def judge_contents(facts: Facts) -> Iterator[Finding]:
    """Yield findings about a wheel's files."""
    wheel = facts.wheel
    if wheel is None:
        return
    yield from _bundled(wheel)
    yield from _record(wheel)
    yield from _opsmith(wheel)
    yield from _licence(wheel)
    yield from _reproducible(facts, wheel)


def _bundled(wheel: Wheel) -> Iterator[Finding]:
    for member in wheel.members:
        name = member.name.rpartition("/")[2]
        if _DRIVER.fullmatch(name) and not wheel.name.startswith("nvidia-"):
            yield fault(
                "bundled-driver",
                f"it bundles {name}, a part of NVIDIA's driver, which must be that of the machine",
                detail="beside another driver, programs crash or see no GPU",
                remedy=f"`auditwheel repair --exclude {re.sub(r'[-.][0-9a-f]{6,}', '', name)}`",
                where=member.name,
            )
        elif _TORCH.fullmatch(name) and wheel.name != "torch":
            yield fault(
                "bundled-torch",
                f"it bundles {name}, which is torch's: a process with two torches crashes",
                remedy=f"`auditwheel repair --exclude {re.sub(r'[-.][0-9a-f]{6,}', '', name)}`",
                where=member.name,
            )
        elif _CUDA.fullmatch(name) and not wheel.name.startswith(("nvidia-", "torch")):
            yield note(
                "bundled-cuda",
                f"it bundles {name} ({member.size / 1e6:.0f} MB), which torch's own packages have too",
                remedy="link the CUDA runtime statically, and exclude the others from `auditwheel repair`",
                where=member.name,
            )


def _record(wheel: Wheel) -> Iterator[Finding]:
    if not wheel.record:
        return  # reading has said so
    wrong, unlisted = [], []
    for member in wheel.members:
        base = member.name.rpartition("/")[2]
        if ".dist-info/" in member.name and base in _WITHOUT_DIGEST:
            continue
        listed = wheel.record.get(member.name)
        if listed is None:
            unlisted.append(member.name)
        elif listed[0].startswith("sha256=") and listed[0] != member.digest:
            wrong.append(member.name)
        elif not listed[0]:
            unlisted.append(member.name)
        elif listed[1] and listed[1] != str(member.size):
            wrong.append(member.name)
    there = {member.name for member in wheel.members}
    absent = [name for name in wheel.record if name not in there]
    for title, names in (
        ("RECORD has another digest or size for {}: it was changed after the wheel was made", wrong),
        ("RECORD does not list {}", unlisted),
        ("RECORD lists {}, which is not in the wheel", absent),
    ):
        if names:
            yield fault("record", title.format(_named(names)), remedy=_REBUILD, where=names[0])


def _opsmith(wheel: Wheel) -> Iterator[Finding]:
    """Yield a fault where a module imports opsmith, and pip does not install it."""
    if wheel.imports_opsmith and wheel.name != "opsmith" and not find_required(wheel, "opsmith"):
        yield fault(
            "opsmith-requirement-missing",
            f"{wheel.imports_opsmith} imports opsmith, and its metadata does not ask for it",
            remedy='write "opsmith" into `dependencies` of pyproject.toml',
            where=wheel.imports_opsmith,
        )


def _licence(wheel: Wheel) -> Iterator[Finding]:
    if not wheel.licences:
        yield note(
            "no-licence",
            "it has no licence file",
            remedy='name it under `license-files = ["LICENSE"]` in pyproject.toml',
        )


def _reproducible(facts: Facts, wheel: Wheel) -> Iterator[Finding]:
    """Yield notes on what makes the same sources give other bytes the next time."""
    times = {member.time for member in wheel.members}
    if len(times) > 1:
        first, last = (
            f"{time[0]}-{time[1]:02}-{time[2]:02} {time[3]:02}:{time[4]:02}:{time[5]:02}"
            for time in (min(times), max(times))
        )
        yield note(
            "time-stamps",
            f"its files have {len(times)} time stamps, from {first} to {last}: built again, it has other bytes",
            remedy="set SOURCE_DATE_EPOCH, for example to `git log -1 --format=%ct`",
        )
    described = [library for library in facts.libraries if library.manifest is not None]
    if any(not _is_one_of(library.manifest.created, times) for library in described if library.manifest is not None):
        yield note(
            "build-time-inside",
            f"the description of {described[0].name} has the time of its build, which is not that of its files: "
            "built again, the wheel has other bytes",
        )
    if not _is_ordered([member.name for member in wheel.members]):
        yield note(
            "unsorted-files",
            "its files are in no order within their folders: another file system may give another, and other bytes",
        )


def _is_ordered(names: list[str]) -> bool:
    """Tell whether the files of each folder are in the order of their names, as sorted walks of all kinds leave them."""
    last: dict[str, str] = {}
    for name in names:
        folder, _, base = name.rpartition("/")
        # RECORD comes last, and what was added by hand before it.
        if not folder.endswith(".dist-info") and last.get(folder, "") > base:
            return False
        last[folder] = base
    return True


def _is_one_of(created: str, times: set[tuple[int, int, int, int, int, int]]) -> bool:
    """Tell whether a time (ISO 8601) is a time stamp of the archive, which has only every second second."""
    numbers = [int(number) for number in re.findall(r"\d+", created)[:6]]
    return any(list(time[:5]) == numbers[:5] and abs(time[5] - numbers[5]) < 2 for time in times if len(numbers) == 6)


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
