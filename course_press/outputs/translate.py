"""Translates the book's arithmetic to JavaScript, so that pages evaluate the library's functions.

What is translated is a part of Python: scalars, the operators, `if` and loops, lists, dictionaries,
records, and a few functions of NumPy; checks of arguments stay behind. `ROOTS` names what pages
call, and what that calls comes along: ``python -m course_press.outputs.translate`` writes them.

What works on arrays, the diagnosis, comes as the trees of its modules, which `trace.html` runs.
"""

import ast
import dataclasses
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from course_lib.core import attainable, checks, formulas, ridge
from course_lib.specs import load_toml
from course_tools.counting.quantization import begins
from course_tools.diagnosis.page import asked
from course_book.explore import averages, page
from course_press.outputs.written import data_script
from course_press.source.files import swap_in

ASSETS = Path(__file__).parent.parent / "assets"
# The file that both engines put on every page.
PHYSICS = ASSETS / "physics.html"
# The file for pages that count whole steps.
STEPS = ASSETS / "steps.html"
# The file for pages that read a trace, and the modules in it, each after those that it asks.
DIAGNOSIS = ASSETS / "diagnosis.html"
MODULES = (
    *("account", "causes", "reading.names", "reading.rows", "amounts", "kernels", "gaps", "gpu"),
    *("host", "root_cause", "page"),
)
# What pages call, by the name of what has it there.
ROOTS: Mapping[str, tuple[Callable[..., Any], ...]] = {
    "coursePhysics": (
        *(formulas.times, formulas.slowest, formulas.idle, formulas.amount),
        *(formulas.total_seconds, formulas.step, formulas.largest, formulas.most),
        *(formulas.throughput, formulas.dollars, formulas.between, formulas.loaded),
        *(formulas.ceiling, ridge, attainable),
        *(averages.crowd, averages.load, averages.fleet),
    ),
    "courseSteps": page.EVALUATED,
}
_GIVEN: Mapping[str, Any] = load_toml(ASSETS / "translated.toml", dict)
# What has no word in the Python that is translated, as JavaScript has it.
WRITTEN = {begins: _GIVEN["begins"]}
# What only changes a value's type.
_SAME = (bool, float, tuple)
# Names that JavaScript keeps to itself.
_RESERVED = {"new": "added"}


def javascript(name: str = "coursePhysics") -> str:
    """The functions of `ROOTS`, and what they call, as a script that defines `name`."""
    from pscript import py2js

    found = _Translated(name)
    for root in ROOTS[name]:
        found.function(root)
    source = ast.unparse(ast.fix_missing_locations(ast.Module(found.functions, [])))
    script: str = py2js(source, inline_stdlib=True)
    for pattern, shorter in _GIVEN["lighter"].items():
        script = re.sub(pattern, shorter, script)
    names = ", ".join(f"{found.names[one]}: {found.names[one]}" for one in ROOTS[name])
    frame: str = _GIVEN["frame"]
    return frame.format(
        comment=_GIVEN["comments"][name],
        name=name,
        given="\n".join(found.given()),
        functions=script.strip().replace("flx_", ""),
        names=names,
    )


