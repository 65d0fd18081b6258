"""The command that begins a chapter, an exercise, a chip, a lab or a language: every file that it
needs, from a template of `assets/new`, and its place in every list.
"""

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import typer

from course_lib import CourseError, specs
from course_book.exercises import CHAPTERS, all
from course_press.check import parity
from course_press.cli.console import command, tell
from course_press.source.book import languages, read_book
from course_press.source.chapter import read_text
from course_press.source.errors import choose
from course_press.source.files import swap_in
from course_press.source.install import first_cell

app = typer.Typer()
TEMPLATES = Path(__file__).parents[1] / "assets" / "new"
WORDS = Path("course_book/data/words.csv")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")


class Draft:
    """Files as they will stand in the book at `root`: nothing is written before all are made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.texts: dict[Path, str] = {}

    @cached_property
    def langs(self) -> list[str]:
        """The book's languages: a chip is begun where there is no book, too."""
        return languages(self.root)

    def text(self, path: Path) -> str:
        """A file as it will stand; empty where there is none."""
        file = self.root / path
        return self.texts.get(path) or (read_text(file, path) if file.is_file() else "")

    def begin(self, path: Path, text: str) -> None:
        """A new file; refused where there is one."""
        if (self.root / path).exists():
            raise CourseError(f"{path} exists already: choose another name, or edit it")
        self.texts[path] = text

    def edit(self, path: Path, pattern: str, new: str) -> None:
        """Change the only place of a file that a pattern finds."""
        text, found = re.subn(pattern, new, self.text(path), count=1)
        if not found:
            raise CourseError(f"{path} has no place for this: nothing in it is like {pattern!r}")
        self.texts[path] = text

    def list_page(self, stem: str) -> None:
        """List a page behind the last chapter, in every language."""
        for lang in self.langs:
            listed = rf"((?:\n *- chapters/{lang}/[\w-]+\.qmd)*\n( *)- chapters/{lang}/[\w-]+\.qmd)"
            path = Path(f"_quarto-{lang}.yml")
            self.edit(path, listed, rf"\1\n\2- chapters/{lang}/{stem}.qmd")

    def write(self) -> list[Path]:
        """Write all, what is new before what lists it."""
        files = sorted(self.texts, key=lambda path: (self.root / path).exists())
        for path in files:
            swap_in(self.root / path, self.texts[path])
        return files


def template(kind: str, langs: Sequence[str], names: Mapping[str, str]) -> list[tuple[Path, str]]:
    """The files of a template with names filled in; a language that it lacks has the English."""
    text = (TEMPLATES / f"{kind}.txt").read_text(encoding="utf-8")
    for mark, value in names.items():
        text = re.sub(rf"(?<![A-Z]){mark}(?![A-Z])", value, text)
    parts = [part.partition("\n")[::2] for part in text.split("=== ")[1:]]
    given = {path for path, _ in parts}
    found = []
    for path, body in parts:
        if not re.search(r"[/.]en[/.]", path):
            here = re.search(r"[/.](?:es|ko)[/.]", path)
            found += [] if here and here[0][1:-1] not in langs else [(Path(path), body)]
            continue
        for lang in langs:
            twin = re.sub(r"([/.])en([/.])", rf"\1{lang}\2", path)
            found += [(Path(twin), body)] if lang == "en" or twin not in given else []
    return found


def _page(draft: Draft, kind: str, stem: str, names: Mapping[str, str]) -> None:
    for path, text in template(kind, draft.langs, names):
        draft.begin(path, text)
    draft.list_page(stem)


def _chapter(draft: Draft, name: str) -> None:
    title = name.replace("-", " ").capitalize()
    _page(draft, "chapter", name, {"NAME": name, "TITLE": title})


