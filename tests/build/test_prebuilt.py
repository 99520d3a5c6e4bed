"""A library beside its module is used while it is what the definitions say, as far as that can be seen there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jaxtyping import Float
from torch import Tensor

from opsmith.build.prebuilt import INTERFACE, file_input, find_prebuilt, flag_inputs, library_name, manifest_path
from opsmith.spec.annotations import Choices, read_signature
from opsmith.spec.definition import Definition, Kernel
from opsmith.spec.interface import interface_digest
from opsmith.store import Manifest, digest_file


def twice(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]: ...


@pytest.fixture
def definition(tmp_path: Path) -> Definition:
    """Return an operator with two versions of its kernel beside it, of which it names the first."""
    for name in ("v1.cpp", "v2.cpp", "v1.cu"):
        (tmp_path / name).write_text(name)
    kernels = {
        "cpu": Kernel("view", (tmp_path / "v1.cpp",), "twice", flags=("-DGAIN=2", f"-I{tmp_path}/more", "-I/opt/one")),
        "cuda": Kernel("view", (tmp_path / "v1.cu",), "twice"),
    }
    return Definition("shop", read_signature(twice, Choices()), kernels, twice, "ops", tmp_path / "ops.py", 1)


@pytest.fixture
def misfit(definition: Definition) -> Callable[..., str | None]:
    """Put a library for the CPU beside the module; return a function that tells why others do not fit it."""
    root = definition.root
    library = root / library_name(definition.file)
    library.write_bytes(b"binary")
    source = root / "v1.cpp"
    inputs = {file_input(source, root): digest_file(source), INTERFACE: interface_digest([definition])}
    manifest = Manifest.describe(
        library,
        name="ops",
        inputs=inputs | flag_inputs([definition], ("cpu",), root),
        devices=("cpu",),
        archs=(),
        toolchain={},
        torch_version=None,
        opsmith_version="0",
    )
    manifest_path(library).write_text(manifest.to_json())

    def tell(one: Definition = definition) -> str | None:
        found = find_prebuilt(one.file, [one])
        assert found is not None
        return found.misfit

    return tell


def with_kernel(definition: Definition, device: str, **changes: object) -> Definition:
    kernels = dict(definition.kernels)
    return replace(definition, kernels={**kernels, device: replace(kernels[device], **changes)})


def test_a_library_of_these_definitions_fits_with_and_without_its_sources(definition, misfit):
    assert misfit() is None
    for source in definition.root.glob("*.c*"):
        source.unlink()
    assert misfit() is None
    assert misfit(with_kernel(definition, "cpu", flags=("-DGAIN=5",))) is None, "nothing can be built of it"


def test_a_library_of_another_file_or_of_other_flags_does_not_fit(definition, misfit):
    root = definition.root
    other = with_kernel(definition, "cpu", sources=(root / "v2.cpp",))
    assert misfit(other) == "it was built without v2.cpp, which twice names for cpu now"
    more = with_kernel(definition, "cpu", sources=(root / "v1.cpp", root / "v2.cpp"))
    assert misfit(more) == "it was built without v2.cpp, which twice names for cpu now"
    for flags in (("-DGAIN=5",), ("-DGAIN=2", f"-I{root}/less")):
        changed = with_kernel(definition, "cpu", flags=flags)
        assert misfit(changed) == "twice has other flags for cpu than it was built with"


def test_a_device_that_was_not_built_and_paths_of_the_machine_do_not_count(definition, misfit):
    assert misfit(with_kernel(definition, "cuda", flags=("-DGAIN=5",))) is None
    elsewhere = ("-DGAIN=2", f"-I{definition.root}/more", "-I/opt/another")
    assert misfit(with_kernel(definition, "cpu", flags=elsewhere)) is None


def test_a_library_whose_description_has_no_flags_fits(definition, misfit):
    path = manifest_path(definition.root / library_name(definition.file))
    manifest = Manifest.from_json(path.read_bytes())
    assert manifest is not None
    inputs = {name: value for name, value in manifest.inputs.items() if not name.startswith("flags ")}
    path.write_text(manifest._replace(inputs=inputs).to_json())
    assert misfit(with_kernel(definition, "cpu", flags=("-DGAIN=5",))) is None
