"""The rules of the house: what may import what, how large modules may be, what is declared where."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
LIBRARY = sorted((ROOT / "course_lib").rglob("*.py"))
PRESS = sorted((ROOT / "course_press").rglob("*.py"))


def imports(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def code_lines(file):
    """Lines that hold code: no docstrings, comments or blanks."""
    text = file.read_text()
    lines = set()
    for node in ast.walk(ast.parse(text)):
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        if isinstance(node, ast.stmt) and not docstring:
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            lines.update(range(node.lineno, max(end, node.lineno) + 1))
    return sum(
        1 for i, line in enumerate(text.splitlines(), 1) if i in lines and line.strip() and not line.strip().startswith("#")
    )


def test_the_library_knows_nothing_of_the_press():
    for file in LIBRARY:
        assert not [
            name for name in imports(file) if name.partition(".")[0] in ("course_press", "IPython", "pypandoc", "nbclient")
        ]


def test_the_press_computes_no_physics():
    allowed = {"course_lib", "course_lib.text", "course_lib.models", "course_lib.provenance"}
    for file in PRESS:
        assert {name for name in imports(file) if name.startswith("course_lib")} <= allowed


@pytest.mark.parametrize("file", LIBRARY + PRESS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_modules_stay_small(file):
    assert code_lines(file) <= 250


def test_pins_carry_no_addresses():
    assert not re.search(r"https?:|--index", (ROOT / "constraints.txt").read_text())


def test_environment_yml_equals_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = project["dependencies"] + extras["press"] + extras["explore"] + extras["torch"] + extras["labs"]
    # Where the press asks more of a package than the library does, the press comes later and counts.
    named = {re.match(r"[\w-]+", requirement)[0]: requirement for requirement in asked}
    wanted = {requirement.replace(" ", "").replace("torch", "pytorch") for requirement in named.values()}
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in environment if isinstance(entry, dict))
    conda = {entry.replace(" ", "") for entry in environment if isinstance(entry, str)}
    assert wanted <= conda | set(pip)
    assert "-e ." in pip  # the cells import the library, and pages say its version
    assert f"python{project['requires-python']}" in conda
    assert "quarto" in {re.match(r"[\w-]+", entry)[0] for entry in conda}


def test_pins_keep_to_what_pyproject_asks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned = re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    for requirement in project["dependencies"] + [one for name in ("press", "explore", "labs", "test") for one in extras[name]]:
        name, least = re.match(r"([\w-]+)(?:>=([\d.]+))?", requirement).groups()
        versions = [version for other, version in pinned if other == name.lower()]
        assert versions, f"{name} is not pinned: make pins"
        for version in versions:
            assert [int(part) for part in version.strip(".").split(".")] >= [int(part) for part in (least or "0").split(".")], (
                requirement
            )


def test_actions_are_pinned_by_commit():
    used = re.findall(r"uses: (\S+)", "".join(file.read_text() for file in (ROOT / ".github").rglob("*.yml")))
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)


def test_vendored_files_have_their_licence():
    vendor = ROOT / "course_press" / "assets" / "vendor"
    files = {file for file in vendor.iterdir() if file.suffix != ".LICENSE"}
    assert files
    for file in files:
        assert any(file.stem.startswith(licence.stem) for licence in vendor.glob("*.LICENSE")), file


def pages(name):
    return sorted((ROOT / "chapters").glob(f"*/{name}.qmd"))


def test_every_guard_that_the_errata_name_exists():
    tests = set(re.findall(r"^def (test_\w+)", "".join(f.read_text() for f in (ROOT / "tests").rglob("test_*.py")), re.MULTILINE))
    named = [re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")) for page in pages("errata")]
    assert named[0]
    assert all(other == named[0] for other in named)
    assert set(named[0]) <= tests


def test_prose_names_the_repository_of_the_configuration():
    repo = yaml.safe_load((ROOT / "_quarto.yml").read_text())["book"]["repo-url"].removeprefix("https://github.com/")
    found = [
        address
        for page in pages("*")
        for address in re.findall(
            r"https://(?:github|colab\.research\.google)\.com/(?:github/)?([\w-]+/[\w-]+)", page.read_text(encoding="utf-8")
        )
    ]
    assert set(found) == {repo}


def test_notebooks_that_prose_opens_exist():
    for page in pages("*"):
        for notebook in re.findall(r"/blob/main/(notebooks/[\w/-]+\.ipynb)", page.read_text(encoding="utf-8")):
            assert (ROOT / notebook).is_file(), (page, notebook)
            assert notebook.split("/")[1] == page.parent.name
