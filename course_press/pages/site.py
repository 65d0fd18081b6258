"""Prints the book as a site with the embedded engine: pandoc, two Lua filters, one template."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from markupsafe import Markup, escape

from course_lib import CourseError
from course_lib.book.text import words
from course_press.check import parity
from course_press.outputs import vega as explorers
from course_press.pages import about, csp
from course_press.pages.pandoc import (
    ASSETS,
    Printed,
    line_with,
    pandoc_version,
    print_pages,
    templates,
)
from course_press.pages.searchable import sections
from course_press.run.execute import Cache, environment
from course_press.source.book import Book, Part, languages, read_book
from course_press.source.files import put, staged

MARKER = ".course-site"
"""A file in every built site, there before all else of it: a folder without it is never
replaced.
"""

_XREF = re.compile(r'<a class="xref" href="#([^"]+)" data-form="(full|number)"></a>')
Labels: TypeAlias = Mapping[str, tuple[Printed, Mapping[str, str]]]
"""By label id: the page it stands on, and its kind, number and title."""


def build(
    root: Path, langs: Sequence[str], out: Path, *, say: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Build the site in these languages and put it in the place of the old one.

    Nothing of `out` changes before every page is printed.

    Parameters
    ----------
    root : the book's folder.
    langs : languages to build; others that `out` already holds stay.
    out : the site's folder.
    say : told what is going on, a line at a time.

    Returns
    -------
    The pages written.

    Raises
    ------
    SourceError
        If a chapter cannot be read, run or printed.
    CourseError
        If `out` holds something that is not a site of ours.
    """
    check_out(out)
    with staged(out, MARKER) as stage:
        for book, pages in printed(root, langs, say=say):
            _write(book, pages, stage, every_language(root, langs, out))
        finish(root, stage, out, langs)
    return sorted(page for lang in langs for page in (out / lang).rglob("*.html"))


