"""Every planted fault is found by name, with a remedy, and nothing else is said of the wheel; good wheels are sound."""

from __future__ import annotations

import struct

import pytest
from gpu_code import as_section, fat_binary
from make_library import SHIMS, library
from make_wheel import wheel
from planted_faults import OPS, PLANTED, Planted, good_wheel, gpu_wheel

from opsmith.package.audit import audit

# Two libraries that are made alike also export the same.
_MAY_FOLLOW = {"missing-arch": {"no-ptx"}, "namespace-clash": {"exported-twice"}}


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_a_planted_fault_is_found_by_name(planted: Planted, tmp_path):
    result = audit(planted.make(tmp_path))
    found = [finding for finding in result.findings if finding.name == planted.finding]
    assert found, result
    assert result.is_sound is not planted.is_fault
    assert all(finding.severity == ("fault" if planted.is_fault else "note") for finding in found)
    assert not planted.is_fault or found[0].remedy
    others = result.names() - {planted.finding} - _MAY_FOLLOW.get(planted.finding, set())
    assert others == set(), result


def test_there_is_nothing_to_say_about_a_good_wheel(tmp_path):
    result = audit(good_wheel(tmp_path))
    assert result.findings == ()
    assert result.floors.torch == (2, 10)
    assert [schema.qualified for schema in result.facts.schemas] == ["smooth::lowpass"]


@pytest.mark.parametrize(
    ("library_options", "wheel_options"),
    [
        ({"flags": ("-Wl,-rpath,$ORIGIN/../torch/lib",)}, {}),
        ({"calls": (*SHIMS, "torch_tensor_from_pyobject")}, {"requires": ("torch>=2.14",)}),
        ({}, {"requires": ("opsmith>=0.1",)}),
        ({}, {"requires": ('torch>=2.10; python_version >= "3.8" and sys_platform == "linux"',)}),
        ({"calls": (*SHIMS, "torch_tensor_from_pyobject")}, {"requires": ("torch!=2.14.0,<3,>=2.14",)}),
        ({"calls": (*SHIMS, "PyObject_Call")}, {"tag": "cp310-abi3-manylinux_2_28_x86_64"}),
        ({"calls": (*SHIMS, "Py_NewRef")}, {"tag": "cp310-abi3-manylinux_2_28_x86_64"}),
        ({"calls": (*SHIMS, "PyDict_SetDefault")}, {"tag": "cp311-cp311-manylinux_2_28_x86_64"}),
        ({"calls": ("PyObject_Call",)}, {"tag": "cp310-abi3-manylinux_2_28_x86_64", "requires": ()}),
        (
            {"calls": (*SHIMS, "old"), "stubs": (("libc.so.6", "GLIBC_2.17", ("old",)),)},
            {"tag": "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"},
        ),
    ],
    ids=[
        "rpath of its own",
        "new torch",
        "torch by way of opsmith",
        "torch on Linux",
        "new torch, said otherwise",
        "abi3",
        "abi3 of the same Python",
        "one Python",
        "no torch",
        "old glibc",
    ],
)
def test_a_true_claim_is_not_refused(library_options, wheel_options, tmp_path):
    result = audit(wheel(tmp_path, {OPS: library(**library_options)}, **wheel_options))
    assert result.findings == (), result


def test_torchs_cpp_api_is_no_fault_where_the_torch_is_pinned(tmp_path):
    data = library(calls=(*SHIMS, "_ZNK2at6Tensor4sizeEl"))
    result = audit(wheel(tmp_path, {OPS: data}, requires=("torch==2.13.0",)))
    assert result.is_sound
    assert result.names() == {"unstable-torch-symbols"}
    assert result.floors.torch_is_exact


def test_what_another_library_of_the_wheel_provides_is_not_needed_of_others(tmp_path):
    helper = library(calls=(), code="void aoti_torch_of_tomorrow(void) {}")
    user = library(calls=(*SHIMS, "aoti_torch_of_tomorrow"))
    assert audit(wheel(tmp_path, {OPS: user, "smooth/helper.so": helper})).findings == ()


def test_a_library_of_32_bits_is_not_called_broken(tmp_path):
    data = library()
    result = audit(
        wheel(tmp_path, {"smooth/old.so": data[:4] + b"\x01" + data[5:]}, tag="py3-none-manylinux_2_28_i686")
    )
    assert result.is_sound
    assert result.names() == {"other-platform"}


