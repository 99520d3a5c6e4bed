"""Builds the operators of a path in one of three ways and prints the library's path: `opsmith build`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opsmith.cli.completion import complete_path
from opsmith.errors import DefinitionError

if TYPE_CHECKING:
    from opsmith.build.builders import Built
    from opsmith.spec.definition import Definition, Device

__all__ = ["command"]

_WITHOUT_GPU = "torch sees no GPU here, and --arch says what to compile for without one: --arch 9.0"
# The keys of opsmith.build.builders.BUILDERS, which takes too long to import for a help text.
_BUILDERS = ("jit", "setuptools", "cmake")


@click.command("build")
@click.argument("path", shell_complete=complete_path)
@click.option(
    "--with", "builder", type=click.Choice(_BUILDERS), default="jit", help="What runs the build.  [default: jit]"
)
@click.option("--device", "devices", multiple=True, help="cpu or cuda; may be repeated.  [default: what is available]")
@click.option("--arch", "archs", help="GPU architectures: '9.0', '8.0;9.0+PTX', 'gfx90a'. Implies --device cuda.")
@click.option("--torch-target", "torch_target", help="Oldest torch that can load the library.  [default: 2.10]")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder for the libraries; that of a subpackage goes into a subfolder of its name.  "
    "[default: the store for jit, build/opsmith for the others]",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Number of compilers that run at once.")
@click.option("-v", "--verbose", is_flag=True, help="Show every command.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    path: str,
    builder: str,
    devices: tuple[str, ...],
    archs: str | None,
    torch_target: str | None,
    output: Path | None,
    jobs: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Build every operator of PATH: a module's name, a .py file, or a folder with a package."""
    from opsmith.build.announce import announcer
    from opsmith.build.builders import Request, build_group, output_folder
    from opsmith.build.discover import discover, module_names
    from opsmith.build.plan import TORCH_TARGET
    from opsmith.build.project import parse_torch_target

    target = parse_torch_target(torch_target, "--torch-target") if torch_target else TORCH_TARGET
    built = []
    groups, own = discover(path), module_names(path)[0]
    for group in groups:
        chosen = _devices(devices, archs, group.definitions)
        folder = None if output is None else output_folder(output, own, group)
        request = Request(chosen, folder, archs, target, jobs)
        watcher = announcer(group.module, verbose=verbose, jobs=jobs)
        built.append(build_group(group, builder, request, watcher))
    if as_json:
        click.echo(json.dumps([_describe(item) for item in built], indent=2))
    else:
        for item in built:
            _show(item, devices)


def _devices(names: tuple[str, ...], archs: str | None, definitions: tuple[Definition, ...]) -> tuple[Device, ...]:
    from opsmith.build.devices import wanted_devices
    from opsmith.build.project import parse_devices

    chosen = parse_devices(names, "--device") if names else wanted_devices(definitions)
    with_kernels = {device for definition in definitions for device in definition.kernels}
    if archs is not None and not names and "cuda" in with_kernels:
        chosen = tuple(dict.fromkeys((*chosen, "cuda")))
    found = tuple(device for device in chosen if device in with_kernels)
    if with_kernels and not found:
        operators = ", ".join(definition.name for definition in definitions)
        reason = f"--device has {', '.join(names)}" if names else _WITHOUT_GPU
        raise DefinitionError(f"{operators}: there are kernels for {', '.join(sorted(with_kernels))} alone; {reason}")
    return found


def _describe(built: Built) -> dict[str, object]:
    toolchain, target = built.prepared.toolchain, built.prepared.target
    return {
        "module": built.group.module,
        "operators": [definition.qualified_name for definition in built.group.definitions],
        "library": str(built.library),
        "size_bytes": built.library.stat().st_size,
        "built_with": built.builder,
        "devices": list(built.prepared.plan.extension.devices),
        "archs": list(target.archs),
        "torch_target": ".".join(map(str, target.torch_target)),
        "toolchain": toolchain.compilers,
        "torch": toolchain.torch.version,
    }


def _show(built: Built, requested: tuple[str, ...]) -> None:
    toolchain, target = built.prepared.toolchain, built.prepared.target
    tools = [f"{toolchain.host.kind} {toolchain.host.version}"]
    tools += [f"nvcc {toolchain.cuda.version}"] if toolchain.cuda else []
    tools += [f"hipcc {toolchain.rocm.version}"] if toolchain.rocm else []
    tools.append(f"torch {toolchain.torch.version}")
    click.echo(f"  toolchain   {', '.join([*tools, *target.archs])}")
    names = ", ".join(definition.name for definition in built.group.definitions)
    click.echo(f"  operators   {names}")
    size = built.library.stat().st_size / 1024
    oldest = ".".join(map(str, target.torch_target))
    where = " and ".join(built.prepared.plan.extension.devices)
    click.echo(f"  {built.library}    {size:.0f} KB, {where}, torch >= {oldest}, any Python")
    with_kernels = {device for definition in built.group.definitions for device in definition.kernels}
    if not requested and "cuda" in with_kernels - set(built.prepared.plan.extension.devices):
        click.echo(f"  without the kernels for cuda: {_WITHOUT_GPU}")
