"""Who prints a result decides its form, and a kernel that is asked for both gives what each printer
gives.
"""

import ast
import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import course_lib
from course_lib import CourseError
from course_book import explore, n, plot, table, tables
from course_book.exercises import check, exercise, parity, predict
from course_book.text import Shown, glossary, languages
from course_press.outputs import both, notebook, site
from course_press.run.bundles import FORMS, form

KINDS = {
    "explorer": "explore.batch()",
    "exercise": "exercise('int8-p2', 7)",
    "prediction": "predict('rooflines-trillion', 1e-3, 's', low=1e-9, high=1)",
    "parity": "parity()",
    "figure": "plot.sweep([1, 10], {'B': [2, 20]}, x_label='B', y_label='s')",
    "diagram": "plot.flow('a', [('<b>?', 'no', 'c', 'yes')], 'd', title='e', again='f')",
    "linked": "tables.chip_table()",
    "folded": "tables.figure_tables()",
    "cards": "tables.dispute_table('specs.html')",
    "downloads": "tables.Downloads({'a.csv': 'x'})",
    "glossary": "glossary()",
    "table": "table(['a', 'b'], [['x', n(4.5)]])",
    "feedback": "check('int8-p2', 120)",
    "text": "n(0.5)",
}
LIBRARY = Path(course_lib.__file__).parent
ALIKE = {"table", "feedback", "text"}


def kernel(printers, lang, cells):
    """The data of what cells show to each printer in turn, in a kernel as Quarto starts one, with
    nothing of the press.
    """
    code = [
        "import os",
        "from course_book import explore, glossary, n, plot, table, tables",
        "from course_book.exercises import check, exercise, parity, predict",
    ]
    texts = [[*code, cell] for cell in cells]
    for printer in printers[1:]:
        texts += [[f"os.environ['COURSE_PRINT'] = {printer!r}", cell] for cell in cells]
    shown = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("\n".join(text)) for text in texts]
    )
    NotebookClient(shown, timeout=120, kernel_name="python3").execute(
        env={**os.environ, "COURSE_PRINT": printers[0], "COURSE_LANG": lang, "MPLBACKEND": "agg"}
    )
    return [
        [cell.outputs[0]["data"] for cell in shown.cells[at : at + len(cells)]]
        for at in range(0, len(texts), len(cells))
    ]


@pytest.mark.parametrize("lang", [pytest.param("en", marks=pytest.mark.exhaustive), "es"])
def test_a_bare_kernel_gives_the_forms_of_both_printers_at_once(lang):
    one_run, *each = (
        dict(zip(KINDS, data, strict=True))
        for data in kernel(("both", "site", "notebook"), lang, KINDS.values())
    )
    assert {kind for kind, data in one_run.items() if FORMS not in data} == ALIKE
    for to, alone in zip(("site", "notebook"), each, strict=True):
        for kind, data in alone.items():
            picked = form(one_run[kind], to)
            assert json.dumps(picked) == json.dumps(data), (kind, to)
            assert form(data, to) == data
            assert FORMS not in data
        if to == "site":  # the page that Quarto wants
            start = '```{=html}\n<div class="sizes"><svg class="wide"'
            assert alone["figure"]["text/markdown"].startswith(start)
            assert "](#spec-h100-sxm){" not in alone["linked"]["text/markdown"]
            assert "](#spec-h100-sxm)" in alone["linked"]["text/markdown"]


@pytest.mark.exhaustive  # the same is said without a kernel, below
def test_an_unknown_printer_is_named_in_a_kernel():
    with pytest.raises(CellExecutionError, match="COURSE_PRINT must name a printer"):
        kernel(("pdf",), "en", [KINDS["table"]])


def strings(file):
    """Strings of a file with their lines, without its docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_markup_and_who_prints_are_the_press_s():
    for file in sorted(LIBRARY.rglob("*.py")):
        text = "\n".join(strings(file))
        if file.parent.name not in ("plot", "moving"):
            assert not re.search("</?[a-zA-Z]", text), file
        if "book" in file.relative_to(LIBRARY).parts and file.name != "output.py":
            assert "COURSE_PRINT" not in text, file


def test_the_library_knows_no_printer_but_by_name(monkeypatch):
    monkeypatch.setenv("COURSE_PRINT", "sites")
    with pytest.raises(CourseError, match=r"both, notebook, site \(got 'sites'"):
        Shown()._repr_mimebundle_()
    for value in ("", None):
        if value is None:
            monkeypatch.delenv("COURSE_PRINT")
        else:
            monkeypatch.setenv("COURSE_PRINT", value)
        assert Shown()._repr_mimebundle_() == {"text/markdown": "<Shown>"}


@pytest.mark.parametrize("code", [code for kind, code in KINDS.items() if kind not in ALIKE])
def test_without_a_press_each_kind_shows_what_a_notebook_can(code, monkeypatch):
    """No kernel, no printer: a picture or Markdown, and nothing that a page alone would read."""
    monkeypatch.delenv("COURSE_PRINT", raising=False)
    names = {"explore": explore, "exercise": exercise, "plot": plot, "tables": tables}
    names |= {"parity": parity, "predict": predict}
    made = eval(code, {**names, "glossary": glossary})
    (kind,) = made._repr_mimebundle_()
    assert kind in ("image/png", "image/svg+xml", "text/markdown")
    text = made._repr_mimebundle_()[kind] if kind == "text/markdown" else ""
    assert not any(mark in text for mark in ("{=html}", "{#", "](#", ":::", "](data:"))
    assert made._repr_mimebundle_() == notebook(made) != site(made)
    assert both(made)[FORMS]["site"] == site(made)


@pytest.mark.parametrize("lang", languages())
def test_terms_stand_in_one_order_on_the_site_and_in_a_notebook(lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    terms = [row[0] for row in glossary().rows]
    assert terms == sorted(terms, key=str.casefold)
    lines = site(glossary())["text/markdown"].splitlines()[2:]
    assert [line.partition("]{")[0] for line in lines] == [
        f"| [{row[0].parts[0]}" for row in glossary().rows
    ]


def test_what_is_alike_has_one_form():
    one = table(["a"], [["b"]])
    assert both(one) == site(one) == notebook(one)
    assert n(1.5) == "1.5"
    assert set(check("int8-p2", 120)._repr_mimebundle_()) == {"text/markdown", "text/plain"}