@pytest.mark.parametrize(
    ("path", "said"), [("/home/me/lib", "of the machine"), ("lib", "relative"), ("$ORIGIN:", "relative")]
)
def test_it_is_said_what_is_wrong_with_an_rpath(path, said, tmp_path):
    (finding,) = audit(wheel(tmp_path, {OPS: library(flags=(f"-Wl,-rpath,{path}",))})).findings
    assert said in finding.title


def test_a_version_counts_by_what_the_loader_demands(tmp_path):
    """GNU ld demands the version of a symbol that is weak too; only where it is marked weak itself, nothing fails."""
    code = "__attribute__((weak)) void new_in_libc(void);\nvoid maybe(void) { if (new_in_libc) new_in_libc(); }"
    data = library(code=code, stubs=(("libtorch_cpu.so", "", ()), ("libc.so.6", "GLIBC_2.34", ("new_in_libc",))))
    assert audit(wheel(tmp_path, {OPS: data})).names() == {"glibc-newer-than-tag"}
    demanded = struct.pack("<IH", elf_hash("GLIBC_2.34"), 0)
    assert data.count(demanded) == 1
    marked = data.replace(demanded, struct.pack("<IH", elf_hash("GLIBC_2.34"), 2))
    assert audit(wheel(tmp_path, {OPS: marked})).findings == ()


def elf_hash(name: str) -> int:
    """Return the hash of the System V ABI, by which versions are looked up."""
    value = 0
    for char in name.encode():
        value = (value << 4) + char
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value & 0xFFFFFFFF


def test_weak_symbols_may_stay_undefined(tmp_path):
    code = "__attribute__((weak)) void PyObject_Call(void);\nvoid* address(void) { return PyObject_Call; }"
    assert audit(wheel(tmp_path, {OPS: library(code=code)})).findings == ()


def test_the_promised_gpu_code_is_there(tmp_path):
    result = audit(gpu_wheel(tmp_path, ("8.0", "9.0a", "9.0 (PTX)"), "80", "90a", "90 PTX"))
    assert result.findings == (), result


def test_an_asked_cuda_is_demanded(tmp_path):
    code = as_section(".nv_fatbin", fat_binary("90", "90 PTX"))
    path = wheel(tmp_path, {OPS: library(code=code)})
    assert audit(path).is_sound
    assert audit(path, cuda="13.0").is_sound
    (fault,) = audit(path, cuda="12").faults
    assert fault.name == "cuda-newer-than-asked"
    assert fault.title.startswith(
        "CUDA 12 is asked for, and the code in _ops.so is CUDA 13's: a driver for CUDA 12 does"
    )
    code = as_section(".nv_fatbin", fat_binary("90", "90 PTX", cubin=(1, 7), ptx_isa=(8, 4)))
    assert audit(wheel(tmp_path, {OPS: library(code=code)}), cuda="12").is_sound


def test_libraries_of_another_cuda_are_told(tmp_path):
    path = wheel(tmp_path, {OPS: library(stubs=(("libtorch_cpu.so", "", ()), ("libcudart.so.13", "", ())))})
    assert audit(path, cuda="13").is_sound
    assert "_ops.so needs libraries of CUDA 13" in audit(path, cuda="12").faults[0].title


def test_libraries_for_each_cuda_need_someone_who_chooses(tmp_path):
    libraries = {
        f"smooth/_cu{major}.so": library(
            stubs=(("libtorch_cpu.so", "", ()), (f"libcublas.so.{major}", "", ())),
            texts=(f"cu{major}::lowpass(Tensor x) -> Tensor",),
        )
        for major in (12, 13)
    }
    result = audit(wheel(tmp_path, libraries))
    (note,) = [finding for finding in result.findings if finding.name == "tied-to-cuda"]
    assert "(_cu12.so to CUDA 12, _cu13.so to CUDA 13)" in note.title
    assert result.floors.cuda == (12, 13)


def test_asked_architectures_are_demanded(tmp_path):
    path = gpu_wheel(tmp_path, ("8.0", "9.0+PTX"), "80", "90", "90 PTX")
    assert audit(path, archs=("8.0", "9.0+PTX")).is_sound
    refused = audit(path, archs=("8.0", "10.0", "gfx90a"))
    assert [finding.title for finding in refused.faults] == [
        "--archs asks for 10.0, and there is no code for it",
        "--archs asks for gfx90a, and there is no code for it",
    ]
