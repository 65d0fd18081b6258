"""What a reader sees of a page: words, figures, tables, and code that no sentence names."""

import ast
import re
from collections.abc import Iterator

from course_press.source.book import Book
from course_press.source.chapter import INLINE, Cell, Chapter, div_opening, is_div_end

SEEN = ("prose", "captions", "callouts")
COUNTED = (*SEEN, "figures", "per-figure", "before", "tables", "unnamed")

_NOT_WORDS = re.compile(r"\$[^$]*\$|\]\([^)]*\)|\[[^\]]*@[^\]]*\]|\{[^}]*\}|[#*>|:-]{2,}")


def count(chapter: Chapter) -> dict[str, int]:
    """Count a page as written, by `COUNTED`; a collapsed callout is opened or left by its reader.

    `before` are the words before the first figure, `unnamed` the open cells that no sentence names.
    """
    found = dict.fromkeys(COUNTED, 0)
    cells: list[Cell] = []
    open_: list[str] = []  # the divs around an item
    named, maths, prose = "", False, set(chapter.prose)
    for item in chapter.items:
        inside, words = " ".join(open_), sum(found[kind] for kind in SEEN)
        folded = "collapse" in inside
        if isinstance(item, Cell):
            cells += [] if folded else [item]
        elif item in prose and (opening := div_opening(item)):
            open_.append(opening)
            if not folded and opening.startswith("{#fig-"):
                found["before"] = found["before"] if found["figures"] else words
                found["figures"] += 1
            found["tables"] += not folded and opening.startswith("{#tbl-")
        elif item in prose and is_div_end(item):
            open_.pop()
        elif item in prose and not folded:
            maths ^= item.text.count("$$") == 1
            if not (maths or "$$" in item.text or item.text.startswith("#")):
                kind = "callouts" if "callout" in inside else "prose"
                kind = "captions" if re.search("#(fig|tbl)-", inside) else kind
                text = INLINE.sub("1", item.text)
                found[kind] += len(_NOT_WORDS.sub(" ", text).split())
                named += " ".join(re.findall(r"`([^`]+)`", text)) + " "
    names = set(re.findall(r"\w+", named))
    for cell in cells:
        shown = cell.options.get("echo", True) and not cell.options.get("code-fold", False)
        nodes = [*ast.walk(ast.parse(cell.code))] if shown else []
        found["unnamed"] += bool(nodes) and not names & {
            getattr(one, "id", getattr(one, "attr", getattr(one, "name", ""))) for one in nodes
        }
    words = sum(found[kind] for kind in SEEN)
    return found | {"per-figure": words // max(1, found["figures"])}


def counted_pages(book: Book) -> Iterator[tuple[str, dict[str, int]]]:
    """Each numbered page of a book, by language and name, and what is counted on it."""
    numbered = (one for one in book.chapters if one.number is not None)
    return ((f"{book.lang}/{one.path.stem}", count(one)) for one in numbered)
