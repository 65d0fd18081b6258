"""The calculator as an element of a page: a form, and the answer to its first state."""

import math
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, get_args

from course_lib import chip, model
from course_book import n, t
from course_book.answers.record import Question
from course_book.explore import page, serving
from course_book.explore.grid import NONE
from course_book.text import named
from course_press.outputs.written import data_script, number_marks, tool_words

# What stands in large figures as it is expected, with what it is at best below it.
TILES = {"decode": "s", "user": "", "all": "", "usd": ""}
# What the memory bar shows.
PARTS = ("weights", "cache", "activations")
# What the page says, beside the names of quantities.
WORDS = (
    *("fits", "too-large", "too-many", "weights", "cache", "compute", "network", "launches"),
    *("config-architecture", "config-key", "config-value", "config-json", "config-paste"),
    *("config-url", "number", "take", "config-read", "config-formats", "no-rate"),
    *("tp", "link", "unclear", "longer", "rent", "no-price", "old-price"),
    *("whose-own", "whose-part", "whose-lent", "outside", "experts", "one-cache", "narrow"),
    *("again", "at-least", "at-most", "card", "automatic", "copies", "roofline", "not-likely"),
    *("sentence", "compare", "drop", "versus", "paste", "embed", "by-weights", "by-cache"),
    *("by-compute", "by-network", "by-launches"),
)


def html(one: serving.Calculator) -> str:
    """The element: a form that its script fills, and the answer to its first state."""
    answer, at = one.answer(), one.start
    if one.brief:
        return (
            f'<div id="calculate"><div class="calculator brief">{_sentence(one, answer)}'
            f'<div class="calc-answer" data-fits="{str(answer.fits).lower()}">'
            f'<p class="calc-verdict">{escape(serving.verdict(answer))}</p>'
            '<button type="button" class="calc-take" hidden></button></div>'
            f'<p class="calc-said" role="status"></p>{data_script(payload(one))}</div></div>'
        )
    lines = "".join(
        f'<tr data-row="{name}"><th scope="row">{escape(t(f"calc-{name}"))}</th>'
        f"<td>{escape(serving.shown(answer, name))}</td></tr>"
        for name in serving.ROWS
    )
    # What a reader may copy: filled by the script.
    asked = "".join(
        f"<dt><b>{name}</b> {escape(t(f'calc-ask-{name}'))}</dt>"
        f'<dd class="sourceCode"><pre tabindex="0"><code data-copied="{name}"></code></pre></dd>'
        for name in get_args(Question)
    )
    copied = [
        f'<p class="calc-command">{escape(t("calc-command"))}</p>',
        f'<dl class="calc-verbs">{asked}</dl>',
        f'<details class="calc-copied"><summary>{escape(t("calc-python"))}</summary>'
        '<pre tabindex="0"><code data-copied="python"></code></pre></details>',
    ]
    return "\n".join(
        [
            '<div id="calculate"><div class="calculator">',
            _sentence(one, answer),
            f'<div class="calc-answer" data-fits="{str(answer.fits).lower()}">',
            f'<p class="calc-verdict">{escape(serving.verdict(answer))}</p>',
            '<button type="button" class="calc-take" hidden></button>',
            _bar(answer),
            f'<dl class="calc-tiles">{"".join(_tile(answer, name) for name in TILES)}</dl>',
            f'<p class="calc-advice">{escape(serving.counsel(answer, at["batch"]))}</p>',
            "</div>",
            _fields("more", _more(one)),
            '<div class="calc-figure"></div>',
            '<div class="calc-rows"><table data-quarto-disable-processing="true">'
            f"<tbody>{lines}</tbody></table></div>",
            '<p class="calc-small"></p>',
            *copied,
            '<p class="calc-said" role="status"></p>',
            data_script(payload(one)),
            "</div></div>",
        ]
    )


def payload(one: serving.Calculator) -> dict[str, Any]:
    """What its script needs: sizes of models, rates of chips, constants, prices, and words."""
    words = {name: t(f"calc-{name}") for name in WORDS} | tool_words()
    words |= {name: t(name) for name in ("batch", "context", "never", "decode", "prefill")}
    sizes = {"heads": "heads", "kv_heads": "kv", "the hidden size": "hidden"}
    words |= {name: t(f"calc-size-{word}") for name, word in sizes.items()}
    return {
        **page.given(one),
        "start": one.start,
        "most": serving.MOST,
        "own": serving.OWN,
        "rows": serving.ROWS,
        "always": serving.ALWAYS,
        "tiles": TILES,
        "parts": PARTS,
        "words": words | {"no-format": t("live-no-format")},
        "x": {"label": "I (FLOP/B)", "unit": "FLOP/B"},
        "y": {"label": "P (FLOP/s)", "unit": "FLOP/s"},
        **number_marks(),
    }


def _fields(name: str, controls: Sequence[str]) -> str:
    legend = f'<legend class="calc-hidden">{escape(t(f"calc-set-{name}"))}</legend>'
    return f'<fieldset class="calc-controls calc-{name}">{legend}{"".join(controls)}</fieldset>'