def _lab(draft: Draft, name: str) -> None:
    there = [int(file.name[:2]) for file in draft.root.glob("labs/[0-9][0-9]-*")]
    if list(draft.root.glob(f"labs/[0-9][0-9]-{name}")):
        raise CourseError(f"a lab {name!r} exists already: choose another name, or edit it")
    number = f"{max(there, default=-1) + 1:02}"
    names = {"NUMBER": number, "FOLDER": f"{number}-{name}", "MODULE": name.replace("-", "_")}
    title = name.replace("-", " ")
    _page(draft, "lab", f"lab-{number}", {**names, "TITLE": title})
    path = Path(f"labs/{number}-{name}/lab.ipynb")
    notebook = json.loads(draft.texts[path])
    installs = first_cell(read_book(draft.root, draft.langs[0]))
    notebook["cells"][1]["source"] = installs.splitlines(keepends=True)
    draft.texts[path] = json.dumps(notebook, indent=1) + "\n"


def _exercise(draft: Draft, name: str) -> None:
    """A chapter's exercise; the chapter's first comes with its module and files of texts."""
    page, slash, id_ = name.partition("/")
    if not (slash and _NAME.fullmatch(id_)):
        raise CourseError(f"NAME of an exercise is CHAPTER/ID, as rooflines/dot (got {name!r})")
    books = [read_book(draft.root, lang) for lang in draft.langs]
    chapters = {one.path.stem: one for one in books[0].chapters if one.number}
    choose(page, chapters, f"{page!r} is no chapter")
    id_ = id_ if id_.startswith(f"{page}-") else f"{page}-{id_}"
    if id_ in {one.id for one in all()}:
        raise CourseError(f"exercise {id_!r} exists already: choose another name, or edit it")
    titles = {
        book.lang: one.title.partition(":")[0]
        for book in books
        for one in book.chapters
        if one.path.stem == page
    }
    rows = draft.text(WORDS).splitlines(keepends=True)
    langs = next(csv.reader(rows[:1]))[2:-1] if rows else draft.langs
    short = id_.removeprefix(f"{page}-")
    names = {"NAME": page, "ID": id_, "SHORT": short, "TITLE": titles[draft.langs[0]]}
    for path, text in template("exercise", langs, names):
        if path.suffix == ".qmd":
            draft.begin(path, text)
        else:
            before = draft.text(path)
            gap = "\n" if path.suffix == ".toml" and before else ""
            draft.texts[path] = before + gap + text
    if page not in CHAPTERS:
        last = max(at for at, row in enumerate(rows) if row.startswith("chapter-"))
        row = io.StringIO()
        said = [titles.get(lang, titles[draft.langs[0]]) for lang in langs]
        csv.writer(row, lineterminator="\n").writerow([f"chapter-{page}", "cell", *said, ""])
        draft.texts[WORDS] = "".join([*rows[: last + 1], row.getvalue(), *rows[last + 1 :]])
    for lang in draft.langs:
        path = Path(f"chapters/{lang}/{page}.qmd")
        lines = draft.text(path).splitlines()
        others = [at for at, line in enumerate(lines) if re.match(r"\{\{<.*/ex-", line)]
        at = others[-1] + 1 if others else len(lines)
        lines[at:at] = ["", f"{{{{< include ../cells/{page}/ex-{short}.qmd >}}}}"]
        draft.texts[path] = "\n".join(lines) + "\n"


def _chip(draft: Draft, name: str) -> None:
    """A skeleton whose figures are missing: among the reader's chips, the book's, or here."""
    if name in specs.chips():
        raise CourseError(f"chip {name!r} exists already: choose another key, or edit its file")
    ours = Path("course_lib/data/chips")
    folder = os.environ.get(specs.FOLDER) or (ours if (draft.root / ours).is_dir() else ".")
    skeleton = (specs.DATA / "own-chip.toml").read_text(encoding="utf-8")
    draft.begin(Path(folder) / f"{name}.toml", skeleton.replace("KEY", name))