def printed(
    root: Path, langs: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> list[tuple[Book, list[Printed]]]:
    """The book in these languages, and its pages: run and printed, or reused where nothing has
    changed.
    """
    books = [read_book(root, lang) for lang in langs]
    pages = print_pages(books, Cache(root / ".cache" / "course"), environment(root), say=say)
    return list(zip(books, pages, strict=True))


def every_language(root: Path, langs: Sequence[str], out: Path) -> list[str]:
    """The languages that `out` holds once these are built, in the book's order."""
    return [
        lang for lang in languages(root) if lang in langs or (out / lang / "index.html").is_file()
    ]


def check_out(out: Path) -> None:
    """Refuse a folder that holds something else: a build replaces what is there."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        raise CourseError(
            f"--out {str(out)!r} holds files that are not a site built here: choose a new "
            f"or empty folder"
        )


def finish(root: Path, stage: Path, out: Path, langs: Sequence[str]) -> None:
    """Add what both engines share, the landing page and the marker, and swap the languages built
    into `out`.
    """
    every = every_language(root, langs, out)
    meta = read_book(root, every[0]).meta
    landing = templates().get_template("landing.html.j2")
    context = {
        "book": {
            "title": meta["title"],
            "subtitle": meta.get("subtitle", ""),
            "description": meta.get("description", ""),
        },
        "languages": [
            {"code": lang, "name": words(lang)["ui-language"], "href": f"{lang}/index.html"}
            for lang in every
        ],
        "w": words(every[0]),
        "root": "",
    }
    text = landing.render(context, csp=csp.policy(landing.render(context, csp="")))
    (stage / "index.html").write_text(text, encoding="utf-8")
    (stage / MARKER).write_text(
        "Written by course build: the next build replaces this folder's languages.\n"
    )
    shutil.copytree(
        ASSETS,
        stage / "assets",
        ignore=shutil.ignore_patterns("*.lua", "*.j2", "*.scss", "*.html", "*.woff2"),
        dirs_exist_ok=True,
    )
    for style in ASSETS.glob("*.css"):
        (stage / "assets" / style.name).write_text(_with_fonts(style), encoding="utf-8")
    explorers.finish(root, stage, [out / lang for lang in every if lang not in langs])
    for lang in langs:
        about.offer(read_book(root, lang), stage, out)
    put(stage, out, MARKER)


def _with_fonts(style: Path) -> str:
    """A style sheet that holds its fonts: one that comes later comes too late for what has been
    laid out without it.
    """

    def held(match: re.Match[str]) -> str:
        return f'url("data:font/woff2;base64,{base64.b64encode((style.parent / match[1]).read_bytes()).decode()}")'  # noqa: E501

    return re.sub(r'url\("([^":]+\.woff2)"\)', held, style.read_text(encoding="utf-8"))


def _write(book: Book, pages: Sequence[Printed], stage: Path, langs: Sequence[str]) -> None:
    labels = labels_of(pages)
    urls = {page.url: page for page in pages}
    stale = _stale(book, words(book.lang))
    template = templates().get_template("page.html.j2")
    for page in pages:
        _check_links(page, urls)
        file = stage / book.lang / page.url
        file.parent.mkdir(parents=True, exist_ok=True)
        context = _context(book, page, pages, labels, langs, stale)
        frame = template.render({**context, "page": {**context["page"], "body": ""}, "csp": ""})
        file.write_text(template.render({**context, "csp": csp.policy(frame)}), encoding="utf-8")
        for image in page.data["images"]:
            target = stage / book.lang / page.chapter.path.parent / image
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(book.root / page.chapter.path.parent / image, target)
        if (notebook := book.root / about.notebook(page.chapter)).is_file():
            target = stage / book.lang / about.notebook(page.chapter)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(notebook, target)
    index = {
        "pages": [_searchable(page, resolved(page, labels, words(book.lang))) for page in pages]
    }
    script = f"window.COURSE_SEARCH = {json.dumps(index, ensure_ascii=False)};\n"
    (stage / book.lang / "search.js").write_text(script, encoding="utf-8")


def labels_of(pages: Sequence[Printed]) -> Labels:
    """Where each label stands, and what references to it say."""
    labels: dict[str, tuple[Printed, Mapping[str, str]]] = {}
    for page in pages:
        for label in page.data["labels"]:
            if label["id"] in labels:
                other = labels[label["id"]][0].chapter.path
                raise line_with(page.chapter, f"#{label['id']}").error(
                    f"label #{label['id']} stands in {other} already"
                )
            labels[label["id"]] = (page, label)
    return labels


def _label_text(label: Mapping[str, str], ui: Mapping[str, str]) -> str:
    """What a reference says: "Figure 2.1"; what has no number is called by its title."""
    return (
        f"{ui['ui-' + label['kind']]}\u00a0{label['number']}" if label["number"] else label["title"]
    )


def resolved(page: Printed, labels: Labels, ui: Mapping[str, str]) -> str:
    """A page's body with its cross-references filled in."""

    def reference(match: re.Match[str]) -> str:
        id_, form = match.groups()
        if id_ not in labels:
            raise line_with(page.chapter, f"@{id_}").error(
                f"cross-reference @{id_} has no target in this book"
            )
        target, label = labels[id_]
        href = f"#{id_}" if target is page else f"{_up(page.url)}{target.url}#{id_}"
        text = label["number"] if form == "number" and label["number"] else _label_text(label, ui)
        return f'<a class="xref" href="{href}">{escape(text)}</a>'

    return _XREF.sub(reference, page.body)


def _check_links(page: Printed, urls: Mapping[str, Printed]) -> None:
    for target in page.data["links"]:
        file, _, anchor = target.partition("#")
        url = (
            str(PurePosixPath(_normal(PurePosixPath(page.url).parent / file))) if file else page.url
        )
        if url not in urls:
            raise line_with(page.chapter, file.removesuffix(".html")).error(
                f"link to {target}: no such page in this book"
            )
        if anchor and f'id="{anchor}"' not in urls[url].body:
            raise line_with(page.chapter, f"#{anchor}").error(
                f"link to {target}: no such anchor on that page"
            )


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return PurePosixPath(*parts)


def _up(url: str) -> str:
    return "../" * (len(PurePosixPath(url).parts) - 1)


def _context(
    book: Book,
    page: Printed,
    pages: Sequence[Printed],
    labels: Labels,
    langs: Sequence[str],
    stale: Mapping[Path, str],
) -> dict[str, Any]:
    meta, ui, base = book.meta, words(book.lang), _up(page.url)
    site, here = str(meta.get("site-url", "")).rstrip("/"), pages.index(page)

    def linked(other: Printed) -> dict[str, Any]:
        return {
            "title": other.chapter.title,
            "number": str(other.chapter.number or ""),
            "href": base + other.url,
            "current": other is page,
        }

    by_path = {other.chapter.path: other for other in pages}
    nav = [
        {"part": item.title, "items": [linked(by_path[chapter.path]) for chapter in item.chapters]}
        if isinstance(item, Part)
        else linked(by_path[item.path])
        for item in book.contents
    ]
    urls = {
        lang: page.url.replace(f"chapters/{book.lang}/", f"chapters/{lang}/", 1) for lang in langs
    }
    return {
        "lang": book.lang,
        "w": ui,
        "book": {
            "title": meta["title"],
            "subtitle": meta.get("subtitle", ""),
            "author": meta.get("author", ""),
            "description": meta.get("description", ""),
            "site_url": site,
            "repo_url": meta.get("repo-url", ""),
        },
        "page": {
            "title": page.chapter.title,
            "number": str(page.chapter.number or ""),
            "description": page.chapter.meta.get("description", ""),
            "math": "<math" in page.body,
            "sortable": any(f'class="{name}"' in page.body for name in ("sortable", "cards")),
            "exercises": 'class="exercise"' in page.body,
            "explorers": explorers.EXPLORER in page.body,
            "path": page.url,
            "body": Markup(resolved(page, labels, ui)),  # noqa: S704 - pandoc's own output
            "toc": _nested(page.data["toc"]),
            # Unnumbered pages are for looking things up, not for reading through.
            "minutes": page.chapter.number and page.data["minutes"],
            "work": page.chapter.number and page.data["work"],
            **about.about(book, page.chapter),
            "prev": linked(pages[here - 1]) if here else None,
            "next": linked(pages[here + 1]) if here + 1 < len(pages) else None,
            "is_cover": page.chapter.is_cover,
            "stale": stale.get(page.chapter.path),
        },
        "nav": nav,
        "languages": [
            {
                "code": lang,
                "name": words(lang)["ui-language"],
                "href": f"{base}../{lang}/{urls[lang]}",
                "current": lang == book.lang,
            }
            for lang in langs
        ],
        "alternates": [{"code": lang, "href": f"{site}/{lang}/{urls[lang]}"} for lang in langs]
        if site
        else [],
        "canonical": f"{site}/{book.lang}/{page.url}" if site else None,
        "base": base,
        "root": base + "../",
        "version": version("course-lib"),
        "built_with": f"pandoc {pandoc_version()}",
    }


def _stale(book: Book, ui: Mapping[str, str]) -> dict[Path, str]:
    """What pages say whose English has moved on, by the page's path."""
    if book.lang == parity.SOURCE:
        return {}
    stamps = parity.read_stamps(book.root, book.lang)
    counts = {
        page.path: len(parity.stale_sections(source, stamps)) for source, page in parity.pairs(book)
    }
    return {
        path: ui["ui-stale"].replace("{n}", str(count)) for path, count in counts.items() if count
    }


def _nested(toc: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    top: list[dict[str, Any]] = []
    for entry in toc:
        item = {
            "id": entry["id"],
            "number": entry["number"],
            "title": entry["title"],
            "children": [],
        }
        (top[-1]["children"] if entry["level"] > 2 and top else top).append(item)
    return top


def _searchable(page: Printed, body: str) -> dict[str, Any]:
    number = str(page.chapter.number or "")
    return {
        "url": page.url,
        "title": page.chapter.title,
        "number": number,
        "sections": sections(body),
    }
