"""What the press adds for explorers: the bundle where a page needs it, once; a script and a style
on those pages only.
"""

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from course_lib import CourseError
from course_press.outputs import vega as explorers
from course_press.run.execute import Cache

CELL = '```{python}\n#| code-fold: true\nplot.roofline({"X": (peak, bandwidth)}, {"A": 10})\n```'
EXPLORER = "```{python}\nfrom course_lib import explore\n\nexplore.decode()\n```"
LINE = "chapters/cells/one/line.qmd"


@pytest.fixture
def explored(book, monkeypatch):
    """The fixture book with an explorer in place of its figure; the bundle is a stand-in, which
    takes no seconds to make.
    """
    book.edit(LINE, CELL, EXPLORER)
    monkeypatch.setattr(explorers, "bundle", lambda cache: "window.vegaEmbed = null;")
    return book


def test_a_book_without_explorers_has_no_bundle(built):
    assert not (built / explorers.BUNDLE).exists()
    assert "explorer" not in (built / "en/chapters/en/one.html").read_text(encoding="utf-8")


def test_pages_with_explorers_bring_script_and_style_and_the_site_one_bundle(explored):
    explored.build(("en",))
    site = explored.root / "_site"
    page = (site / "en/chapters/en/one.html").read_text(encoding="utf-8")
    assert page.count('<link rel="stylesheet" href="../../../assets/explore.css">') == 1
    assert page.count("function withVega") == 1
    assert 'role="img" aria-label="A line that bends' in page
    other = (site / "en/chapters/en/two.html").read_text(encoding="utf-8")
    assert "explore" not in other
    assert [file.name for file in site.rglob("vega*") if file.suffix == ".js"] == ["vega.js"]
    assert (site / "assets/vendor/vega.LICENSE").is_file()


@pytest.mark.parametrize(
    ("new", "stays", "needed"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_the_bundle_stays_while_any_language_needs_it(tmp_path, monkeypatch, new, stays, needed):
    monkeypatch.setattr(explorers, "bundle", lambda cache: "window.vegaEmbed = null;")
    stage, other = tmp_path / "stage", tmp_path / "site" / "es"
    for folder, has in ((stage / "en", new), (other, stays)):
        (folder / "chapters").mkdir(parents=True)
        (folder / "chapters" / "one.html").write_text(
            f"<p>{explorers.EXPLORER if has else 'None.'}</p>"
        )
    explorers.finish(tmp_path, stage, [other])
    assert (stage / explorers.BUNDLE).is_file() == needed


def test_the_bundle_is_closed_made_once_and_asks_for_nothing(tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    text = explorers.bundle(cache)
    assert text.startswith("/* Vega")
    assert "(function () {" in text[:100]
    assert "window.vegaEmbed=" in text[-200:]
    assert text.rstrip().endswith("})();")
    assert "sourceMappingURL" not in text
    assert len(text) < 1_000_000
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert explorers.bundle(cache) == text


def test_what_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(explorers, "version", missing)
    with pytest.raises(
        CourseError,
        match=r"explorers need vl-convert-python and altair: pip install -e '.\[explore\]'",
    ):
        explorers.bundle(Cache(tmp_path))


def test_both_engines_put_the_same_script_and_style_on_pages():
    import yaml

    from tests.test_house import ROOT

    html = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["format"]["html"]
    assert "course_press/assets/explore.html" in html["include-after-body"]
    assert "course_press/assets/explore.css" in html["css"]
