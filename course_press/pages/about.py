"""What a page says about itself: where to run it, what to read first, how to cite it. Both engines
show it.
"""

import re
from collections.abc import Mapping
from datetime import date
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from course_lib import CourseError
from course_lib.book.text import words
from course_press.pages.pandoc import line_with, templates
from course_press.source.book import Book
from course_press.source.chapter import Chapter, SourceError
from course_press.source.files import swap_in

FORMATS = ("epub", "pdf")
FOLDER = "downloads"
"""Where the book as one file stands in the site, by course export: a build leaves this folder as it
is.
"""

PLACEHOLDER = "https://github.com/roofline-course/"
"""How the address starts with which the book comes: nothing of ours stands there until whoever
publishes sets another.
"""

_COVER_TITLE = re.compile(
    r'<header (?:class="title cover"|id="title-block-header").*?</header>', re.DOTALL
)
_DOWNLOADS = re.compile(r'\n<ul class="actions downloads">.*?</ul>', re.DOTALL)
_DRESSED = "<!-- dressed -->"
_TITLE_BLOCK = re.compile(r'<header id="title-block-header".*?</header>', re.DOTALL)


def about(book: Book, chapter: Chapter) -> dict[str, Any]:
    """What the templates ask about a page; a part that it does not have is `None`.

    Raises
    ------
    SourceError
        If a prerequisite is not a page of the book.
    """
    return {
        "links": links(book, chapter),
        "prerequisites": prerequisites(book, chapter),
        "citation": citation(book, chapter),
    }


def up(chapter: Chapter) -> str:
    """The way from a page to the root of its language."""
    return "../" * (len(chapter.path.parts) - 1)


def url(chapter: Chapter) -> str:
    """Where a page stands, from the root of its language."""
    return PurePosixPath(chapter.path).with_suffix(".html").as_posix()


def notebook(chapter: Chapter) -> str:
    """Where a page's notebook stands, in the repository and in the site of its language alike."""
    return f"notebooks/{chapter.path.parent.name}/{chapter.path.stem}.ipynb"


def address(book: Book) -> tuple[str, str]:
    """The repository, and the tag or commit of it that readers get: `repo-url` and `install-ref`,
    or this version's tag.
    """
    return str(book.meta.get("repo-url", "")).rstrip("/"), str(
        book.config.get("install-ref", f"v{version('course-lib')}")
    )


def links(book: Book, chapter: Chapter) -> dict[str, str | None]:
    """Notebook, Colab, edit and issue addresses, all from `_quarto.yml`."""
    repo, ref = address(book)
    branch = book.meta.get("repo-branch", "main")
    actions = book.meta.get("repo-actions", ())
    source = chapter.path.as_posix()
    has_notebook = (book.root / notebook(chapter)).is_file()
    slug = repo.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{slug}/blob/{ref}/{notebook(chapter)}"
    return {
        "notebook": f"{up(chapter)}{notebook(chapter)}" if has_notebook else None,
        "colab": colab if has_notebook and slug != repo else None,
        "edit": f"{repo}/edit/{branch}/{source}" if repo and "edit" in actions else None,
        "issue": f"{repo}/issues/new?title={source}" if repo and "issue" in actions else None,
    }


def prerequisites(book: Book, chapter: Chapter) -> list[dict[str, str]] | None:
    """The pages to read before this one, by their file names in the front matter; an empty list
    asks for none of them.
    """
    names = chapter.meta.get("prerequisites")
    if names is None:
        return None
    by_name = {other.path.stem: other for other in book.chapters}
    line = line_with(chapter, "")
    for name in names if isinstance(names, list) else [names]:
        if name not in by_name or name == chapter.path.stem:
            raise SourceError(
                line.file,
                1,
                f"prerequisites: {name!r} is no other page of this book, e.g. "
                f"[{', '.join(by_name)}]",
            )
    return [
        {"title": by_name[name].title, "href": up(chapter) + url(by_name[name])} for name in names
    ]


