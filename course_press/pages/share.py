"""What others see of the book: the picture that a shared link shows, and the map for search
engines. Both need whole addresses, so there is none without the site's own.
"""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import escape
from PIL import Image

Picture = tuple[int, bytes]
"""A figure as PNG, after the place of its cell."""
DECKS = "slides"
"""Where the decks stand in the site of a language."""
SIZE = (1200, 630)
"""Pixels of a picture that a shared link shows large."""
_MARGIN, _STRIPE = 24, 12
_ACCENT = (26, 58, 184)
_COLOURS = 64
"""A figure has few: a palette makes a third of the file."""


def first_picture(cells: Iterable[Iterable[Mapping[str, Any]]]) -> Picture | None:
    r"""The first figure among the outputs of cells.

    Examples
    --------
    >>> first_picture([[], [{"data": {"text/plain": "1"}}, {"data": {"image/png": "iVBO"}}]])
    (1, b'\x89PN')
    """
    for at, outputs in enumerate(cells):
        for output in outputs:
            picture = output.get("data", {}).get("image/png")
            if picture:
                return at, base64.b64decode(picture)
    return None


def card(picture: bytes) -> bytes:
    """A figure on a sheet of the size that social sites show, as PNG.

    Parameters
    ----------
    picture : the figure as PNG.
    """
    figure = Image.open(io.BytesIO(picture)).convert("RGB")
    room = SIZE[0] - _STRIPE - 2 * _MARGIN, SIZE[1] - 2 * _MARGIN
    scale = min(room[0] / figure.width, room[1] / figure.height)
    figure = figure.resize(
        (round(figure.width * scale), round(figure.height * scale)), Image.Resampling.LANCZOS
    )
    sheet = Image.new("RGB", SIZE, "white")
    sheet.paste(_ACCENT, (0, 0, _STRIPE, SIZE[1]))
    left, top = (SIZE[0] + _STRIPE - figure.width) // 2, (SIZE[1] - figure.height) // 2
    sheet.paste(figure, (left, top))
    file = io.BytesIO()
    few = sheet.quantize(_COLOURS, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    few.save(file, "PNG", optimize=True)
    return file.getvalue()


def cards(
    own: Mapping[str, Picture | None],
    english: Mapping[str, Picture | None],
    there: Path | None = None,
) -> dict[str, bytes]:
    """The pictures of pages to share, by the pages' names: the first figure of each. Where no font
    that comes with the book has its letters, it is the English one.

    Parameters
    ----------
    own : the first figure of each page that can be drawn without a browser, by the page's name.
    english : those of the English pages, as far as they are known.
    there : the folder with the English cards that were drawn before.

    Examples
    --------
    >>> cards({"one": None}, {})
    {}
    """
    made = {}
    for name, picture in own.items():
        first = english.get(name)
        if shown := picture if not first or (picture and picture[0] == first[0]) else first:
            made[name] = card(shown[1])
        elif there and (file := there / f"{name}.png").is_file():
            made[name] = file.read_bytes()
    return made


def sitemap(site: str, folders: Mapping[str, Path]) -> str:
    """The map of all pages, each with its twins in the other languages; decks are for those who
    come from a page.

    Parameters
    ----------
    site : the address of the site.
    folders : by language, the one with its pages, as they will stand at the site.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "index.html").write_text("")
    ...     text = sitemap("https://example.org", {"en": Path(folder)})
    >>> text.splitlines()[2]
    '<url><loc>https://example.org/en/index.html</loc></url>'
    """
    twins: dict[str, dict[str, str]] = {}
    for lang, folder in folders.items():
        for file in sorted(folder.rglob("*.html")):
            path = file.relative_to(folder).as_posix()
            if path.startswith(f"{DECKS}/"):
                continue
            shared = path.replace(f"chapters/{lang}/", "chapters/*/", 1)
            twins.setdefault(shared, {})[lang] = f"{site}/{lang}/{path}"
    lines = [line for pages in twins.values() for line in _entries(pages, list(folders))]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
            'xmlns:xhtml="http://www.w3.org/1999/xhtml">',
            *lines,
            "</urlset>",
            "",
        ]
    )


def _entries(pages: Mapping[str, str], langs: Sequence[str]) -> Iterable[str]:
    default = next(pages[lang] for lang in langs if lang in pages)
    named = [*pages.items(), ("x-default", default)] if len(pages) > 1 else []
    links = "".join(
        f'<xhtml:link rel="alternate" hreflang="{lang}" href="{escape(address)}"/>'
        for lang, address in named
    )
    for address in pages.values():
        yield f"<url><loc>{escape(address)}</loc>{links}</url>"
