import pytest

from course_press.check.counts import count
from course_press.source.chapter import read_chapter

FIGURE = '::: {#fig-a fig-alt="Curves."}\n```{python}\n#| code-fold: true\nplot()\n```\n\nTwo words.\n:::\n\n'
TABLE = "::: {#tbl-a}\n```{python}\n#| code-fold: true\ntable()\n```\n\nOne row.\n:::\n\n"
CELL = "```{python}\nspeed = way / time\n```\n\n"


@pytest.fixture
def counted(tmp_path):
    def page(text):
        (tmp_path / "one.qmd").write_text("---\ntitle: One\n---\n\n" + text, encoding="utf-8")
        return count(read_chapter(tmp_path, tmp_path / "one.qmd", "en"))

    return page


def test_words_stand_where_they_are_read(counted):
    found = counted(
        "Three `{python} n(a + b)` words.\n\n## Not this\n\n$$ a = b $$\n\n"
        + FIGURE
        + "::: {.callout-note title='Note'}\nBut these four words.\n:::\n"
    )
    assert (found["prose"], found["captions"], found["callouts"]) == (3, 2, 4)
    assert (found["figures"], found["before"], found["per-figure"]) == (1, 3, 9)


def test_what_is_collapsed_is_not_seen(counted):
    folded = "::: {.callout-note collapse='true' title='Data'}\n" + TABLE + CELL + ":::\n"
    assert counted(FIGURE + folded) == counted(FIGURE)
    assert counted(FIGURE + TABLE)["tables"] == 1


@pytest.mark.parametrize(
    ("said", "unnamed"),
    [("Words.", 1), ("The cell divides `way` by time.", 0), ("`{python} speed`", 1)],
)
def test_an_open_cell_is_named_by_a_sentence(counted, said, unnamed):
    assert counted(CELL + said)["unnamed"] == unnamed
    assert counted(CELL.replace("\nspeed", "\n#| code-fold: true\nspeed") + said)["unnamed"] == 0
