"""What is rendered is clean for every combination of flags: syntax, linters, formatters, schemas of workflows."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsmith.build.project import read_pyproject
from opsmith.package.hub import MARK
from opsmith.scaffold.licenses import LICENSES
from opsmith.scaffold.project import RECIPES, Project
from opsmith.scaffold.render import FILES, render

CLANG_FORMAT = Path(__file__).parents[2] / ".clang-format"
_RECIPES = [chosen for size in range(len(RECIPES) + 1) for chosen in itertools.combinations(RECIPES, size)]
_LICENSES = itertools.cycle(LICENSES)
PROJECTS = [
    Project("fast-norm", cuda, cmake, wheel, next(_LICENSES), recipes, author='A "Quoted" \\ Person', year=2026)
    for cuda, cmake, wheel in itertools.product((False, True), repeat=3)
    for recipes in _RECIPES
]
EVERYTHING = Project("fast-norm", cuda=True, wheel=True, recipes=RECIPES)


def name_of(project: Project) -> str:
    flags = [flag for flag in ("cuda", "cmake", "wheel") if getattr(project, flag)]
    return "-".join([*flags, *project.recipes, project.license])


@pytest.fixture(scope="module")
def rendered() -> dict[str, dict[str, str]]:
    return {name_of(project): render(project) for project in PROJECTS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, rendered: dict[str, dict[str, str]]) -> Path:
    """Write each project, but what is the same as in one before it: linters would read it again."""
    root, seen = tmp_path_factory.mktemp("projects"), set()
    for name, texts in rendered.items():
        for path, text in texts.items():
            if (path, text) not in seen or path in ("pyproject.toml", ".clang-format"):
                seen.add((path, text))
                (root / name / path).parent.mkdir(parents=True, exist_ok=True)
                (root / name / path).write_text(text)
    return root


def texts_of(rendered: dict[str, dict[str, str]], suffix: str) -> Iterator[tuple[str, str]]:
    found = {(path, text) for name, texts in rendered.items() for path, text in texts.items() if path.endswith(suffix)}
    assert found
    yield from sorted(found)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tool(name: str) -> str:
    """Return a program of this environment, or of PATH; skip without it."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def test_each_file_is_made_by_some_combination_and_each_has_its_purpose(rendered: dict[str, dict[str, str]]) -> None:
    made = {path for texts in rendered.values() for path in texts}
    assert made == {file.path.format(module="fast_norm") for file in FILES}
    for texts in rendered.values():
        for path in texts:
            assert f"`{path}`" in texts["README.md"]


def test_nothing_of_the_templates_is_left_and_lines_end_as_they_should(rendered: dict[str, dict[str, str]]) -> None:
    for name, texts in rendered.items():
        for path, text in texts.items():
            where = f"{name}: {path}"
            assert not re.search(r"\{@|@\}|\{%|%\}", text), where
            assert not re.search(r"[ \t]$", text, re.MULTILINE), where
            assert not text or (text.endswith("\n") and not text.endswith("\n\n") and not text.startswith("\n")), where
            if path != "LICENSE":
                assert "\n\n\n" not in text or path.endswith(".py"), where


def test_python_json_and_toml_can_be_read(rendered: dict[str, dict[str, str]], tmp_path: Path) -> None:
    for path, text in texts_of(rendered, ".py"):
        assert ast.get_docstring(ast.parse(text)), path
    for _, text in texts_of(rendered, ".json"):
        assert json.loads(text)
    for _, text in texts_of(rendered, ".toml"):
        (tmp_path / "x.toml").write_text(text)
        assert read_pyproject(tmp_path / "x.toml")


