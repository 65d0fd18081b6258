"""Prints the book as a site with the embedded engine: pandoc, two Lua filters, one template."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import pypandoc
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from course_lib import CourseError
from course_lib.text import words
from course_press import parity
from course_press.book import Book, Part, languages, read_book
from course_press.printing import ASSETS, Printed, line_with, print_page
from course_press.run import Cache, environment, run

MARKER = ".course-site"
"""A file in every built site: a folder without it is never replaced."""

_XREF = re.compile(r'<a class="xref" href="#([^"]+)" data-form="(full|number)"></a>')
Labels: TypeAlias = Mapping[str, tuple[Printed, Mapping[str, str]]]
"""By label id: the page it stands on, and its kind, number and title."""


def build(root: Path, langs: Sequence[str], out: Path, *, say: Callable[[str], None] = lambda _: None) -> list[Path]:
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
    cache, fingerprint = Cache(root / ".cache" / "course"), environment(root)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as folder:
        stage = Path(folder)
        for lang in langs:
            book = read_book(root, lang)
            pages = []
            for chapter in book.chapters:
                say(f"{lang} · {chapter.title}")
                ran = run(chapter, root=root, lang=lang, to="site", cache=cache, fingerprint=fingerprint)
                pages.append(print_page(book, chapter, ran, cache))
            _write(book, pages, stage, every_language(root, langs, out))
        finish(root, stage, out, langs)
    return sorted(page for lang in langs for page in (out / lang).rglob("*.html"))


def every_language(root: Path, langs: Sequence[str], out: Path) -> list[str]:
    """The languages that `out` holds once these are built, in the book's order."""
    return [lang for lang in languages(root) if lang in langs or (out / lang / "index.html").is_file()]


