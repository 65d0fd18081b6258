"""The book: `_quarto.yml` with a language's profile laid over it, and the chapters it lists."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from course_press.source.chapter import KNOWN, Chapter, Line, SafeLoader, read_chapter, read_text
from course_press.source.errors import SourceError

# Is told what is going on, a line at a time.
Say: TypeAlias = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Part:
    """A heading in the list of chapters, and the chapters under it."""

    title: str
    chapters: Sequence[Chapter]


@dataclass(frozen=True, slots=True)
class Book:
    """The book in one language: `_quarto.yml`, `_quarto-<lang>.yml` over it, and its chapters."""

    root: Path
    lang: str
    config: Mapping[str, Any]
    contents: Sequence[Chapter | Part] = field(default_factory=list)

    @property
    def chapters(self) -> list[Chapter]:
        parts = (one.chapters if isinstance(one, Part) else [one] for one in self.contents)
        return [*chain.from_iterable(parts)]

    @property
    def prose(self) -> Iterator[Line]:
        return (line for chapter in self.chapters for line in chapter.prose)

    @property
    def meta(self) -> Mapping[str, Any]:
        return dict(self.config["book"])

    @property
    def bibliography(self) -> list[Path]:
        files = self.config.get("bibliography", [])
        return [self.root / str(file) for file in (files if isinstance(files, list) else [files])]

    @property
    def csl(self) -> Path | None:
        """The style of citations; `None` is pandoc's own."""
        return self.root / str(self.config["csl"]) if "csl" in self.config else None


def languages(root: Path) -> list[str]:
    """The languages of the book at `root`: the profiles of `_quarto.yml`, its default first."""
    profile = _config(root / "_quarto.yml").get("profile")
    group = profile.get("group") if isinstance(profile, Mapping) else None
    listed = group[0] if isinstance(group, list) and group and isinstance(group[0], list) else group
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    if not names:
        said = "profile.group names no language, e.g. [en, es, ko]"
        raise SourceError(Path("_quarto.yml"), 1, said)
    return names


def configured(root: Path, lang: str) -> Book:
    """The book at `root` in one language as its configuration has it, without its chapters."""
    shared, own = (_config(root / name) for name in ("_quarto.yml", f"_quarto-{lang}.yml"))
    return Book(root, lang, _merged(shared, own))


def read_book(root: Path, lang: str, *, answers: bool = False) -> Book:
    """Read the book at `root` in one language, for instructors with `answers`.

    What is missing or not known is refused with file and line.
    """
    profile = root / f"_quarto-{lang}.yml"
    config = dict(configured(root, lang).config)
    if answers:
        config["answers"] = True

    def wrong(text: Any, said: str, *files: Path) -> SourceError:
        """At the first line that has a text in these files, or else at the profile's first."""
        for file in files or (profile,):
            for number, line in enumerate(read_text(file).splitlines(), 1):
                if str(text) in line:
                    return SourceError(Path(file.name), number, said)
        return SourceError(Path(profile.name), 1, said)

    both = profile, root / "_quarto.yml"
    for section, allowed in KNOWN["config"].items():
        given = config.get(section, {}) if section else config
        if not isinstance(given, Mapping):
            raise wrong(section, f"{section} must hold key: value pairs", *both)
        for key in given:
            if key not in allowed:
                name = f"{section}.{key}" if section else key
                raise wrong(key, f"the press does not know {name}", *both)
    if not config.get("book", {}).get("title"):
        raise SourceError(Path(profile.name), 1, "book.title is missing")
    contents: list[Chapter | Part] = []
    number = 0

    def chapter(path: str, title: str | None = None) -> Chapter:
        nonlocal number
        if not (root / path).is_file():
            raise wrong(path, f"chapter {path} does not exist")
        page = read_chapter(root, Path(path), lang)
        if title:
            page = replace(page, meta={**page.meta, "title": title})
        if page.unnumbered:
            return page
        number += 1
        return replace(page, number=number)

    listed = config["book"].get("chapters")
    for entry in listed if isinstance(listed, list) else [listed] if listed else ():
        if isinstance(entry, str):
            contents.append(chapter(entry))
        elif isinstance(entry, Mapping) and set(entry) == {"href", "text"}:
            contents.append(chapter(str(entry["href"]), str(entry["text"])))
        elif (
            isinstance(entry, Mapping)
            and set(entry) == {"part", "chapters"}
            and isinstance(entry["chapters"], list)
            and all(isinstance(path, str) for path in entry["chapters"])
        ):
            contents.append(Part(str(entry["part"]), [chapter(path) for path in entry["chapters"]]))
        else:
            takes = "files, href with text, part with chapters"
            raise wrong("chapters", f"chapters takes {takes} (got {entry!r})")
    if not contents:
        raise SourceError(Path(profile.name), 1, "book.chapters is empty")
    found = Book(root, lang, config, contents)
    named = [("bibliography", file) for file in found.bibliography]
    for kind, source in [*named, *([("csl", found.csl)] if found.csl else [])]:
        if not source.is_file():
            shown = source.relative_to(root) if source.is_relative_to(root) else source
            raise wrong(source.name, f"{kind} {shown} does not exist", *both)
    return found


class _Loader(SafeLoader):  # type: ignore[misc]
    """Refuses a key that stands twice in one place, as Quarto does; YAML's own takes the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


def _config(file: Path) -> dict[str, Any]:
    try:
        loaded = _Loader(read_text(file, Path(file.name))).get_single_data()
    except FileNotFoundError:
        said = "the file does not exist: run this in the book's folder"
        raise SourceError(Path(file.name), 1, said) from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        line = mark.line + 1 if mark else 1
        raise SourceError(Path(file.name), line, f"not valid YAML: {problem}") from None
    if not isinstance(loaded, dict):
        raise SourceError(Path(file.name), 1, "must hold key: value pairs")
    return loaded


def _merged(below: Any, above: Any) -> Any:
    """Merge configurations as Quarto does: mappings key by key, arrays one after the other."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {key: _merged(below.get(key), above.get(key)) for key in {**below, **above}}
    if isinstance(below, list) and isinstance(above, list):
        return [*below, *above]
    return below if above is None else above
