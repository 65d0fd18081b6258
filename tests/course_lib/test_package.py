"""What holds for the library as a whole."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import course_lib
from tests.each import each

FOLDER = Path(course_lib.__file__).parent
OURS = ("course_lib", "course_tools", "course_book")
FILES = sorted(file for one in OURS for file in (FOLDER.parent / one).rglob("*.py"))
NAMES = [
    ".".join(file.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
    for file in FILES
]
MODULES = [import_module(name) for name in NAMES]
HEAVY = {
    "matplotlib",
    "torch",
    "pandas",
    "IPython",
    "altair",
    "ipywidgets",
    "scipy",
    "course_press",
}


def public(*, classes):
    """Classes or functions in an `__all__`."""
    things = {
        f"{thing.__module__}.{name}": thing
        for module in MODULES
        for name in getattr(module, "__all__", ())
        if callable(thing := getattr(module, name)) and isinstance(thing, type) == classes
        if getattr(thing, "__module__", "").startswith(OURS)
    }
    return list(things.values())


def modules_after(code):
    printed = f"import sys; {code}; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", printed], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in run.stdout.split()}


ROOMS = ("serve", "train", "calibrate", "counting", "diagnosis", "measured", "hlo", "campaigns")


def test_the_import_is_light_until_something_is_plotted():
    assert not (HEAVY | {"course_tools", "course_book"}) & modules_after(
        "import course_lib.bench; course_lib.chip('h100-sxm'); course_lib.llm.formats()"
    )
    rooms = ", ".join(f"course_tools.{room}" for room in ROOMS)
    assert not (HEAVY | {"course_book"}) & modules_after(f"import {rooms}")
    assert not HEAVY & modules_after("import course_book; course_book.n(1.5)")
    assert HEAVY & modules_after("import course_book.plot") == {"matplotlib"}


def test_what_draws_says_which_extra_it_needs():
    code = "import sys; sys.modules['matplotlib'] = None; import course_book.plot"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr.strip()
        .splitlines()[-1]
        .endswith("course_book draws with matplotlib: pip install -e '.[book]'")
    )


def test_all_is_what_there_is():
    assert list(course_lib.__all__) == sorted(course_lib.__all__)
    assert len(course_lib.__all__) == len(set(course_lib.__all__))
    for name in course_lib.__all__:
        assert getattr(course_lib, name) is not None
    with pytest.raises(AttributeError, match="'course_lib' has no attribute 'plots'"):
        course_lib.plots  # noqa: B018


def test_the_error_is_one_and_is_named_as_users_meet_it():
    assert issubclass(course_lib.CourseError, ValueError)
    assert (
        f"{course_lib.CourseError.__module__}.{course_lib.CourseError.__name__}"
        == "course_lib.CourseError"
    )
    for file in FILES:
        classes = [
            node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ClassDef)
        ]
        assert [node.name for node in classes if node.name.endswith("Error")] == ["CourseError"] * (
            file.stem == "checks"
        )


@each("function", public(classes=False))
def test_every_public_function_has_examples(function):
    doc = inspect.getdoc(function)
    assert doc, "no docstring"
    _, _, examples = doc.partition("\nExamples\n--------\n")
    assert ">>> " in examples


@each("cls", public(classes=True))
def test_every_public_class_and_method_has_a_docstring(cls):
    assert cls.__doc__
    for name, method in vars(cls).items():
        if not name.startswith("_") and (
            inspect.isfunction(method) or isinstance(method, property | classmethod)
        ):
            assert inspect.getdoc(method) or cls.__name__ == "Chip", name