def _language(draft: Draft, name: str) -> None:
    """The English once more, under the code of the language."""
    root, en = draft.root, parity.SOURCE
    for file in sorted(root.glob(f"chapters/{en}/*.qmd")):
        text = read_text(file)
        for folder in ("chapters", "notebooks"):
            text = text.replace(f"{folder}/{en}/", f"{folder}/{name}/")
        draft.begin(Path("chapters", name, file.name), text)
    profile = draft.text(Path(f"_quarto-{en}.yml")).replace(f"lang: {en}\n", f"lang: {name}\n")
    for before in ("_site/", "chapters/"):
        profile = profile.replace(f"{before}{en}", f"{before}{name}")
    draft.begin(Path(f"_quarto-{name}.yml"), profile)
    draft.begin(Path(f"_environment-{name}"), f"COURSE_LANG={name}\n")
    copied = [*root.glob(f"course_book/data/**/*.{en}.toml")]
    for file in sorted([*copied, *root.glob(f"course_press/grading/*.{en}.toml")]):
        twin = file.relative_to(root).with_name(file.name.replace(f".{en}.", f".{name}."))
        draft.begin(twin, read_text(file))
    draft.edit(Path("_quarto.yml"), r"(\n *group: \[[^\]]*)\]", rf"\1, {name}]")
    block = rf'(?s)(:::+ *\{{\.content-visible when-profile="){en}(".*?\n:::\n)'
    cover = Path("index.qmd")
    if found := re.search(block, draft.text(cover)):
        own = found[0].replace(f'"{en}"', f'"{name}"').replace(f"/{en}/", f"/{name}/")
        draft.texts[cover] = f"{draft.text(cover)}\n{own}"
    for path in (WORDS, WORDS.with_name("definitions.csv"), WORDS.with_name("objectives.csv")):
        if text := draft.text(path):
            rows = list(csv.reader(io.StringIO(text)))
            at, to = rows[0].index(en), len(rows[0]) - (rows[0][-1] == "symbol")
            for row in rows:
                row.insert(to, name if row[0] == "ui-language" or row is rows[0] else row[at])
            made = io.StringIO()
            csv.writer(made, lineterminator="\n").writerows(rows)
            draft.texts[path] = made.getvalue()
    for file in sorted(root.glob("labs/*/lab.toml")):
        path = file.relative_to(root)
        if f"tells.{en}" in draft.text(path):
            told = rf"\g<0>tells.{name} = \1\n"
            draft.texts[path] = re.sub(rf"(?m)^tells\.{en} = (.*)\n", told, draft.text(path))
    path = Path("chapters/claims.toml")
    if claims := re.search(rf"(?s)\[{en}\]\n(.*?)(?:\n\[|\Z)", draft.text(path)):
        draft.texts[path] = f"{draft.text(path)}\n[{name}]\n{claims[1].strip()}\n"


KINDS: Mapping[str, tuple[Callable[[Draft, str], None], str]] = {
    "chapter": (_chapter, "course build {name} prints it"),
    "exercise": (_exercise, "its question, hints and misconceptions are only an example"),
    "chip": (_chip, "fill it in: course chip {name} says what is missing"),
    "lab": (_lab, "what it measures and how a file is graded: CONTRIBUTING.md, A lab"),
    "language": (_language, "translate section by section: course check says which are left"),
}


@command(app)
def new(kind: str, name: str) -> None:
    """Begin a chapter, an exercise, a chip, a lab or a language.

    Example: `course new chapter tensor-cores`
    """
    choose(kind, KINDS, f"KIND {kind!r} cannot be begun")
    pattern = {"exercise": r"[^/]+(?:/[^/]+)?", "chip": r"[a-z0-9][a-z0-9.-]*"}.get(kind)
    if not re.fullmatch(pattern or _NAME.pattern, name):
        said = "NAME must be of lower-case letters, digits and hyphens"
        raise CourseError(f"{said}, as tensor-cores (got {name!r})")
    root = Path.cwd()
    draft = Draft(root)
    begin, then = KINDS[kind]
    begin(draft, name)
    files = draft.write()
    if kind in ("chapter", "lab"):
        stem = next(path.stem for path in files if path.parts[:2] == ("chapters", draft.langs[0]))
        for lang in draft.langs:
            if lang != parity.SOURCE:
                parity.stamp(root, lang, stem)
    for path in files:
        tell(str(path))
    tell(f"Next: {then.format(name=name)}")
