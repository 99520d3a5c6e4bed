"""The host compiler is the one that CXX names, else the first fit one on PATH."""

from __future__ import annotations

import pytest

from opsmith.errors import ToolchainError
from opsmith.toolchain import find_host_compiler


def test_gcc_is_described(machine, probes):
    path = machine.put_gcc("g++", "12.2.0")
    host = find_host_compiler(probes=probes)
    assert (host.path, host.kind, host.version, host.target) == (path, "gcc", "12.2.0", "x86_64-linux-gnu")
    assert host.command == (str(path),)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("clang version 18.1.3 (https://github.com/llvm/llvm-project c13b)", "18.1.3"),
        ("Ubuntu clang version 14.0.0-1ubuntu1.1", "14.0.0"),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", "15.0.0"),
    ],
)
def test_clang_is_described(machine, probes, line, version):
    machine.put("clang++", f"{line}\nTarget: x86_64-pc-linux-gnu\n")
    host = find_host_compiler(probes=probes)
    assert (host.kind, host.version, host.release) == ("clang", version, line)


def test_the_identity_has_the_patch_level_and_no_path(machine, probes):
    one = find_host_compiler(probes=probes) if machine.put_gcc("g++") else None
    (machine.bin / "g++").unlink()
    machine.put_gcc("c++")
    same = find_host_compiler(probes=probes)
    machine.put("c++", "Target: x86_64-linux-gnu\ngcc version 12.2.0 (Debian 12.2.0-15)\n")
    patched = find_host_compiler(probes=probes)
    assert one.path != same.path
    assert one.identity == same.identity != patched.identity
    assert str(machine.bin) not in same.identity


def test_cxx_comes_before_path(machine, probes, monkeypatch):
    machine.put_gcc("c++")
    chosen = machine.put_clang("my clang")
    monkeypatch.setenv("CXX", f"'{chosen}' -m64")
    host = find_host_compiler(probes=probes)
    assert (host.path, host.arguments) == (chosen, ("-m64",))
    assert host.command == (str(chosen), "-m64")
    assert host.identity.endswith("-m64")


def test_the_order_on_path(machine, probes):
    machine.put_clang("clang++")
    assert find_host_compiler(probes=probes).path.name == "clang++"
    machine.put_gcc("g++")
    assert find_host_compiler(probes=probes).path.name == "g++"
    machine.put_gcc("c++")
    assert find_host_compiler(probes=probes).path.name == "c++"


def test_a_launcher_is_used_but_not_asked(machine, probes, monkeypatch):
    compiler, launcher = machine.put_gcc("g++"), machine.put("ccache")
    monkeypatch.setenv("CXX", "ccache g++ -m64")
    host = find_host_compiler(probes=probes)
    assert host.command == (str(launcher), str(compiler), "-m64")
    assert machine.started == ["g++ -m64 -v"]


def test_a_launcher_in_disguise_is_seen_through(machine, probes, monkeypatch):
    launcher, compiler = machine.put("tools/ccache"), machine.put_gcc("real/g++")
    disguise = machine.bin / "g++"
    disguise.symlink_to(launcher)
    monkeypatch.setenv("PATH", f"{machine.bin}:{compiler.parent}")
    host = find_host_compiler(probes=probes)
    assert (host.launcher, host.path) == ((str(launcher),), compiler)


def test_an_upgrade_behind_a_script_is_noticed(machine, probes, touch):
    hidden = machine.put_clang("clang", "14.0.6")
    machine.put_clang("clang++", "14.0.6")
    find_host_compiler(probes=probes)
    find_host_compiler(probes=probes)
    assert len(machine.started) == 1
    touch(hidden)
    find_host_compiler(probes=probes)
    assert len(machine.started) == 2


def test_one_that_is_too_old_is_passed_over(machine, probes):
    machine.put_gcc("c++", "4.8.5")
    machine.put_clang("clang++", "14.0.6")
    assert find_host_compiler(probes=probes).kind == "clang"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "gcc version 9.3.1 (Red Hat)\n",
            r"g\+\+ \(from PATH\) is gcc 9\.3\.1; opsmith needs gcc 10 or newer\. Install",
        ),
        ("clang version 9.0.1\n", r"is clang 9\.0\.1; opsmith needs clang 10 or newer"),
        ("icpc version 2021.1\n", "is neither gcc nor clang"),
    ],
)
def test_an_unfit_one_is_refused(machine, probes, output, message):
    machine.put("g++", output)
    with pytest.raises(ToolchainError, match=message):
        find_host_compiler(probes=probes)


def test_none_at_all(machine, probes):
    with pytest.raises(ToolchainError, match=r"No C\+\+ compiler was found.*apt-get install g\+\+.*conda install"):
        find_host_compiler(probes=probes)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nowhere++", r"CXX is 'nowhere\+\+', but 'nowhere\+\+' is not installed"),
        ("/nowhere/g++ -m64", r"but '/nowhere/g\+\+' is not installed"),
        ("ccache", "does not name a compiler"),
        ("ccache nowhere", "'nowhere' is not installed"),
        ("'g++", "not a command line"),
    ],
)
def test_a_wrong_cxx_is_not_replaced_by_another(machine, probes, monkeypatch, value, message):
    machine.put_gcc("g++")
    machine.put("ccache")
    monkeypatch.setenv("CXX", value)
    with pytest.raises(ToolchainError, match=message):
        find_host_compiler(probes=probes)


def test_one_that_cannot_start(machine, probes):
    (machine.bin / "g++").write_text("#!/nowhere/sh\n")
    (machine.bin / "g++").chmod(0o755)
    with pytest.raises(ToolchainError, match=r"g\+\+ cannot be started"):
        find_host_compiler(probes=probes)


def test_a_file_that_may_not_be_run_is_no_compiler(machine, probes):
    machine.put_gcc("g++").chmod(0o644)
    with pytest.raises(ToolchainError, match="was found"):
        find_host_compiler(probes=probes)
