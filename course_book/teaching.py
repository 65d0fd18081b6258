"""What a course is planned with: how concepts build on one another, and mistakes."""

import csv
from functools import cache
from typing import NamedTuple

from course_book.exercises import CHAPTERS, all, common_texts
from course_book.files import DATA
from course_book.plot import Diagram, builds_on
from course_book.tables import Cards, Folded, cards
from course_book.text import Span, language, n, plain, t, table
from course_book.text.markdown import joined

# The chapters in four parts, whose names are rows of `data/words.csv`.
PARTS = {
    "part-foundations": CHAPTERS[:3],
    "part-one-chip": CHAPTERS[3:9],
    "part-many-chips": CHAPTERS[9:11],
    "part-whole-models": CHAPTERS[11:],
}


class Concept(NamedTuple):
    """A concept: its row in `data/words.csv`, the chapter and section that teach it, its needs."""

    term: str
    page: str
    section: str
    needs: tuple[str, ...]

    @property
    def part(self) -> str:
        """The key in `PARTS` of the part that teaches it."""
        return next(part for part, pages in PARTS.items() if self.page in pages)


@cache
def concepts() -> tuple[Concept, ...]:
    """The concepts of `data/concepts.csv`, in the order in which the book teaches them."""
    with (DATA / "concepts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return tuple(
        Concept(row["term"], page, section, tuple(row["needs"].split()))
        for row in rows
        for page, _, section in [row["section"].partition("#")]
    )


def concept_map() -> Diagram:
    """The concepts, each below all that it needs, in the colors of the book's parts."""
    return builds_on(
        {t(one.term): (t(one.part), [t(need) for need in one.needs]) for one in concepts()},
        title=t("concept-map"),
    )


def concept_table() -> Cards:
    """The concepts, the section that teaches each, and what each needs: the map in words."""
    rows = []
    for one in concepts():
        needs = [Span(plain(t(need)), to=f"#concept-{need}") for need in one.needs]
        name = Span(plain(t(one.term)), id=f"concept-{one.term}")
        where = Span(plain(one.page), to=f"@{one.section}")
        rows.append([name, where, plain(*joined(", ", needs))])
    return cards([t("concept"), t("taught-in"), t("needs")], rows, "lll")


def mistake_tables() -> Folded:
    """By chapter, the mistakes that its exercises recognize, with feedback and exercises."""
    said = common_texts(language())["misconceptions"]
    header = [t("mistake"), t("feedback"), t("exercises")]
    found = []
    for chapter in CHAPTERS:
        by_mistake: dict[str, list[Span]] = {}
        for one in (one for one in all() if one.chapter == chapter):
            title = plain(one.variant().text("title"))
            for mistake in one.misconceptions:
                link = Span(title, to=f"{chapter}.qmd#exercise-{one.id}")
                by_mistake.setdefault(mistake, []).append(link)
        rows = [
            [said[mistake]["name"], said[mistake]["text"], plain(*joined(" · ", links))]
            for mistake, links in sorted(by_mistake.items(), key=lambda item: said[item[0]]["name"])
        ]
        name = f"{t(f'chapter-{chapter}')} ({n(len(rows))})"
        found.append((name, f"mistakes-{chapter}", table(header, rows, "lll")))
    return Folded(found)
