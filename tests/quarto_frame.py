"""A small book as Quarto renders it, for tests of what it puts around our text: with Quarto itself
where it is on PATH, and otherwise with what this file makes by hand of the same source. It is a
skeleton: navigation, table of contents, title block, sources and little else.

`python tests/quarto_frame.py render --profile es --output-dir site` stands in for `quarto`.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from lxml import html

from course_press.pages import about, quarto
from course_press.pages.pandoc import run_pandoc
from course_press.source.assets import ASSETS
from course_press.source.book import read_book
from course_press.source.chapter import CITED
from tests.conftest import once
from tests.course_press.conftest import SHEBANG, Copy

ROOT = Path(__file__).parent.parent
LONG = "a_name_without_an_end_" * 9
ADDRESS = f"https://example.org/{'long/' * 40}"
CODE = f"```\n{'wide ' * 60}\n```"
# What Quarto numbers, and what it neither breaks nor scrolls.
WIDE = f"""<section id="sec-wide" class="level2" data-number="1.1"><p>{"words " * 60}</p>
<p><span id="eq-wide"><math display="block"><mrow>{"<mi>x</mi><mo>+</mo>" * 60}</mrow></math></span></p>
<ul><li><code>{"words " * 20}</code></li></ul>
<figure class="quarto-float quarto-float-tbl figure"><div><table class="caption-top table">
<tr>{"<td>incompressible</td>" * 9}</tr></table></div></figure></section>"""
PAGE = """<!DOCTYPE html>
<html lang="{lang}"><head><meta charset="utf-8"><meta name="generator" content="quarto-1.7.34">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>{styles}
<style>#quarto-content {{ display: grid; grid-template-columns: 1em minmax(0, 50em) 1em; }}
#quarto-content > * {{ grid-column: 2; }} pre, li code {{ white-space: pre; }}</style></head>
<body class="nav-sidebar floating quarto-light">
<header id="quarto-header"></header>
<div id="quarto-content" class="quarto-container page-columns page-rows-contents">
<nav id="quarto-sidebar" class="sidebar"><div class="sidebar-title"><a href="{up}">{book}</a>
<div class="sidebar-tools-main"><a href="{repo}" class="quarto-navigation-tool">Source</a></div></div>
<ul>{items}</ul></nav>
<div id="quarto-margin-sidebar"><nav id="TOC"><ul><li><a href="#welcome">Welcome</a>
<ul><li><a href="#sec-welcome">Welcome</a></li></ul></li></ul>
<div class="toc-actions"><ul><li><a href="{repo}/edit/main/{path}" class="toc-action">Edit</a></li>
<li><a href="{repo}/issues/new" class="toc-action">Report</a></li></ul></div></nav></div>
<main class="content" id="quarto-document-content">
<header id="title-block-header"><h1 class="title">{title}</h1></header>
{body}
<div id="refs" class="references csl-bib-body" role="list"{hidden}>{entries}</div></main>
<nav class="page-navigation"><a href="x.html" class="pagination-link">{following}</a></nav>
</div></body></html>
"""


def a_book(root, *, repo="https://github.com/example/book"):
    """A copy of the fixture book with all that Quarto reads of ours, and what has gone wrong in its
    frame: a title with a term, sources cited on several pages, long lines, an unnumbered page.
    """
    book = Copy(root)
    ours, theirs = (
        yaml.safe_load((folder / "_quarto.yml").read_text(encoding="utf-8"))
        for folder in (ROOT, root)
    )
    theirs["book"]["repo-url"] = repo
    kept = {key: ours[key] for key in ("filters", "format")} | theirs | {"format": ours["format"]}
    (root / "_quarto.yml").write_text(yaml.safe_dump(kept), encoding="utf-8")
    for package in ("course_lib", "course_press"):
        (root / package).symlink_to(ROOT / package)
    with (root / "references.bib").open("a", encoding="utf-8") as file:
        for name in ("lee2020", "ann2021"):
            file.write(
                f"\n@misc{{{name}, author = {{{name}}}, title = {{T}}, url = {{{ADDRESS}}}}}\n"
            )
    for lang in ("en", "es"):
        page = f"chapters/{lang}/two.qmd"
        title = {"en": "The memory wall", "es": "El muro de memoria"}[lang]
        text = (root / page).read_text(encoding="utf-8")
        text = re.sub("^title: .*$", f"title: {title}\ndescription: Of two.", text, flags=re.M)
        more = f"\nCited: [@lee2020]. `{LONG}` and <{ADDRESS}>.\n\n{CODE}\n\n::: {{#refs}}\n:::\n"
        (root / page).write_text(text + more, encoding="utf-8")
        with (root / f"chapters/{lang}/_preface.qmd").open("a", encoding="utf-8") as file:
            file.write("\nCited: [@ann2021].\n")
        (root / f"chapters/{lang}/glossary.qmd").write_text(
            "# Words {.unnumbered}\n\nSee @sec-there and @sec-sub.\n", encoding="utf-8"
        )
        with (root / f"_quarto-{lang}.yml").open("a", encoding="utf-8") as file:
            file.write(f"        - chapters/{lang}/glossary.qmd\n")
        notebook = root / "notebooks" / lang / "one.ipynb"
        notebook.parent.mkdir(parents=True)
        notebook.write_text("{}")
    return book


def rendered(root, monkeypatch, langs=("en", "es"), **how):
    """The site of such a book, by `quarto.build`: by Quarto, or by what stands in for it."""
    book = a_book(root, **how)
    if not shutil.which("quarto"):
        program = root.parent / "bin" / "quarto"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"{SHEBANG}\nimport runpy, sys\nsys.path.insert(0, {str(ROOT)!r})\n")
        with program.open("a") as file:
            file.write("runpy.run_module('tests.quarto_frame', run_name='__main__')\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    quarto.build(book.root, langs, book.root / "_site")
    return book.root / "_site"


def hidden_titles(book, chapter):
    """The titles of the sidebar as Quarto hands them to pandoc in every page, hidden, and gets them
    back.
    """
    text = "::: {#quarto-navigation-envelope .hidden}\n"
    for number, one in enumerate(book.chapters):
        contents = f'.hidden .quarto-markdown-envelope-contents render-id="{number}"'
        text += f"[{one.title}]{{{contents}}}\n\n"
    course = {
        "page": str(chapter.path),
        "chapters": [],
        "labels": {},
        "profile": book.lang,
        "words": {},
        "chapter": "",
    }
    printed = run_pandoc(book, chapter, f"{text}:::\n", course, "site.lua", "html5")
    spans = html.fragment_fromstring(printed, create_parent=True).xpath("//span[@data-render-id]")
    return [html.tostring(span, encoding="unicode", with_tail=False) for span in spans]


def main():
    """Write the pages of a language as Quarto leaves them before anything is added."""
    arguments = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=False))
    lang, out = arguments["--profile"], Path(arguments["--output-dir"])
    book = read_book(Path.cwd(), lang)
    texts = {c.path: "\n".join(line.text for line in c.prose) for c in book.chapters}
    cites = {
        path: [id_ for id_ in CITED.findall(text) if not re.match("(fig|tbl|sec|eq|lst)-", id_)]
        for path, text in texts.items()
    }
    (first, *_) = [path for path, text in texts.items() if "{#refs}" in text]
    for chapter in book.chapters:
        up, path = about.up(chapter), chapter.path
        titles = hidden_titles(book, chapter)
        here = (
            sorted({id_ for ids in cites.values() for id_ in ids}) if path == first else cites[path]
        )
        body = f"<p>{path} <code>{LONG}</code> <a href='{ADDRESS}'>{ADDRESS}</a></p>{CODE}"
        body = body.replace("```\n", "<pre><code>", 1).replace("\n```", "</code></pre>") + WIDE
        if chapter.is_cover:
            body = f'<section id="welcome" class="level1"><h1>Welcome</h1>{body}</section>'
        for id_ in cites[path]:
            to = f"{up}{about.url(next(c for c in book.chapters if c.path == first))}#ref-{id_}"
            body += f'<span class="citation" data-cites="{id_}">(<a href="{to}" role="doc-biblioref">{id_}</a>)</span>'
        for id_ in re.findall(r"@(sec-\w+)", texts[path]):
            said = "Section 9.9" if chapter.number else "There it is"
            body += f'<a href="#{id_}" class="quarto-xref"><span>{said}</span></a> '
        file = out / about.url(chapter)
        file.parent.mkdir(parents=True, exist_ok=True)
        styles = "".join(
            f'<link rel="stylesheet" href="{(ASSETS.parents[1] / css).as_uri()}">'
            for css in book.config["format"]["html"]["css"]
        )
        file.write_text(
            PAGE.format(
                lang=lang,
                title=book.meta["title"] if chapter.is_cover else chapter.title,
                book=book.meta["title"],
                styles=styles,
                up=up or "./",
                repo=book.meta["repo-url"],
                items="".join(f'<li><a href="x.html">{one}</a></li>' for one in titles),
                following=titles[-2],
                path=path,
                body=body,
                hidden="" if path == first else ' style="display: none"',
                entries="".join(
                    f'<div id="ref-{id_}" class="csl-entry" role="listitem">{id_}. {ADDRESS}</div>'
                    for id_ in here
                ),
            ),
            encoding="utf-8",
        )


def frame(tmp_path_factory):
    """The site of such a book, made once for all tests that only read it."""

    def make(root):
        with pytest.MonkeyPatch.context() as patch:
            rendered(root, patch)

    return once(tmp_path_factory, "frame-book", make) / "_site"


if __name__ == "__main__":
    main()
