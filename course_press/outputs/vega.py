"""The Vega bundle that explorers are drawn with: made once, and one file for every page
of a site.
"""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from course_lib import CourseError
from course_press.run.execute import Cache

EXPLORER = 'class="explorer"'
"""What the element of an explorer has in a page."""
BUNDLE = Path("assets") / "vendor" / "vega.js"


def finish(root: Path, stage: Path, others: Iterable[Path]) -> None:
    """Write the bundle into a staged site if one of its pages, or of the languages that stay, has
    an explorer.

    Raises
    ------
    CourseError
        If Altair or vl-convert is not installed.
    """
    pages = (page for folder in (stage, *others) for page in folder.rglob("*.html"))
    if any(EXPLORER in page.read_text(encoding="utf-8") for page in pages):
        file = stage / BUNDLE
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(bundle(Cache(root / ".cache" / "course")), encoding="utf-8")


def bundle(cache: Cache) -> str:
    """Vega, Vega-Lite and Vega-Embed as one classic script that defines `vegaEmbed` and nothing
    else.

    It is taken out of vl-convert, which takes seconds, and kept in the cache.
    """
    try:
        versions = [version("vl-convert-python"), version("altair")]
    except PackageNotFoundError:
        raise CourseError(
            "explorers need vl-convert-python and altair: pip install -e '.[explore]'"
        ) from None
    key = cache.key("vega", versions)
    if (stored := cache.get(key)) is None:
        import altair
        import vl_convert

        lite = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
        script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=lite)
        # Wrapped: its names of one letter would be the page's too.
        stored = (
            f"/* Vega, Vega-Lite, Vega-Embed: see vega.LICENSE */\n(function () "
            f"{{\n{script}\n}})();\n"
        )
        cache.put(key, stored)
    text: str = stored
    return text
