"""The translator: what it takes of Python, and what it refuses."""

import types

import pytest

from course_press.outputs import translate

SOURCE = '''
from dataclasses import dataclass
import numpy as np

LEAST = 3
@dataclass
class Point:
    x: float
    y: float = 2.0
    name: str = ""

def scaled(point, new, *, by=1.0):
    """Never seen."""
    return Point(point.x * by, name="far") if new else point

def used(points):
    best: float = np.inf
    for one in points:
        best = np.minimum(best, scaled(one, True, by=LEAST).x)
    return bool(best > LEAST)

def _inside(scaled):
    return used([scaled])

def hides(used):
    return _inside(used)

def clashes():
    used = 1
    return helper.used(used)
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "translated.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    found = __import__("translated")
    found.helper = types.ModuleType("helper")
    found.helper.used = found.used
    return found


def script(monkeypatch, *roots):
    monkeypatch.setitem(translate.ROOTS, "coursePhysics", roots)
    return translate.javascript()


def test_what_a_function_calls_comes_with_it_and_arguments_in_their_order(module, monkeypatch):
    text = script(monkeypatch, module.used)
    assert 'new Point(point.x * by, undefined, "far")' in text
    assert "scaled(one, true, LEAST).x" in text
    assert "var LEAST = 3;" in text
    assert "if (y === undefined) y = 2.0;" in text
    assert "(added)" in text or "added" in text  # `new` is JavaScript's own
    assert "return { used: used };" in text
    assert "Never seen" not in text


def test_a_local_name_that_hides_a_function_is_refused(module, monkeypatch):
    assert "_inside(used)" in script(monkeypatch, module.hides)
    with pytest.raises(ValueError, match="used of translated is also a function's own name"):
        script(monkeypatch, module.clashes)


def test_the_files_are_what_the_library_says_now():
    for name, file in (("coursePhysics", translate.PHYSICS), ("courseSteps", translate.STEPS)):
        assert file.read_text(encoding="utf-8") == translate.javascript(name)
