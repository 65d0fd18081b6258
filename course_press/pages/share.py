"""What others see: the picture of a shared link, and search engines' map; at addresses only."""

import base64
import io
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

from course_press.source.assets import templates
from course_press.source.book import Book

# The place of a figure's cell, a fingerprint of its PNG, and what gives that.
Picture = tuple[int, str, Callable[[], bytes]]
# Where the decks stand in the site of a language.
DECKS = "slides"
# Pixels of a picture that a shared link shows large.
SIZE = (1200, 630)
_MARGIN, _STRIPE = 24, 12
_ACCENT, _INK, _MUTED = (26, 58, 184), (28, 33, 39), (89, 98, 108)
_LETTERS = str(Path(__file__).parent.parent / "assets" / "vendor" / "source-serif-4.woff2")
_HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
# Regular and bold, as systems call them.
_HANGUL_FONTS = (
    ("NanumGothic.ttf", "NanumGothicBold.ttf"),
    ("NotoSansCJK-Regular.ttc", "NotoSansCJK-Bold.ttc"),
    ("AppleSDGothicNeo.ttc", "AppleSDGothicNeo.ttc"),
    ("malgun.ttf", "malgunbd.ttf"),
)
# A figure has few: a palette makes a third of the file.
_COLOURS = 64


def first_picture(cells: Iterable[Iterable[Mapping[str, Any]]]) -> Picture | None:
    """The first figure among the outputs of cells."""
    for at, outputs in enumerate(cells):
        for output in outputs:
            if picture := output.get("data", {}).get("image/png"):
                digest = sha256(picture.encode()).hexdigest()[:32]
                return at, digest, lambda: base64.b64decode(picture)
    return None


class Face(NamedTuple):
    """What a link to a page shows; of figures, one that can be drawn here."""

    picture: Picture | None
    title: str
    finding: str
    book: str


def faces(book: Book, pictures: Mapping[str, Picture | None]) -> dict[str, Face]:
    """What links to pages show, by the pages' names; the cover speaks for the book."""
    name, about = str(book.meta["title"]), str(book.meta.get("description") or "")
    found = {}
    for chapter in book.chapters:
        if (key := chapter.path.stem) in pictures:
            said = str(chapter.meta.get("description") or about)
            finding = re.split(r"(?<=[.?!]) (?![a-z])", said)[0]
            title = name if chapter.is_cover else chapter.title
            found[key] = Face(pictures[key], title, finding, "" if chapter.is_cover else name)
    return found


def font(said: str) -> tuple[str, str] | None:
    """Fonts for a text, regular and bold: the book's or, for Hangul, this machine's, if any."""
    if not _HANGUL.search(said):
        return _LETTERS, _LETTERS
    for pair in _HANGUL_FONTS:
        try:
            ImageFont.truetype(pair[0], 20)
        except OSError:
            continue
        return pair
    return None


def card(picture: Callable[[], bytes], face: Face) -> bytes:
    """A PNG of the size that social sites show: a page's words, and a figure on the right."""
    figure = Image.open(io.BytesIO(picture())).convert("RGB")
    half, high = SIZE[0] // 2, SIZE[1] - 2 * _MARGIN
    scale = min((half - _MARGIN) / figure.width, high / figure.height)
    size = round(figure.width * scale), round(figure.height * scale)
    figure = figure.resize(size, Image.Resampling.LANCZOS)
    sheet = Image.new("RGB", SIZE, "white")
    sheet.paste(_ACCENT, (0, 0, _STRIPE, SIZE[1]))
    left = half + (half - _MARGIN - figure.width) // 2
    sheet.paste(figure, (left, (SIZE[1] - figure.height) // 2))
    _write(ImageDraw.Draw(sheet), face, half - 2 * _MARGIN, high)
    file = io.BytesIO()
    # Six times as fast as a cut by the median and the tightest packing, for files of the same size.
    few = sheet.quantize(_COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    few.save(file, "PNG")
    return file.getvalue()


def _write(pen: ImageDraw.ImageDraw, face: Face, end: int, high: int) -> None:
    """Title, finding and book's name from the left margin to `end`, as large as there is room."""
    left = _STRIPE + 2 * _MARGIN
    files = font("".join(face[1:])) or (_LETTERS, _LETTERS)
    for size in range(50, 15, -2):
        parts, y = [], 2.0 * _MARGIN
        texts = ((face.title, size, True), (face.finding, 0.62 * size, False))
        for text, pixels, bold in texts:
            letters = _letters(files, pixels, bold=bold)
            wrapped = _lines(text, letters, end - left)
            parts += [(y + 1.3 * pixels * i, line, letters, bold) for i, line in enumerate(wrapped)]
            y += 1.3 * pixels * len(wrapped) + 0.5 * size
        fits = all(of.getlength(line) <= end - left for _, line, of, _ in parts)
        if fits and y <= high - 2 * _MARGIN:
            break
    for at, line, letters, bold in parts:
        pen.text((left, at), line, _INK if bold else _MUTED, letters)
    name = _letters(files, 24, bold=False)
    pen.text((left, SIZE[1] - 2 * _MARGIN), face.book, _ACCENT, name, anchor="ls")


def _letters(files: tuple[str, str], pixels: float, *, bold: bool) -> ImageFont.FreeTypeFont:
    letters = ImageFont.truetype(files[bold], pixels)
    if files[0] == files[1] == _LETTERS:
        letters.set_variation_by_axes([700 if bold else 400])
    return letters


def _lines(text: str, letters: ImageFont.FreeTypeFont, room: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if letters.getlength(longer) <= room or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def cards(
    own: Mapping[str, Face], english: Mapping[str, Face], there: Path | None = None
) -> dict[str, tuple[list[Any], Callable[[], bytes]]]:
    """The pictures of pages to share by their names; in English where letters have no font."""
    made: dict[str, tuple[list[Any], Callable[[], bytes]]] = {}
    for name, face in own.items():
        first = english.get(name)
        picture = face.picture
        if first and first.picture and not (picture and picture[0] == first.picture[0]):
            picture = first.picture
        fonts = font("".join(face[1:]))
        said = face if fonts else first
        if picture and said:
            made[name] = [picture[1], said[1:], fonts], partial(card, picture[2], said)
        elif there and (file := there / f"{name}.png").is_file():
            made[name] = [file.stat().st_mtime_ns, str(file)], file.read_bytes
    return made


def sitemap(site: str, folders: Mapping[str, Path]) -> str:
    """The map of all pages, each with its twins in the other languages; no decks."""
    twins: dict[str, dict[str, str]] = {}
    for lang, folder in folders.items():
        for file in sorted(folder.rglob("*.html")):
            path = file.relative_to(folder).as_posix()
            if path.startswith(f"{DECKS}/"):
                continue
            shared = path.replace(f"chapters/{lang}/", "chapters/*/", 1)
            twins.setdefault(shared, {})[lang] = f"{site}/{lang}/{path}"
    return templates().get_template("sitemap.xml.j2").render(twins=twins.values()) + "\n"
