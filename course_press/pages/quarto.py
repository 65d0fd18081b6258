"""The other engine: Quarto renders the same source, and its pages get what ours say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pypandoc
from lxml import html
from markupsafe import escape

from course_lib import CourseError
from course_book.text import words
from course_press.check import parity
from course_press.pages import about, share
from course_press.pages import site as embedded
from course_press.pages.pandoc import draw_pictures
from course_press.pages.references import labels_written
from course_press.source.assets import ASSETS, templates
from course_press.source.book import Book, Say, read_book, silent
from course_press.source.chapter import Chapter
from course_press.source.errors import MissingError
from course_press.source.files import staged, swap_in
from course_press.source.install import address, published
from course_press.source.labels import label_facts

GET = "get it from quarto.org, with conda (environment.yml), or pip install -e '.[quarto]'"

# On a page to which everything has been added.
_COMPLETE = "data-complete"
# What Quarto can say of a page to share and ours do not: whose it is.
_OWNERS = ("twitter:site", "twitter:creator")
# How the scripts begin that only pages with an element of a class need.
_ONLY = {
    "calculator": ("// course_lib's steps, translated", "// The calculator:"),
    "trace": ("// course_tools.diagnosis, as trees", "// Reads a trace", "// The box for a reader"),
}
_TITLE = "title-block-header"


def executable() -> str | None:
    """The path of `quarto`, or `None`."""
    return shutil.which("quarto")


def build(
    root: Path, langs: Sequence[str], out: Path, *, answers: bool = False, say: Say = silent
) -> list[Path]:
    """Render the book with Quarto, one profile a language, in place of the old site."""
    quarto = executable()
    if not quarto:
        raise MissingError(f"quarto is not on PATH: {GET}")
    embedded.check_out(out)
    book_in = cache(partial(read_book, root, answers=answers))  # each is read once
    every = embedded.every_language(root, langs, out)
    with staged(out) as stage:
        for lang in langs:
            say(f"{lang} · quarto render")
            where = ["render", "--profile", lang, "--output-dir", str((stage / lang).resolve())]
            where += ["--metadata", "answers:true"] if answers else []
            where += ["--metadata", "published:true"] if published(book_in(lang)) else []
            env = {**os.environ, "QUARTO_PYTHON": sys.executable}
            done = subprocess.run(
                [quarto, *where], cwd=root, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                told = (done.stdout + done.stderr)[-3000:].strip()
                raise CourseError(f"quarto could not render the {lang} book:\n{told}")
            add_facts(book_in(lang), stage / lang)
        (stage / embedded.MARKER).touch()  # a site from here on
        embedded.write_slides(root, langs, stage, say=say)
        for lang in langs:
            link_up(book_in(lang), stage, every)
            link_downloads(book_in(lang), stage, out)
        embedded.put_in_place(book_in(every[0]), every, stage, out)
    found = (page for lang in langs for page in (out / lang).rglob("*.html"))
    return sorted(page for page in found if page.parent.name != share.DECKS)


def add_facts(book: Book, folder: Path, *, draw: bool = True) -> None:
    """Add to Quarto's pages in `folder` what ours say about themselves, where it is not yet."""
    macros, ui, labels = _macros(), words(book.lang), label_facts(book)
    written = labels_written(book)
    on = {id_: written[id_] for id_ in about.path() if id_ in written}
    pages = [one for one in _pages(book, folder) if not one[1].get(_COMPLETE)]
    if draw and pages and book.meta.get("site-url"):
        _draw_cards(book, {chapter.path.stem for chapter, _, _ in pages}, folder)
    for chapter, page, main in pages:
        page.set(_COMPLETE, "true")
        page.body.set("data-root", f"{about.up(chapter)}../")
        _name_sections(main, labels, ui)
        _let_references_agree(main, book.lang)
        _list_own_sources(page)
        _drop_unused(page)
        if not published(book):
            _lead_nowhere(page, address(book)[0])
        drawn = (folder / about.card(chapter)).is_file()
        _tell_others(page.head, str(macros.shared(about.shared(book, chapter, drawn=drawn))))
        facts = about.page_facts(book, chapter)
        title = main.find(f".//*[@id='{_TITLE}']")
        said = str(macros.prerequisites(facts["prerequisites"], ui))
        if title is not None and not title.find_class("description"):
            said = f"{macros.lead(chapter.meta.get('description'))}{said}"
        if chapter.is_cover:
            _drop_headings(page, main)
        for new in reversed(html.fragments_fromstring(said.strip())):
            if title is None:
                main.append(new)
            else:
                title.addnext(new)
        main.extend(html.fragments_fromstring(str(macros.citation(facts["citation"], ui)).strip()))
        _mark_path(page, main, chapter, on, ui)
        for path, text in embedded.page_files(about.url(chapter), _serialized(page)).items():
            (folder / path).write_text(text, encoding="utf-8")
    site, names = str(book.meta.get("site-url") or "").rstrip("/"), folder / "sitemap.xml"
    if site and names.is_file():
        # In Quarto's own map every address lacks the folder of the language.
        names.write_text(share.sitemap(site, {book.lang: folder}), encoding="utf-8")


