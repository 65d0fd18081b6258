"""The rooms: which may import which, how large they are, what their names say, and that documents
know them."""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib import import_module
from inspect import ismodule
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import course_lib
from tests.each import each

ROOT = Path(__file__).parent.parent
OURS = ("course_lib", "course_tools", "course_book")
LIBRARY = sorted(file for one in OURS for file in (ROOT / one).rglob("*.py"))
PRESS = sorted((ROOT / "course_press").rglob("*.py"))
FILES = LIBRARY + PRESS
ROOMS = sorted({file.parent for file in FILES})
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]

MAY_ASK = {
    "source": {"course_lib.core", "course_book.text"},
    "run": {"course_lib.core", "course_lib.specs"},
    "check": {"course_lib.core", "course_lib.specs", "course_book"},
    "outputs": {
        "course_lib.core",
        "course_lib.specs",
        "course_tools.counting.quantization",
        "course_tools.diagnosis",
        "course_book",
    },
    "pages": {"course_book.files", "course_lib.core", "course_lib.specs", "course_book.text"},
    "exports": {
        "course_lib.core",
        "course_tools.calibrate.frozen",
        "course_book.text",
        "course_book.exercises",
        "course_book.flashcards",
    },
    "grading": {
        "course_lib.core",
        "course_lib.ops",
        "course_lib.network",
        "course_tools.hlo",
        "course_tools.campaigns.traffic",
        "course_book.text",
    },
    "labs": {"course_lib.core", "course_lib.specs", "course_tools.measured", "course_lib.bench"},
    "cli": {
        "course_lib.core",
        "course_lib.specs",
        "course_lib.workloads",
        "course_tools.amounts",
        "course_tools.counting",
        "course_tools.measured",
        "course_tools.campaigns.checkup",
        "course_tools.calibrate",
        "course_lib.bench",
        "course_tools.diagnosis",
        "course_tools.serve",
        "course_tools.train",
        "course_tools.claims",
        "course_book",
    },
}
"""Which rooms of the library a room of the press may ask: what it never sees, it cannot compute."""


def named(path):
    return path.relative_to(ROOT).as_posix()


@cache
def parsed(file):
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def nodes(file):
    return list(ast.walk(parsed(file)))


def where(module, name=""):
    """The room in which an imported name stands, wherever it was asked for."""
    if module in OURS and name:
        thing = getattr(import_module(module), name, None) or import_module(f"{module}.{name}")
        module = getattr(thing, "__module__", None) or thing.__name__
        module = "course_lib.core" if thing is course_lib.CourseError else module
    return "" if module in OURS else module


def ours(module):
    return (module or "").partition(".")[0] in OURS