def citation(book: Book, chapter: Chapter) -> dict[str, str] | None:
    """How to cite a page, as a sentence and as BibTeX; `None` where the book lacks author, date or
    address.
    """
    meta = book.meta
    if not (meta.get("author") and meta.get("date") and meta.get("site-url")):
        return None
    cover = chapter.path.stem == "index"
    try:
        year = str(date.fromisoformat(str(meta["date"])).year)
    except ValueError:
        raise SourceError(
            Path("_quarto.yml"),
            1,
            f"book.date must be a day, e.g. 2026-01-31 (got {meta['date']!r})",
        ) from None
    given = {
        "author": str(meta["author"]),
        "title": chapter.title,
        "book": str(meta["title"]),
        "version": version("course-lib"),
        "year": year,
        "url": f"{str(meta['site-url']).rstrip('/')}/{book.lang}/{url(chapter)}",
    }
    text = words(book.lang)["ui-cite-book" if cover else "ui-cite-page"].format(**given)
    key = "-".join(
        [
            PurePosixPath(str(meta["site-url"])).name,
            book.lang,
            *([] if cover else [chapter.path.stem]),
        ]
    )
    return {"text": text, "bibtex": _bibtex(given, book.lang, key, whole=cover)}


def _bibtex(given: Mapping[str, str], lang: str, key: str, *, whole: bool) -> str:
    # Braces: an author of several words is one name, and capitals stay.
    fields = {
        "author": f"{{{given['author']}}}",
        "title": f"{{{given['book' if whole else 'title']}}}",
    }
    fields |= {} if whole else {"booktitle": f"{{{given['book']}}}"}
    fields |= {name: given[name] for name in ("year", "version", "url")} | {"language": lang}
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@{'book' if whole else 'incollection'}{{{key},", *lines, "}"])


def dress(book: Book, folder: Path) -> None:
    """Put the same into the pages that Quarto made of this book in `folder`, where it is not there
    yet.

    Raises
    ------
    CourseError
        If a page is none of Quarto's.
    """
    macros: Any = templates().get_template("about.html.j2").module
    ui = words(book.lang)
    for chapter in book.chapters:
        file = folder / url(chapter)
        text = file.read_text(encoding="utf-8") if file.is_file() else _DRESSED
        if _DRESSED in text:
            continue
        page = about(book, chapter)
        run = (
            f"<ul>{macros.run(page['links'], ui, ['colab'])}</ul>" if page["links"]["colab"] else ""
        )
        head = f"{run}{macros.prerequisites(page['prerequisites'], ui)}"
        title, end = _TITLE_BLOCK.search(text), text.rfind("</main>")
        if end < 0:
            raise CourseError(
                f"{url(chapter)} has no <main>, so it is no page of Quarto's: build with "
                f"--engine embedded"
            )
        at = title.end() if title else end
        foot = macros.citation(page["citation"], ui)
        file.write_text(
            f"{text[:at]}\n{_DRESSED}{head}{text[at:end]}{foot}{text[end:]}", encoding="utf-8"
        )


def file_name(book: Book, to: str) -> str:
    """What an export is called, after the last part of the book's address."""
    return f"{PurePosixPath(str(book.meta.get('site-url', ''))).name or 'book'}-{book.lang}.{to}"


def offer(book: Book, site: Path, out: Path) -> None:
    """Link from the cover in `site` to the exports that stand in `out`, and to no others."""
    cover = site / book.lang / "index.html"
    names = [
        (to, file_name(book, to))
        for to in FORMATS
        if (out / FOLDER / file_name(book, to)).is_file()
    ]
    items = "".join(
        f'<li><a href="../{FOLDER}/{name}" download>{to.upper()}</a></li>' for to, name in names
    )
    text = _DOWNLOADS.sub("", cover.read_text(encoding="utf-8"))
    if (title := _COVER_TITLE.search(text)) and items:
        end = title.end() - len("</header>")
        text = f'{text[:end]}\n<ul class="actions downloads">{items}</ul>{text[end:]}'
    swap_in(cover, text)