def link_up(book: Book, site: Path, langs: Sequence[str]) -> None:
    """Let Quarto's pages lead to their twins, decks and notebooks, put beside; to nothing else."""
    macros, ui, folder = _macros(), words(book.lang), site / book.lang
    for chapter, page, main in _pages(book, folder):
        for old in [*page.xpath("/html/head/link[@hreflang]"), *page.find_class("beside")]:
            old.drop_tree()
        twins = about.languages(book, chapter, langs)
        for new in html.fragments_fromstring(str(macros.alternates(twins)).strip()):
            new.tail = None
            page.head.append(new)
        links = about.links(book, chapter)
        if links["notebook"]:
            (folder / "notebooks" / book.lang).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(book.root / about.notebook(chapter), folder / about.notebook(chapter))
        deck = f"{share.DECKS}/{chapter.path.stem}.html"
        links["slides"] = about.up(chapter) + deck if (folder / deck).is_file() else None
        run = macros.run(links, ui, ["slides", "notebook", "colab"])
        beside = f'<div class="beside">{macros.languages(twins, ui)}<ul>{run}</ul></div>'
        main.insert(0, html.fragment_fromstring(beside))
        swap_in(folder / about.url(chapter), _serialized(page))


def _pages(book: Book, folder: Path) -> Iterator[tuple[Chapter, Any, Any]]:
    """The rendered pages, each with its `<main>`."""
    for chapter in book.chapters:
        file = folder / about.url(chapter)
        page = _parsed(file) if file.is_file() else None
        # Whoever renders one chapter first gets a cover that only leads on.
        if page is None or page.xpath("//meta[@http-equiv='refresh']"):
            continue
        main = page.find(".//main")
        if main is None:
            said = f"{about.url(chapter)} has no <main>, so it is no page of Quarto's"
            raise CourseError(f"{said}: build with --engine embedded")
        yield chapter, page, main


def _draw_cards(book: Book, names: Collection[str], folder: Path) -> None:
    """Draw what links to these pages show, from the same cells as Quarto: it hands nothing on."""
    own = draw_pictures(book, names)
    source = book if book.lang == parity.SOURCE else read_book(book.root, parity.SOURCE)
    english = own if source is book else draw_pictures(source, names)
    faces = share.faces(book, own), share.faces(source, english)
    for name, (_, draw) in share.cards(*faces).items():
        (folder / about.CARDS).mkdir(exist_ok=True)
        (folder / about.CARDS / f"{name}.png").write_bytes(draw())


def _tell_others(head: Any, said: str) -> None:
    """Put our metadata in a page's head: Quarto's addresses lack the language's folder."""
    for old in head.xpath(
        "link[@rel='canonical'] | meta[starts-with(@property, 'og:')]"
        " | meta[starts-with(@name, 'twitter:')]"
    ):
        if old.get("name") not in _OWNERS:
            old.drop_tree()
    for new in html.fragments_fromstring(said.strip()):
        head.append(new)


def _mark_path(page: Any, main: Any, chapter: Chapter, on: Mapping[str, Chapter], ui: Any) -> None:
    """Mark what is on the short path in both lists of contents, and say where it goes on."""
    macros, pages = _macros(), {about.url(one) for one in on.values()}
    for link in page.xpath("//*[@id='quarto-sidebar' or @id='TOC']//a[@href]"):
        to, _, id_ = link.get("href").lstrip("./").partition("#")
        if to in pages or id_ in on:
            link.append(html.fragment_fromstring(str(macros.on_path(ui))))
    said = str(macros.further(about.further(chapter, on), ui))
    main.extend(html.fragments_fromstring(said.strip()))


