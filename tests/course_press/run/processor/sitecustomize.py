"""Another processor's BLAS: the last place of whatever it gives in floating point is one higher.

Python imports this at its start where the folder is on PYTHONPATH.
"""

import ast
import builtins
import functools

import numpy as np

OURS = ("course_lib", "course_tools", "course_book", "<ipython-input", "ipykernel")
"""In whose files `@` is such a product: an array's own operator cannot be replaced."""
real_compile = compile


def moved(product):
    """A function whose floating-point results are one in the last place higher."""

    @functools.wraps(product)
    def one_higher(*args, **named):
        given = product(*args, **named)
        parts = [
            np.nextafter(part, np.inf)
            if isinstance(part, np.ndarray | np.floating) and part.dtype.kind == "f"
            else part
            for part in (given if isinstance(given, tuple) else (given,))
        ]
        return tuple(parts) if isinstance(given, tuple) else parts[0]

    return one_higher


class Products(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        call = ast.Call(ast.Name("_product", ast.Load()), [node.left, node.right], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def compiled(source, filename, mode, flags=0, *more, **named):
    if any(name in str(filename) for name in OURS) and not flags & ast.PyCF_ONLY_AST:
        if not isinstance(source, ast.AST):
            source = real_compile(source, filename, mode, flags | ast.PyCF_ONLY_AST, *more, **named)
        source = Products().visit(source)
    return real_compile(source, filename, mode, flags, *more, **named)


builtins.compile = compiled
builtins._product = moved(lambda a, b: a @ b)
np.linalg.solve, np.linalg.lstsq = moved(np.linalg.solve), moved(np.linalg.lstsq)
np.dot, np.matmul, np.einsum = moved(np.dot), moved(np.matmul), moved(np.einsum)
