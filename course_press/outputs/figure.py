"""Figures as SVG in a page's colours, each with a narrow twin for a phone."""

import hashlib
import re

from course_lib.core import Estimate
from course_lib.specs import Accelerator
from course_book.answers.steps import operators
from course_book.plot import LINES, Diagram, Plot, roofline
from course_book.plot.figure import GRID, INK, SHADES
from course_book.plot.labels import MUTED

# The page's own colours take the place of these, so that a figure follows a light or a dark scheme.
_TOKENS = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    **{color: str(i) for i, color in enumerate(LINES, 1)},
    **{color: f"shade-{i}" for i, color in enumerate(SHADES, 1)},
}
_HALO = "paint-order: stroke; stroke: var(--paper); stroke-width: 3px; "
_DOTS = re.compile(r"<g([^>]*)>((?:\s*<use [^>]*/>){2,})\s*</g>")
_LOOK = re.compile(r'<use xlink:href="#([^"]+)"[^>]*?(?: style="([^"]*)")?/>')
# Operators with a name on the roofline: more would lie on one another.
_NAMED = 6
_PLACE = re.compile(r' x="([^"]+)" y="([^"]+)"')


def html(shown: Plot | Diagram) -> str:
    """A figure and its twin."""
    if isinstance(shown, Diagram):
        sizes = [shown.markup, shown.narrow]
    else:
        sizes = [page_svg(shown), page_svg(shown, narrow=True)]
    return f'<div class="sizes">{"".join(sizes)}</div>'


def page_svg(plot: Plot, *, narrow: bool = False) -> str:
    """A plot as an `<svg>` element whose colours and font are CSS variables of the page."""
    svg = plot.svg(narrow=narrow)
    # A rule for every element would hold for the whole page; the root's own style is inherited
    # just as well.
    svg = re.sub(r"(?s)\s*<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, count=1)
    size, style = "narrow" if narrow else "wide", "stroke-linejoin: round; stroke-linecap: butt"
    svg = svg.replace("<svg ", f'<svg class="{size}" style="{style}" ', 1)
    # A hundredth of a point is seen by nobody, nor a turn by no angle; the rest of the digits would
    # be half of the page.
    svg = re.sub(r"\n\s+<", "\n<", svg)
    svg = re.sub(r' transform="rotate\(-?0 [^)]*\)"', "", svg)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), svg)
    # Of straight lines a tenth will do, and no path needs a line for each of its corners.
    svg = re.sub(r' d="([^"]+)"', lambda path: f' d="{" ".join(path[1].split())}"', svg)
    svg = re.sub(r' d="M[\d. LMz-]+"', lambda path: re.sub(r"(\.\d)\d", r"\1", path[0]), svg)
    svg = _DOTS.sub(lambda dots: _as_path(dots, svg), svg)
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?) width="[\d.]+pt"', r"\1", svg.replace("\n", " ", 1))
    svg = re.sub(r'(<svg [^>]*?) height="[\d.]+pt"', r"\1", svg)
    # Several figures share a page: only ids that are pointed at stay, under a name of the
    # figure's own.
    used = {
        name: str(i)
        for i, name in enumerate(dict.fromkeys(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", svg)))
    }
    svg = re.sub(
        r' id="([^"]+)"', lambda name: f' id="@{used[name[1]]}"' if name[1] in used else "", svg
    )
    svg = re.sub(r"(url\(#|href=\"#)([^\")]+)", lambda name: f"{name[1]}@{used[name[2]]}", svg)
    own = (
        "f" + hashlib.sha256(svg.encode()).hexdigest()[:8]
    )  # an id that starts with a digit is no XML name
    svg = re.sub(r'(?<= id=")@|(?<=url\(#)@|(?<=href="#)@', f"{own}-", svg)
    svg = svg.replace("'DejaVu Sans'", "var(--font-sans, sans-serif)")
    # Names of lines have the lines' colours, which stand out from the paper but not from shades.
    svg = svg.replace('<text style="font-weight: 700; ', f'<text style="font-weight: 700; {_HALO}')
    return re.sub(
        "|".join(_TOKENS), lambda color: f"var(--fig-{_TOKENS[color[0]]}, {color[0]})", svg
    )


def _as_path(dots: re.Match[str], svg: str) -> str:
    """Many dots of one style as one path: pages of thousands of elements are slow."""
    given, inside = dots.groups()
    looks = set(_LOOK.findall(inside))
    if len(looks) != 1:
        return dots[0]
    ((shape, style),) = looks
    drawn = re.search(rf'<path id="{re.escape(shape)}" (d="[^"]*" style=")', svg)
    if not drawn:
        return dots[0]
    rest = svg[drawn.end() : svg.index('"', drawn.end())]
    # A tenth of a point is seen by nobody where the eye reads a cloud.
    places = " ".join(f"{float(x):.1f} {float(y):.1f}" for x, y in _PLACE.findall(inside))
    name = f"{shape}-dots-{dots.start()}"  # lines of one colour share a shape
    return (
        f'<marker id="{name}" overflow="visible" markerUnits="userSpaceOnUse">'
        f'<path {drawn[1]}{style + "; " if style else ""}{rest}"/></marker>'
        f'<g{given}><path d="M{places}" style="fill: none; stroke: none; '
        f'marker: url(#{name})"/></g>'
    )


def roofline_of(step: Estimate, dtype: str, chip: Accelerator, form: str) -> bytes:
    """The roofline with every operator of a step, the longest by their names, as PNG or SVG."""
    placed = [
        (name, float(one.intensity), float(one.attainable), float(one.lower))
        for _, name, one in operators(step)
        if float(one.intensity) > 0 and float(one.lower) > 0
    ]
    peak = chip.peak(dtype)
    ends = [one[1] for one in placed] + [0.1, chip.ridge(dtype)]
    span = (min(ends) / 2, 4 * max(ends))
    drawn = roofline({chip.short: (peak, chip.bandwidth)}, intensity=span)
    axes = drawn.figure.axes[0]
    for _, intensity, reached, _ in placed:
        axes.plot(intensity, reached, "o", color=INK, markersize=5, alpha=0.5, zorder=5)
    low = min([reached for _, _, reached, _ in placed], default=peak)
    axes.set_ylim(bottom=min(low / 3, axes.get_ylim()[0]))
    named: dict[str, None] = {}
    for name, intensity, reached, _ in sorted(placed, key=lambda one: -one[3]):
        if len(named) < _NAMED and f"{intensity:.0e}" not in named:
            named[f"{intensity:.0e}"] = None  # one name for those that lie on one another
            drawn.name_dot(name, intensity, reached, fontsize=9)
    if form == "png":
        return drawn.png()
    xml = '<?xml version="1.0" encoding="utf-8"?>\n'
    return (xml + drawn.svg()).encode()
