"""On what a report was made: the machine, the compilers and the versions, as data."""

from __future__ import annotations

import datetime
import platform
from dataclasses import dataclass

from opsmith._version import __version__
from opsmith.demo.table import Table
from opsmith.toolchain import Toolchain
from opsmith.toolchain.processor import processor_name
from opsmith.toolchain.resources import usable_cores

__all__ = ["Machine", "describe_machine", "machine_table"]


@dataclass(frozen=True)
class Machine:
    """Everything that a figure of the report depends on, but for the code."""

    date: str
    processor: str
    cores: int
    threads: int
    gpu: str | None
    system: str
    python: str
    torch: str
    opsmith: str
    compilers: dict[str, str]


def describe_machine(toolchain: Toolchain) -> Machine:
    """Return the facts about this machine and this process; `toolchain` is what the builds use."""
    import torch

    tools = {"C++": f"{toolchain.host.kind} {toolchain.host.version}"}
    if toolchain.cuda is not None:
        tools["CUDA"] = f"nvcc {toolchain.cuda.version}"
    if toolchain.rocm is not None:
        tools["ROCm"] = f"hipcc {toolchain.rocm.version}"
    return Machine(
        date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        processor=processor_name(),
        cores=usable_cores(),
        threads=torch.get_num_threads(),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=torch.__version__,
        opsmith=__version__,
        compilers=tools,
    )


def machine_table(machine: Machine) -> Table:
    """Return the facts as a table."""
    rows = [
        ("date", machine.date),
        ("processor", f"{machine.processor}, {machine.cores} cores, {machine.threads} threads used by PyTorch"),
        ("GPU", machine.gpu or "none"),
        ("system", f"{machine.system}, Python {machine.python}"),
        ("PyTorch", machine.torch),
        ("opsmith", machine.opsmith),
        *((f"{language} compiler", name) for language, name in machine.compilers.items()),
    ]
    return Table("Machine", ("what", "which"), "ll", tuple(rows))
