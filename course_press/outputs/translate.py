"""Translates the book's arithmetic to JavaScript, so that a page evaluates the functions that the
library has and no formula is typed twice: ``python -m course_press.outputs.translate`` writes them.
"""

import ast
import inspect
from pathlib import Path

from course_lib.core import formulas
from course_press.source.files import swap_in

PHYSICS = Path(__file__).parent.parent / "assets" / "physics.html"
"""The file that both engines put on pages."""
_FRAME = """<script>
// course_lib.core.formulas, translated by course_press.outputs.translate: change them there.
window.coursePhysics = (function () {{
"use strict";
var np = {{ minimum: Math.min, maximum: Math.max, ceil: Math.ceil, floor: Math.floor,
  log2: Math.log2 }};
{functions}
return {{ {names} }};
}})();
</script>
"""


def javascript() -> str:
    """The functions of `course_lib.core.formulas` as a script that defines `coursePhysics`.

    Examples
    --------
    >>> "return peak / bandwidth;" in javascript()
    True
    """
    from pscript import py2js

    tree = ast.parse(inspect.getsource(formulas))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    # What stands for an operator of lists and texts too would hide plain arithmetic.
    plainly = ast.parse("PSCRIPT_OVERLOAD = False").body
    for function in functions:
        function.body = plainly + function.body[1:]  # without its docstring
    source = ast.unparse(ast.Module(list(functions), type_ignores=[]))
    names = ", ".join(f"{one.name}: {one.name}" for one in functions)
    script: str = py2js(source, inline_stdlib=False)
    return _FRAME.format(functions=script.strip().replace("flx_", ""), names=names)


if __name__ == "__main__":
    swap_in(PHYSICS, javascript())