@pytest.mark.parametrize("project", PROJECTS[::5], ids=name_of)
def test_pyproject_says_what_was_asked_for(project: Project, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(render(project)["pyproject.toml"])
    content = read_pyproject(tmp_path / "pyproject.toml")
    described, tools = content["project"], content["tool"]
    assert described["authors"] == [{"name": 'A "Quoted" \\ Person'}]
    assert described.get("license") == (None if project.license == "none" else project.license)
    assert ("classifiers" in described) == project.wheel
    assert described["dependencies"] == ["opsmith", "torch>=2.10"]
    if project.cmake:
        assert content["build-system"]["build-backend"] == "scikit_build_core.build"
        assert "opsmith" not in tools
        assert ("ARCHS" in render(project)["CMakeLists.txt"]) == project.cuda
    else:
        assert tools["opsmith"]["operators"] == ["fast_norm"]
        assert tools["opsmith"].get("devices") == (["cpu", "cuda"] if project.cuda else None)


def test_ruff_has_nothing_to_say(folder: Path) -> None:
    run(sys.executable, "-m", "ruff", "check", "--no-cache", ".", cwd=folder)
    run(sys.executable, "-m", "ruff", "format", "--no-cache", "--check", ".", cwd=folder)


def test_kernels_are_formatted(folder: Path) -> None:
    kernels = [path for suffix in ("cpp", "cu") for path in folder.rglob(f"*.{suffix}")]
    assert len(kernels) == 2
    run(tool("clang-format"), "--dry-run", "-Werror", *kernels, cwd=folder)


def workflow(name: str, project: Project = EVERYTHING) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(render(project)[f".github/workflows/{name}.yml"])
    return content


def steps_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in content["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", ["test", "release"])
def test_a_workflow_runs_pinned_actions_with_few_rights(name: str) -> None:
    content = workflow(name)
    assert content["permissions"] == {}
    for job in content["jobs"].values():
        assert job["timeout-minutes"] <= 60
        assert set(job["permissions"].items()) <= {("contents", "read"), ("id-token", "write")}
    pins = [step["uses"].partition("@")[2] for step in steps_of(content) if "uses" in step]
    assert pins
    assert all(re.fullmatch(r"[0-9a-f]{40}", pin) for pin in pins)
    # Dependabot, and a person, read the version behind it.
    text = render(EVERYTHING)[f".github/workflows/{name}.yml"]
    assert len(re.findall(r"@[0-9a-f]{40} # v\d+\.\d+", text)) == len(pins)


def test_only_the_job_that_publishes_can_speak_for_the_project_and_it_runs_nothing_else() -> None:
    jobs = workflow("release")["jobs"]
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["publish"]
    publish = jobs["publish"]
    assert publish["needs"] == ["build", "prove"]
    assert publish["environment"] == "pypi"
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]


@pytest.mark.parametrize("project", PROJECTS[::5], ids=name_of)
def test_workflows_install_what_the_build_needs(project: Project) -> None:
    names = ["test", *(["release"] if "github" in project.recipes else [])]
    for name in names:
        commands = "\n".join(step.get("run", "") for step in steps_of(workflow(name, project)))
        assert "opsmith wheel" in commands
        assert re.search(r"opsmith\[[a-z,]*cuda\]", commands) is not None if project.cuda else "cuda" not in commands


def test_the_recipe_of_conda_has_the_parts_of_its_schema() -> None:
    for project in (EVERYTHING, Project("fast-norm", cmake=True, recipes=("conda",), license="none")):
        recipe = yaml.safe_load(render(project)["conda/recipe.yaml"])
        assert recipe.keys() == {"context", "package", "source", "build", "requirements", "tests", "about"}
        assert recipe["build"]["python"] == {"version_independent": True}
        assert "pytorch 2.10.*" in recipe["requirements"]["host"]
        assert {"opsmith", "pytorch >=2.10"} <= set(recipe["requirements"]["run"])
        assert ('${{ compiler("cuda") }}' in recipe["requirements"]["build"]) == project.cuda
        assert ("license" in recipe["about"]) == (project.license != "none")


@pytest.mark.parametrize("project", [EVERYTHING, Project("fast-norm", cmake=True, recipes=("conda",))], ids=name_of)
def test_the_recipe_of_conda_is_rendered_by_rattler_build(project: Project) -> None:
    rattler_build = pytest.importorskip("rattler_build")
    stage = rattler_build.Stage0Recipe.from_yaml(render(project)["conda/recipe.yaml"])
    # What conda-forge's own configuration gives.
    compilers = {"c_stdlib": ["sysroot"], "cxx_compiler": ["gxx"], "cuda_compiler": ["cuda-nvcc"]}
    (variant,) = stage.render(rattler_build.VariantConfig({"python": ["3.12"], **compilers}))
    assert variant.recipe.package.name == "fast-norm"
    assert variant.recipe.package.version == "0.1.0"


def test_the_hub_imports_nothing_but_torch_and_itself() -> None:
    texts = render(EVERYTHING)
    module = ast.parse(texts["hub/torch-ext/fast_norm/__init__.py"])
    imports = [node for node in ast.walk(module) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {node.module if isinstance(node, ast.ImportFrom) else node.names[0].name for node in imports} == {
        "__future__",
        "typing",
        "torch",
        "_ops",
    }
    assert texts["hub/build.toml"].endswith(f"\n{MARK}\n")


def test_workflows_fit_the_schema_of_github(folder: Path) -> None:
    program = tool("check-jsonschema")
    run(program, "--builtin-schema", "vendor.github-workflows", *folder.rglob("workflows/*.yml"), cwd=folder)
    run(program, "--builtin-schema", "vendor.dependabot", *folder.rglob("dependabot.yml"), cwd=folder)


def test_workflows_are_safe_by_zizmor(folder: Path) -> None:
    run(tool("zizmor"), "--offline", "--no-progress", "--persona=pedantic", *folder.rglob("*.yml"), cwd=folder)