class _Translated:
    """Functions as PScript takes them, each once, those that others call before them."""

    def __init__(self, name: str) -> None:
        self.functions: list[ast.stmt] = []
        self.names: dict[Any, str] = {}
        self.records: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.constants: dict[str, Any] = {}
        self.numpy: set[str] = set()
        self.math: set[str] = set()
        self.of = name

    def function(self, one: Callable[..., Any]) -> str:
        """What a function is called in the script, where it is put if it is not there."""
        if one in WRITTEN:
            self.written[one.__name__] = WRITTEN[one]
            return one.__name__
        if one in self.names:
            return self.names[one]
        assert isinstance(one, FunctionType)
        name = one.__name__
        if name in self.names.values():
            name = f"{one.__module__.rpartition('.')[2]}_{name}"
        self.names[one] = name
        tree = ast.parse(textwrap.dedent(inspect.getsource(one))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
        # What stands for an operator of lists and texts too would hide plain arithmetic.
        tree.name, tree.body = name, ast.parse("PSCRIPT_OVERLOAD = False").body + body
        names = [each for each in ast.walk(tree) if isinstance(each, ast.Name)]
        local = {each.id for each in names if isinstance(each.ctx, ast.Store)}
        local |= {each.arg for each in ast.walk(tree) if isinstance(each, ast.arg)}
        self.functions.append(_Plain(self, sys.modules[one.__module__], local).visit(tree))
        return name

    def record(self, kind: type) -> str:
        """What makes a record in the script: its fields in their order, with their defaults."""
        name = kind.__name__
        if name not in self.records:
            fields = _fields(kind)
            given = "".join(
                f"  if ({field} === undefined) {field} = {json.dumps(value)};\n"
                for field, value in fields.items()
                if value is not ...
            )
            held = ", ".join(f"{field}: {field}" for field in fields)
            self.records[name] = (
                f"function {name}({', '.join(fields)}) {{\n{given}  return {{ {held} }};\n}}"
            )
        return name

    def given(self) -> Iterator[str]:
        """What the functions need beside each other."""
        if self.numpy:
            known = _GIVEN["numpy"]
            used = (f"  {one}: {known.get(one, f'Math.{one}')}" for one in sorted(self.numpy))
            yield "\n".join(["var np = {", ",\n".join(used), "};"])
        if self.math:
            yield "var math = Math;"
        for name, value in self.constants.items():
            yield f"var {name} = {json.dumps(value)};"
        yield from (_GIVEN["items"], *self.written.values())
        yield from self.records.values()


class _Plain(ast.NodeTransformer):
    """One function: names of other modules resolved, arguments in their order, no annotations."""

    def __init__(self, into: _Translated, module: ModuleType, local: set[str]) -> None:
        self.into, self.module, self.local = into, module, local

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns, given = None, node.args
        # JavaScript knows arguments by their place only.
        given.args, given.kwonlyargs = given.args + given.kwonlyargs, []
        given.defaults += [one for one in given.kw_defaults if one]
        given.kw_defaults = []
        for one in given.args:
            one.annotation = None
            one.arg = _RESERVED.get(one.arg, one.arg)
        node.body = [kept for one in node.body if (kept := self.visit(one)) is not None]
        return node

    def visit_Expr(self, node: ast.Expr) -> Any:
        """What is named for what it requires only refuses."""
        called = self._called(node.value.func) if isinstance(node.value, ast.Call) else None
        name = getattr(called, "__name__", "").lstrip("_")
        if name.startswith("require") or getattr(called, "__module__", "") == checks.__name__:
            return None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> Any:
        """Nor is there anything but a refusal here, or what a page never gives: a record."""
        test, refuses = node.test, isinstance(node.body[0], ast.Raise)
        if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance":
            refuses = refuses or dataclasses.is_dataclass(self._global(test.args[1]))
        return None if refuses and not node.orelse else self.visit_For(node)

    def visit_For(self, node: Any) -> Any:
        """A block that only checked is left out with its checks."""
        node = self.generic_visit(node)
        return node if node.body or node.orelse else None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        assert node.value is not None
        return ast.Assign([self.visit(node.target)], self.visit(node.value))

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in _RESERVED:
            return ast.Name(_RESERVED[node.id], node.ctx)
        return self._known(self._global(node), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self._global(node.value)
        if not isinstance(owner, ModuleType):
            return self.generic_visit(node)
        if owner.__name__ in ("numpy", "math"):
            (self.into.numpy if owner.__name__ == "numpy" else self.into.math).add(node.attr)
            return node
        return self._known(getattr(owner, node.attr), ast.Name(node.attr, ast.Load()))

    def _known(self, found: Any, node: ast.Name) -> ast.Name:
        """A name of the module as the script has it."""
        if isinstance(found, FunctionType):
            name = self.into.function(found)
            if name in self.local:
                raise ValueError(f"{name} of {self.module.__name__} is also a function's own name")
            return ast.Name(name, ast.Load())
        if node.id.strip("_").isupper() and found is not None:
            name = node.id
            if self.into.constants.setdefault(name, _json(found)) != _json(found):
                raise ValueError(f"{name} of {self.module.__name__} is another's too")
            return ast.Name(name, ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> Any:
        called = self._called(node.func)
        if called in _SAME:
            return self.visit(node.args[0])
        if getattr(called, "__module__", "") == checks.__name__:
            # What a check gives back is what it was given, behind its name.
            given = self._all([*node.args[:2][-1:], *(one.value for one in node.keywords)])
            return given[0] if node.args else ast.List(given, ast.Load())
        if called is dataclasses.replace:
            names: list[ast.expr | None] = [ast.Constant(one.arg) for one in node.keywords]
            fields = ast.Dict(names, self._all([one.value for one in node.keywords]))
            copied = [ast.Dict([], []), *self._all(node.args), fields]
            return ast.Call(ast.Attribute(ast.Name("Object"), "assign"), copied, [])
        if inspect.isclass(called) and _fields(called):
            arguments = self._all(_in_order(node, list(_fields(called))))
            return ast.Call(ast.Name(self.into.record(called), ast.Load()), arguments, [])
        if isinstance(called, FunctionType):
            arguments = _in_order(node, list(inspect.signature(called).parameters))
            return ast.Call(self.visit(node.func), self._all(arguments), [])
        return ast.Call(self.visit(node.func), self._all(node.args), [])

    def _all(self, nodes: list[ast.expr]) -> list[ast.expr]:
        return [self.visit(one) for one in nodes]

    def _called(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self._global(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
        name = node.id if isinstance(node, ast.Name) else ""
        return next((one for one in _SAME if one.__name__ == name), None) or self._global(node)

    def _global(self, node: ast.expr) -> Any:
        """What a name of the module stands for; `None` for what the function calls its own."""
        if isinstance(node, ast.Name) and node.id not in self.local:
            return getattr(self.module, node.id, None)
        return None


def trees() -> str:
    """The modules of the diagnosis and the tables that they ask, as data of a page."""
    each = (import_module(f"course_tools.diagnosis.{name}") for name in MODULES)
    every = {one.__name__: _tree(ast.parse(inspect.getsource(one)).body) for one in each}
    # Only a type says `...`, which no page asks for; a mapping that nobody may change has a copy.
    other: Any = lambda one: getattr(one, "copy", str)()  # noqa: E731
    held = data_script({"modules": every, "given": asked()}, default=other)
    said = "<!-- course_tools.diagnosis, as trees: change it there. -->"
    return f'{said}\n<div class="trace-program" hidden>{held}</div>\n'


def _tree(node: Any) -> Any:
    """A part of Python: what it is and its fields, without what says only something to people."""
    if isinstance(node, list):
        return list(map(_tree, node))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return None
    if not isinstance(node, ast.AST):
        return node
    left_out = ("ctx", "returns", "type_comment", "kind", "type_params")
    fields = {name: getattr(node, name) for name in node._fields if name not in left_out}
    if isinstance(node, ast.arg | ast.AnnAssign):
        fields |= {"annotation": None}
    return [type(node).__name__, *map(_tree, fields.values())] if fields else type(node).__name__


def _in_order(node: ast.Call, names: list[str]) -> list[ast.expr]:
    """A call's arguments by their place; what is left out between others is `undefined`."""
    given = {one.arg: one.value for one in node.keywords}
    rest = names[len(node.args) :]
    while rest and rest[-1] not in given:
        rest.pop()
    left_out = ast.Name("undefined", ast.Load())
    return [*node.args, *(given.get(name, left_out) for name in rest)]


def _fields(kind: type) -> dict[str, Any]:
    """A record's fields and what they are if not given; `...` where something must be."""
    if dataclasses.is_dataclass(kind):
        given = {one.name: one.default for one in dataclasses.fields(kind)}
        given |= {one.name: {} for one in dataclasses.fields(kind) if one.default_factory is dict}
        missing = dataclasses.MISSING
        return {name: ... if value is missing else value for name, value in given.items()}
    defaults = getattr(kind, "_field_defaults", {})
    return {name: defaults.get(name, ...) for name in getattr(kind, "_fields", ())}


def _json(value: Any) -> Any:
    """A constant as the script has it."""
    if isinstance(value, Mapping):
        return {name: _json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value


if __name__ == "__main__":
    for name, file in (("coursePhysics", PHYSICS), ("courseSteps", STEPS)):
        swap_in(file, javascript(name))
    swap_in(DIAGNOSIS, trees())
