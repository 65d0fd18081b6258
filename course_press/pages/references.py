"""Cross-references and links between the pages of a book: that each leads somewhere."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TypeAlias

from course_press.pages.about import up, url
from course_press.pages.pandoc import XREF, PrintedPage, line_with
from course_press.source.book import Book
from course_press.source.chapter import Chapter
from course_press.source.labels import find_labels

# By label id: the chapter on whose page it stands.
Labels: TypeAlias = Mapping[str, Chapter]


def labels_of(pages: Sequence[PrintedPage]) -> Labels:
    """Where each label of these pages stands."""
    labels: dict[str, Chapter] = {}
    for page in pages:
        for label in page.data["labels"]:
            if label["id"] in labels:
                said = f"label #{label['id']} stands in {labels[label['id']].path} already"
                raise line_with(page.chapter, f"#{label['id']}").error(said)
            labels[label["id"]] = page.chapter
    return labels


def labels_written(book: Book) -> Labels:
    """Where each label of a book will stand, before its pages are printed."""
    return {label.id: chapter for chapter in book.chapters for label in find_labels(chapter)}


def fill_references(page: PrintedPage, labels: Labels) -> str:
    """A page's body with its cross-references leading to where their labels stand."""

    def reference(match: re.Match[str]) -> str:
        id_ = match[1]
        if id_ not in labels:
            said = f"cross-reference @{id_} has no target in this book"
            raise line_with(page.chapter, f"@{id_}").error(said)
        target = labels[id_]
        href = f"#{id_}" if target is page.chapter else f"{up(page.chapter)}{url(target)}#{id_}"
        return f'<a class="xref" href="{href}">'

    return XREF.sub(reference, page.body)


def check_links(pages: Sequence[PrintedPage]) -> None:
    """Every link between pages leads to a page, and to an anchor on it."""
    urls = {page.url: page for page in pages}
    for page in pages:
        for target in dict.fromkeys(page.data["links"]):
            file, _, anchor = target.partition("#")
            url = os.path.normpath(PurePosixPath(page.url).parent / file) if file else page.url
            if url not in urls:
                said = f"link to {target}: no such page in this book"
                raise line_with(page.chapter, file.removesuffix(".html")).error(said)
            if anchor and anchor not in urls[url].data["ids"]:
                said = f"link to {target}: no such anchor on that page"
                raise line_with(page.chapter, f"#{anchor}").error(said)