def check_out(out: Path) -> None:
    """Refuse a folder that holds something else: a build replaces what is there."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / MARKER).exists()):
        raise CourseError(f"--out {str(out)!r} holds files that are not a site built here: choose a new or empty folder")


def finish(root: Path, stage: Path, out: Path, langs: Sequence[str]) -> None:
    """Add what both engines share, the landing page and the marker, and swap the languages built into `out`."""
    every = every_language(root, langs, out)
    meta = read_book(root, every[0]).meta
    text = (
        _templates()
        .get_template("landing.html.j2")
        .render(
            book={"title": meta["title"], "subtitle": meta.get("subtitle", ""), "description": meta.get("description", "")},
            languages=[{"code": lang, "name": words(lang)["ui-language"], "href": f"{lang}/index.html"} for lang in every],
            w=words(every[0]),
            root="",
        )
    )
    (stage / "index.html").write_text(text, encoding="utf-8")
    (stage / MARKER).write_text("Written by course build: the next build replaces this folder's languages.\n")
    shutil.copytree(ASSETS, stage / "assets", ignore=shutil.ignore_patterns("*.lua", "*.j2", "*.scss"), dirs_exist_ok=True)
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-old-") as old:
        for item in stage.iterdir():
            _swap(item, out / item.name, Path(old) / item.name)


def _swap(new: Path, place: Path, aside: Path) -> None:
    """Put `new` in its place; what stood there goes aside, and comes back if that fails."""
    if place.exists():
        place.rename(aside)
    try:
        new.rename(place)
    except OSError:
        if aside.exists():
            aside.rename(place)
        raise


def _templates() -> Environment:
    return Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _write(book: Book, pages: Sequence[Printed], stage: Path, langs: Sequence[str]) -> None:
    labels = _labels(pages)
    urls = {page.url: page for page in pages}
    template = _templates().get_template("page.html.j2")
    for page in pages:
        _check_links(page, urls)
        file = stage / book.lang / page.url
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(template.render(_context(book, page, pages, labels, langs)), encoding="utf-8")
        for image in page.data["images"]:
            target = stage / book.lang / page.chapter.path.parent / image
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(book.root / page.chapter.path.parent / image, target)
        if (notebook := book.root / _notebook(page)).is_file():
            target = stage / book.lang / _notebook(page)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(notebook, target)
    index = {"pages": [_searchable(page, labels, words(book.lang)) for page in pages]}
    script = f"window.COURSE_SEARCH = {json.dumps(index, ensure_ascii=False)};\n"
    (stage / book.lang / "search.js").write_text(script, encoding="utf-8")


def _labels(pages: Sequence[Printed]) -> Labels:
    labels: dict[str, tuple[Printed, Mapping[str, str]]] = {}
    for page in pages:
        for label in page.data["labels"]:
            if label["id"] in labels:
                other = labels[label["id"]][0].chapter.path
                raise line_with(page.chapter, f"#{label['id']}").error(f"label #{label['id']} stands in {other} already")
            labels[label["id"]] = (page, label)
    return labels


def _label_text(label: Mapping[str, str], ui: Mapping[str, str]) -> str:
    """What a reference says: "Figure 2.1"; what has no number is called by its title."""
    return f"{ui['ui-' + label['kind']]}\u00a0{label['number']}" if label["number"] else label["title"]


def _resolved(page: Printed, labels: Labels, ui: Mapping[str, str]) -> str:
    def reference(match: re.Match[str]) -> str:
        id_, form = match.groups()
        if id_ not in labels:
            raise line_with(page.chapter, f"@{id_}").error(f"cross-reference @{id_} has no target in this book")
        target, label = labels[id_]
        href = f"#{id_}" if target is page else f"{_up(page.url)}{target.url}#{id_}"
        text = label["number"] if form == "number" and label["number"] else _label_text(label, ui)
        return f'<a class="xref" href="{href}">{escape(text)}</a>'

    return _XREF.sub(reference, page.body)


def _check_links(page: Printed, urls: Mapping[str, Printed]) -> None:
    for target in page.data["links"]:
        file, _, anchor = target.partition("#")
        url = str(PurePosixPath(_normal(PurePosixPath(page.url).parent / file))) if file else page.url
        if url not in urls:
            raise line_with(page.chapter, file.removesuffix(".html")).error(f"link to {target}: no such page in this book")
        if anchor and f'id="{anchor}"' not in urls[url].body:
            raise line_with(page.chapter, f"#{anchor}").error(f"link to {target}: no such anchor on that page")


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return PurePosixPath(*parts)


def _up(url: str) -> str:
    return "../" * (len(PurePosixPath(url).parts) - 1)


def _context(book: Book, page: Printed, pages: Sequence[Printed], labels: Labels, langs: Sequence[str]) -> dict[str, Any]:
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
    urls = {lang: page.url.replace(f"chapters/{book.lang}/", f"chapters/{lang}/", 1) for lang in langs}
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
            "sortable": 'class="sortable"' in page.body,
            "exercises": 'class="exercise"' in page.body,
            "path": page.url,
            "body": Markup(_resolved(page, labels, ui)),  # noqa: S704 - pandoc's own output
            "toc": _nested(page.data["toc"]),
            # Unnumbered pages are for looking things up, not for reading through.
            "minutes": page.chapter.number and page.data["minutes"],
            "links": _links(book, page),
            "prev": linked(pages[here - 1]) if here else None,
            "next": linked(pages[here + 1]) if here + 1 < len(pages) else None,
            "is_cover": page.chapter.is_cover,
            "stale": _stale(book, page, ui),
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
        "alternates": [{"code": lang, "href": f"{site}/{lang}/{urls[lang]}"} for lang in langs] if site else [],
        "canonical": f"{site}/{book.lang}/{page.url}" if site else None,
        "base": base,
        "root": base + "../",
        "version": version("course-lib"),
        "built_with": f"pandoc {pypandoc.get_pandoc_version()}",
    }


def _stale(book: Book, page: Printed, ui: Mapping[str, str]) -> str | None:
    """What a page says where its English has moved on."""
    if book.lang == parity.SOURCE:
        return None
    sources = {translation.path: source for source, translation in parity.pairs(book)}
    source = sources.get(page.chapter.path)
    stale = parity.stale_sections(source, parity.read_stamps(book.root, book.lang)) if source else []
    return ui["ui-stale"].replace("{n}", str(len(stale))) if stale else None


def _links(book: Book, page: Printed) -> dict[str, str | None]:
    """Notebook, Colab, edit and issue addresses, all from `repo-url` and `repo-branch`."""
    repo = str(book.meta.get("repo-url", "")).rstrip("/")
    branch = book.meta.get("repo-branch", "main")
    actions = book.meta.get("repo-actions", ())
    source = page.chapter.path.as_posix()
    notebook = _notebook(page)
    has_notebook = (book.root / notebook).is_file()
    slug = repo.removeprefix("https://github.com/")
    colab = f"https://colab.research.google.com/github/{slug}/blob/{branch}/{notebook}"
    return {
        "notebook": f"{_up(page.url)}{notebook}" if has_notebook else None,
        "colab": colab if has_notebook and slug != repo else None,
        "edit": f"{repo}/edit/{branch}/{source}" if repo and "edit" in actions else None,
        "issue": f"{repo}/issues/new?title={source}" if repo and "issue" in actions else None,
    }


def _notebook(page: Printed) -> str:
    """Where a page's notebook stands, in the repository and in the site of its language alike."""
    return f"notebooks/{page.chapter.path.parent.name}/{page.chapter.path.stem}.ipynb"


def _nested(toc: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    top: list[dict[str, Any]] = []
    for entry in toc:
        item = {"id": entry["id"], "number": entry["number"], "title": entry["title"], "children": []}
        (top[-1]["children"] if entry["level"] > 2 and top else top).append(item)
    return top


def _searchable(page: Printed, labels: Labels, ui: Mapping[str, str]) -> dict[str, Any]:
    def named(match: re.Match[str]) -> str:
        return _label_text(labels[match[1]][1], ui) if match[1] in labels else match[0]

    sections = [
        {**section, "text": re.sub(r"@((?:fig|tbl|eq|sec|lst)-[\w-]+)", named, section["text"])}
        for section in page.data["sections"]
        if section["text"] or section["title"]
    ]
    return {"url": page.url, "title": page.chapter.title, "number": str(page.chapter.number or ""), "sections": sections}
