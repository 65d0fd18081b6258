"""What a page says about itself: where to run it, what to read first, how to cite it."""

from collections.abc import Iterable, Mapping
from datetime import date
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from course_book.files import DATA
from course_book.text import words
from course_press.pages import share
from course_press.pages.pandoc import line_with
from course_press.source.book import Book
from course_press.source.chapter import Chapter, read_text
from course_press.source.errors import SourceError
from course_press.source.install import address, edition, published

FORMATS = ("epub", "pdf", "md", "apkg")
# Where the book as one file stands in the site, by course export: a build leaves this folder as it
# is.
FOLDER = "downloads"

# Where the pictures that shared links show stand in the site of a language.
CARDS = "cards"


def page_facts(book: Book, chapter: Chapter) -> dict[str, Any]:
    """What the templates ask about a page; a part that it does not have is `None`."""
    return {
        "links": links(book, chapter),
        "prerequisites": prerequisites(book, chapter),
        "citation": citation(book, chapter),
    }


def up(chapter: Chapter) -> str:
    """The way from a page to the root of its language."""
    return "../" * (len(chapter.path.parts) - 1)


def path() -> tuple[str, ...]:
    """The sections of the short path through the book, in its order."""
    return tuple(read_text(DATA / "path.csv").split()[1:])


def further(chapter: Chapter, pages: Mapping[str, Chapter]) -> dict[str, str] | None:
    """Where the short path goes on for who leaves a page of it, by the pages of its sections."""
    for here, id_ in reversed(list(pairwise(path()))):
        to = pages.get(id_)
        if pages.get(here) is chapter and to and to is not chapter:
            return {"href": f"{up(chapter)}{url(to)}#{id_}", "title": to.title}
    return None


def url(chapter: Chapter) -> str:
    """Where a page stands, from the root of its language."""
    return PurePosixPath(chapter.path).with_suffix(".html").as_posix()


def card(chapter: Chapter) -> str:
    """Where the picture of a page that a shared link shows stands in the site of its language."""
    return f"{CARDS}/{chapter.path.stem}.png"


def at_site(book: Book, path: str) -> str | None:
    """The whole address of a `path` of a language's site; `None` where the book has none."""
    site = str(book.meta.get("site-url") or "").rstrip("/")
    return f"{site}/{book.lang}/{path}" if site else None


def languages(book: Book, chapter: Chapter, langs: Iterable[str]) -> list[dict[str, Any]]:
    """The twins of a page, called as they call themselves, with addresses where there are."""
    site, page = str(book.meta.get("site-url") or "").rstrip("/"), url(chapter)
    twins = {lang: page.replace(f"chapters/{book.lang}/", f"chapters/{lang}/", 1) for lang in langs}
    return [
        {
            "code": lang,
            "name": words(lang)["ui-language"],
            "href": f"{up(chapter)}../{lang}/{twin}",
            "address": f"{site}/{lang}/{twin}" if site else None,
            "current": lang == book.lang,
        }
        for lang, twin in twins.items()
    ]


def shared(book: Book, chapter: Chapter, *, drawn: bool) -> dict[str, Any]:
    """What the head of a page tells whoever shows a link to it."""
    meta = book.meta
    title = str(meta["title"])
    return {
        "title": title if chapter.is_cover else f"{chapter.title} · {title}",
        "description": chapter.meta.get("description") or meta.get("description", ""),
        "lang": book.lang,
        "site": title,
        "url": at_site(book, url(chapter)),
        "card": at_site(book, card(chapter)) if drawn else None,
        "size": share.SIZE,
        "alt": chapter.title,
    }


def notebook(chapter: Chapter) -> str:
    """Where a page's notebook stands, in the repository and in the site of its language alike."""
    return f"notebooks/{chapter.path.parent.name}/{chapter.path.stem}.ipynb"


def links(book: Book, chapter: Chapter) -> dict[str, str | None]:
    """Notebook, Colab, edit and issue addresses; only the notebook where nothing is published."""
    repo, ref = address(book)
    there = published(book)
    branch = book.meta.get("repo-branch", "main")
    actions = book.meta.get("repo-actions", ())
    source = chapter.path.as_posix()
    has_notebook = (book.root / notebook(chapter)).is_file()
    slug = repo.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{slug}/blob/{ref}/{notebook(chapter)}"
    return {
        "notebook": f"{up(chapter)}{notebook(chapter)}" if has_notebook else None,
        "colab": colab if has_notebook and there and slug != repo else None,
        "edit": f"{repo}/edit/{branch}/{source}" if there and "edit" in actions else None,
        "issue": f"{repo}/issues/new?title={source}" if there and "issue" in actions else None,
    }


def prerequisites(book: Book, chapter: Chapter) -> list[dict[str, str]] | None:
    """The pages to read before this one, by their file names in the front matter."""
    names = chapter.meta.get("prerequisites")
    if names is None:
        return None
    by_name = {other.path.stem: other for other in book.chapters}
    line = line_with(chapter, "")
    for name in names if isinstance(names, list) else [names]:
        if name not in by_name or name == chapter.path.stem:
            said = f"prerequisites: {name!r} is no other page of this book"
            raise SourceError(line.file, 1, f"{said}, e.g. [{', '.join(by_name)}]")
    return [
        {"title": by_name[name].title, "href": up(chapter) + url(by_name[name])} for name in names
    ]


def citation(book: Book, chapter: Chapter) -> dict[str, str] | None:
    """How to cite a page; `None` where the book lacks author, date or address."""
    meta = book.meta
    if not (meta.get("author") and meta.get("date") and meta.get("site-url")):
        return None
    cover = chapter.path.stem == "index"
    try:
        year = str(date.fromisoformat(str(meta["date"])).year)
    except ValueError:
        said = f"book.date must be a day, e.g. 2026-01-31 (got {meta['date']!r})"
        raise SourceError(Path("_quarto.yml"), 1, said) from None
    given = {
        "author": str(meta["author"]),
        "title": chapter.title,
        "book": str(meta["title"]),
        "version": edition(),
        "year": year,
        "url": str(at_site(book, url(chapter))),
    }
    text = words(book.lang)["ui-cite-book" if cover else "ui-cite-page"].format(**given)
    key = [PurePosixPath(str(meta["site-url"])).name, book.lang, chapter.path.stem]
    # Braces: an author of several words is one name, and capitals stay.
    quoted = {"author": "author", "title": "book" if cover else "title"}
    quoted |= {} if cover else {"booktitle": "book"}
    fields = {name: f"{{{given[of]}}}" for name, of in quoted.items()}
    fields |= {name: given[name] for name in ("year", "version", "url")} | {"language": book.lang}
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    kind, name = ("book", "-".join(key[:2])) if cover else ("incollection", "-".join(key))
    opening = f"@{kind}{{{name},"
    return {"text": text, "bibtex": "\n".join([opening, *lines, "}"])}


def file_name(book: Book, to: str) -> str:
    """What an export is called, after the last part of the book's address."""
    return f"{PurePosixPath(str(book.meta.get('site-url', ''))).name or 'book'}-{book.lang}.{to}"


def downloads(book: Book, out: Path) -> list[dict[str, str]]:
    """What the cover links to: the exports that stand in the site `out`, and no others."""
    names = {to: file_name(book, to) for to in FORMATS}
    return [
        {
            "name": {"md": "Markdown", "apkg": "Anki"}.get(to, to.upper()),
            "href": f"../{FOLDER}/{name}",
        }
        for to, name in names.items()
        if (out / FOLDER / name).is_file()
    ]