def asked(file):
    """Every room and name of the libraries that a file imports, by what the name is."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (where(a.name) for a in node.names if ours(a.name))
        elif isinstance(node, ast.ImportFrom) and ours(node.module):
            yield from (where(node.module, a.name) for a in node.names)


def test_every_room_stands_on_those_below_it(capsys):
    """The contracts in pyproject.toml, from which docs/architecture.md has its picture."""
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


def test_the_library_asks_nothing_of_what_runs_or_prints():
    for file in LIBRARY:
        imported = {
            name.partition(".")[0]
            for node in nodes(file)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & {"course_press", "IPython", "pypandoc", "nbclient"}, named(file)


@each("file", PRESS, ids=named)
def test_the_press_computes_no_physics(file):
    room = file.relative_to(ROOT / "course_press").parts[0]
    allowed = MAY_ASK.get(room, set())
    for found in filter(None, asked(file)):  # `import course_lib` alone asks for nothing
        assert any(found == one or found.startswith(f"{one}.") for one in allowed), found


@each("file", PRESS, ids=named)
def test_the_press_knows_the_library_by_its_faces(file):
    """A room by what its `__all__` names, or a module of it by what that defines without an
    underscore.
    """
    for node in nodes(file):
        if isinstance(node, ast.ImportFrom) and ours(node.module):
            module = sys.modules.get(node.module) or __import__(node.module, fromlist=["_"])
            for alias in node.names:
                public = getattr(module, "__all__", ())
                inside = Path(module.__file__).parent / alias.name
                door = Path(module.__file__).name == "__init__.py"
                assert (
                    (alias.name in public if door else not alias.name.startswith("_"))
                    or inside.is_dir()
                    or inside.with_suffix(".py").is_file()
                ), f"{node.module}.{alias.name}"


@each("file", FILES, ids=named)
def test_modules_stay_small(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 900


PHYSICS = tuple(f"course_lib/{room}" for room in ("core", "specs", "ops", "network", "workloads"))
BUDGETS = {
    "physics": (PHYSICS, 6_269),
    "course_lib": (("course_lib",), 8_216),
    "course_tools": (("course_tools",), 18_885),
    "course_book": (("course_book",), 12_764),
    "grading": (("course_press/grading",), 5_830),
    "course_press": (("course_press",), 15_724),
    "tools": (("tools", "docs"), 1_198),
    "all": (("course_lib", "course_tools", "course_book", "course_press", "tools", "docs"), 56_787),
}
"""Lines of Python without comment lines: a comment costs nothing, whatever else comes in pushes
something out.
"""


def lines_of(folders):
    return sum(
        not line.lstrip().startswith("#")
        for folder in folders
        for file in (ROOT / folder).rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
    )


@pytest.mark.parametrize("name", BUDGETS)
def test_the_sum_stays_small(name):
    folders, budget = BUDGETS[name]
    assert lines_of(folders) <= budget


@each("room", ROOMS, ids=named)
def test_rooms_stay_small(room):
    assert len([file for file in room.glob("*.py") if file.name != "__init__.py"]) <= 20
    assert len([one for one in ROOMS if one.parent == room]) <= 13


@each("room", ROOMS, ids=named)
def test_a_room_says_what_it_is_and_defines_nothing_at_its_door(room):
    face = parsed(room / "__init__.py")
    assert ast.get_docstring(face)
    if room.parent == ROOT:
        return
    rest = face.body[1:]
    lists = [node for node in rest if isinstance(node, ast.Assign)]
    assert [ast.unparse(node.targets[0]) for node in lists] in ([], ["__all__"])
    assert all(isinstance(node, ast.ImportFrom | ast.Assign) for node in rest)
    assert lists or not rest, "what a room imports at its door is its face: name it in __all__"


@each("file", FILES, ids=named)
def test_no_file_hides_behind_an_underscore(file):
    assert file.stem in ("__init__", "__main__") or not file.stem.startswith("_")


@each("file", FILES, ids=named)
def test_no_module_is_named_like_what_it_or_its_room_exports(file):
    """`import course_lib.core.roofline` would give a function where a module is meant."""
    own = {
        node.name
        for node in parsed(file).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        if "command" not in "".join(map(ast.unparse, node.decorator_list))  # what users type
    }
    face = {
        name
        for node in ast.walk(parsed(file.parent / "__init__.py"))
        if isinstance(node, ast.ImportFrom)
        if (ROOT / node.module.replace(".", "/")).with_suffix(".py").is_file()
        for name in [alias.asname or alias.name for alias in node.names]
    }
    assert file.stem not in own | face


def test_a_class_name_stands_once():
    classes = Counter(
        node.name for file in FILES for node in nodes(file) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


@each("file", LIBRARY, ids=named)
def test_the_library_writes_no_markup(file):
    """How a result looks on a page is the press's affair; pictures are the library's."""
    if {"plot", "moving"} & set(file.parts):
        return
    docs = {
        id(node.value)
        for node in nodes(file)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            assert not re.search(r"</?[a-z][a-z0-9]*(?: [a-z-]+=|/?>)", node.value), node.lineno


def test_one_place_asks_each_variable_of_the_environment():
    """A setting that two places read is two settings."""
    places = {}
    for file in FILES:
        for node in nodes(file):
            if not isinstance(node, ast.Call | ast.Subscript):
                continue
            of = node.func if isinstance(node, ast.Call) else node.value
            text = ast.unparse(node) if ast.unparse(of).startswith("os.") else ""
            if asked := re.match(r"os\.(?:environ\.get\(|getenv\(|environ\[)'(COURSE_\w+)'", text):
                places.setdefault(asked[1], set()).add(named(file))
    assert places
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@cache
def files_here():
    """The names of all files but those of an environment or a printed site."""
    found = set()
    for _, folders, files in os.walk(ROOT):
        folders[:] = [one for one in folders if one not in (".venv", ".git", "_site", ".cache")]
        found.update(files)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_path_that_a_document_names_exists(document):
    text = re.sub(r"(?ms)^```.*?^```", "", document.read_text(encoding="utf-8"))
    tops = {path.name for path in ROOT.iterdir()}
    known = files_here()
    checked = 0
    for path in re.findall(r"`([\w./*-]+)`", text):
        if "fr" in Path(path).parts or "*.fr.toml" in path:
            continue  # the language that CONTRIBUTING.md adds as its example
        if "/" in path and path.partition("/")[0] in tops:
            assert list(ROOT.glob(path.rstrip("/"))), path
            checked += 1
        elif re.fullmatch(r"[\w-]+\.(py|md|toml|lua|html|json)", path):
            assert path in known, path
    assert checked > 3
    for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert (document.parent / link).exists(), link


def test_the_picture_of_the_rooms_is_drawn_from_the_code(tmp_path):
    draw = [sys.executable, ROOT / "docs" / "draw_architecture.py", tmp_path]
    subprocess.run(draw, check=True, cwd=ROOT)
    drawn = (tmp_path / "architecture.svg").read_bytes()
    assert (ROOT / "docs" / "architecture.svg").read_bytes() == drawn
    listed = (tmp_path / "rooms.md").read_text(encoding="utf-8")
    assert all(
        f"[`{file.name}`](../{named(file)})" in listed for file in FILES if "__" not in file.name
    )


@each("file", sorted(ROOT.glob("labs/*/*.ipynb")) + sorted(ROOT.glob("labs/*/*.py")), ids=named)
def test_a_lab_names_only_what_the_packages_have(file):
    """A lab that needs torch or a GPU runs rarely: names that moved are found without running it."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = [one for one in json.loads(text)["cells"] if one["cell_type"] == "code"]
        text = "\n".join("".join(one["source"]) for one in cells)
    modules = {}
    for node in ast.walk(tree := ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in OURS:
            for one in node.names:
                modules[one.asname or one.name] = named_by(node.module, one.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            held = modules.get(node.value.id)
            assert not ismodule(held) or hasattr(held, node.attr), f"{held.__name__}.{node.attr}"


def named_by(module, name):
    """What `from module import name` gives, a module or a thing in one; fails where neither exists."""
    found = import_module(module)
    return getattr(found, name) if hasattr(found, name) else import_module(f"{module}.{name}")