def _sentence(one: serving.Calculator, answer: serving.Calculated) -> str:
    """The question and its answer in one sentence, whose words can be chosen, typed and drawn."""
    models = [
        (vendor, {key: named(model(key).name) for key in of})
        for vendor, of in groupby(one.models, key=lambda key: model(key).vendor)
    ]
    groups = [
        (vendor, {key: chip(key).short for key in of})
        for vendor, of in groupby(one.chips, key=lambda key: chip(key).vendor)
    ]
    own = {serving.OWN: t("calc-own")}
    paste = (
        f'<div class="calc-paste" hidden><label for="calc-config">{escape(t("calc-config"))}'
        '</label><textarea id="calc-config" rows="6" spellcheck="false" autocomplete="off">'
        '</textarea><p class="calc-pasted" role="status"></p></div>'
    )
    at, counts = one.start, {str(count): n(count) for count in serving.COUNTS}
    formats = {one: one or t("calc-automatic") for one in serving.FORMATS["weights"]}
    words = {
        "model": _list("model", at["model"], [("", own), *models]),
        "chip": _list("chip", at["chip"], groups),
        "tp": _list("tp", str(at["tp"]), [("", counts)]),
        "weights": _list("weights", at["weights"], [("", formats)]),
        "batch": _number("batch", at["batch"]),
        "context": _number("context", at["context"]),
    }
    said = {"decode": n(answer.decode_likely, "s"), "least": n(answer.decode_light, "s")}
    said["binds"] = t(f"calc-by-{answer.advice}")
    told = {
        name: f'<output data-told="{name}">{escape(one)}</output>' for name, one in said.items()
    }
    chosen = {
        name: f'<span class="calc-word">{_label(name, "calc-hidden")}{field}</span>'
        for name, field in words.items()
    }
    return (
        f'<div class="calc-sides"><p class="calc-sentence">'
        f"{escape(t('calc-sentence')).format(**chosen, **told)}</p>"
        f'<div class="calc-kept" hidden><p></p><strong></strong></div></div>{paste}'
    )


def _more(one: serving.Calculator) -> list[str]:
    at, counts = one.start, {str(count): n(count) for count in serving.COUNTS}
    found = [_select("count", str(at["count"]), [("", counts)])]
    found.append(_select("link", "", [("", {"": t("calc-automatic")})]))
    for name in ("activations", "cache", "compute"):
        texts = {one: one or t("calc-automatic") for one in serving.FORMATS[name]}
        found.append(_select(name, at[name], [("", texts)]))
    found.append(_select("offer", "", [("", {"0": NONE})]))
    return found


def _number(name: str, at: int) -> str:
    return (
        f'<input id="calc-{name}" data-state="{name}" type="number" inputmode="numeric" '
        f'min="1" max="{serving.MOST}" step="1" value="{at}" style="--digits: {len(str(at))}">'
    )


def _list(name: str, at: str, groups: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    options = ""
    for group, texts in groups:
        inside = "".join(
            f'<option value="{escape(key)}"{" selected" if key == at else ""}>{escape(text)}'
            "</option>"
            for key, text in texts.items()
        )
        options += f'<optgroup label="{escape(group)}">{inside}</optgroup>' if group else inside
    return f'<select id="calc-{name}" data-state="{name}">{options}</select>'


def _select(name: str, at: str, groups: Sequence[tuple[str, Mapping[str, str]]]) -> str:
    return f'<div class="calc-control">{_label(name)}{_list(name, at, groups)}</div>'


def _label(name: str, of: str = "") -> str:
    return f'<label class="{of}" for="calc-{name}">{escape(t(f"calc-name-{name}"))}</label>'


def _bar(of: serving.Calculated) -> str:
    """What lies in a chip's memory, as a bar and in words."""
    whole = max(of.needed or 0, of.available or 0)
    shares = {name: 100 * (getattr(of, name) or 0) / whole for name in PARTS}
    bars = "".join(
        f'<i class="tone-{i + 1}" data-part="{name}" style="width: {shares[name]:.2f}%"></i>'
        for i, name in enumerate(PARTS)
    )
    keys = "".join(
        f'<span><i class="tone-{i + 1}"></i>{escape(t(f"calc-part-{name}"))} '
        f'<output data-part="{name}">{escape(n(getattr(of, name), "B"))}</output></span>'
        for i, name in enumerate(PARTS)
    )
    end = 100 * (of.available or math.inf) / whole
    return (
        f'<div class="calc-bar" aria-hidden="true">{bars}<b style="left: {end:.2f}%"></b></div>'
        f'<p class="calc-legend">{keys}</p>'
    )


def _tile(of: serving.Calculated, name: str) -> str:
    likely = name if name == "usd" else f"{name}_likely"
    best = {"decode": "decode_light", "usd": "usd_least"}.get(name, name)
    bound = "at-least" if name in ("decode", "usd") else "at-most"
    value, least = (n(getattr(of, one), TILES[name]) for one in (likely, best))
    return (
        f'<div data-tile="{name}"><dt>{escape(t(f"calc-tile-{name}"))}</dt>'
        f"<dd><b>{escape(value)}</b> "
        f"<small>{escape(t(f'calc-{bound}').format(value=least))}</small></dd></div>"
    )