def _drop_unused(page: Any) -> None:
    """Take long scripts from pages without what needs them: Quarto puts them on each."""
    unused = sum((of for name, of in _ONLY.items() if not page.find_class(name)), ())
    for script in page.iter("script"):
        if (script.text or "").lstrip().startswith(unused):
            script.text = ""


def _lead_nowhere(page: Any, repo: str) -> None:
    """Take away links to a repository that is not there: source, edit, report."""
    for link in page.xpath("//a[starts-with(@href, $repo)]", repo=repo):
        if next(link.iterancestors("main"), None) is not None:
            link.drop_tag()  # what was said stays
        else:
            (link.getparent() if link.getparent().tag == "li" else link).drop_tree()


def _drop_headings(page: Any, main: Any) -> None:
    """Take from the cover its heading for lists of pages: it has the book's title."""
    for heading in main.xpath(f".//h1[not(ancestor::*[@id='{_TITLE}'])]"):
        for name in (heading.get("id"), heading.getparent().get("id")):
            for link in page.xpath("//*[@id='TOC']//a[@href=$to]", to=f"#{name}"):
                item = link.getparent()
                for below in item.xpath("ul/li"):  # a list in a list is folded
                    item.addprevious(below)
                item.drop_tree()
        heading.drop_tree()


def _list_own_sources(page: Any) -> None:
    """Let each page list what it cites: Quarto puts the book's on its first list."""
    cites = page.find_class("citation")
    cited = {f"ref-{id_}" for one in cites for id_ in one.get("data-cites", "").split()}
    for listed in page.xpath("//*[@id='refs']"):
        listed.attrib.pop("style", None)
        for entry in list(listed):
            if entry.get("id") not in cited:
                entry.drop_tree()
        for link in page.xpath("//a[@role='doc-biblioref']"):
            link.set("href", f"#{link.get('href').partition('#')[2]}")


def _name_sections(main: Any, labels: Mapping[str, Mapping[str, str]], ui: Any) -> None:
    """Let references to sections say numbers on unnumbered pages, too, not titles."""
    for link in main.find_class("quarto-xref"):
        label = labels.get(link.get("href").partition("#")[2], {"number": ""})
        if label["number"] and label["number"] not in link.text_content():
            link[:], link.text = [], f"{ui['ui-' + label['kind']]}\u00a0{label['number']}"


def _let_references_agree(main: Any, lang: str) -> None:
    """Give references, and what follows each in a word, to the filter of particles."""
    links = main.find_class("quarto-xref")
    words_after = [re.findall(r"^\S*", link.tail or "")[0] for link in links]
    if not links:
        return
    text = "".join(
        f'<p><a class="quarto-xref" href="#">{escape(link.text_content())}</a>{escape(after)}</p>'
        for link, after in zip(links, words_after, strict=True)
    )
    read = html.fragments_fromstring(_read_as_html(text, lang))
    for link, after, said in zip(links, words_after, read, strict=True):
        new = said[0]
        if new.text_content() != link.text_content():
            link[:], link.text = [], new.text_content()
        link.tail = f"{new.tail or ''}{(link.tail or '')[len(after) :]}"


def _read_as_html(text: str, lang: str) -> str:
    """HTML as the filter of references says it, in a language."""
    more = [f"--metadata=lang:{lang}", f"--lua-filter={ASSETS / 'references.lua'}"]
    return str(
        pypandoc.convert_text(text, "html", format="html", extra_args=["--wrap=none", *more])
    )


def link_downloads(book: Book, site: Path, out: Path) -> None:
    """Let Quarto's cover in `site` link to the exports that stand in `out`, and to no others."""
    cover = site / book.lang / "index.html"
    page = _parsed(cover)
    for old in page.find_class("downloads"):
        old.drop_tree()
    macros = _macros()
    files, title = about.downloads(book, out), page.find(f".//*[@id='{_TITLE}']")
    if files and title is not None:
        title.append(html.fragment_fromstring(str(macros.downloads(files)).strip()))
    swap_in(cover, _serialized(page))


def made(page: Path) -> bool:
    """Whether Quarto made a page, rather than the embedded engine."""
    (generator,) = _parsed(page).xpath("//meta[@name='generator']/@content") or ("",)
    return not generator.startswith("course ")


def _macros() -> Any:
    return templates().get_template("about.html.j2").module


def _parsed(file: Path) -> Any:
    return html.document_fromstring(file.read_text(encoding="utf-8"), ensure_head_body=True)


def _serialized(page: Any) -> str:
    text: str = html.tostring(page, encoding="unicode", doctype="<!DOCTYPE html>")
    return text
