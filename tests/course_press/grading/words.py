"""What the graders' tests share: the failures of a grading, which must be told in every language."""

import re
import string
from collections.abc import Mapping
from functools import cache

from course_book.text import in_language
from course_press.grading import verdict
from course_press.grading.verdict import Amount, Text
from tests.course_press.pages.test_language import GRAMMAR, spelled

OPEN = frozenset(
    """
    array axis call code columns example given name path reason rows size what
    """.split()  # noqa: SIM905
)
"""Where a sentence quotes the file or Python; whatever else is filled in is checked."""
CODE = frozenset(
    """
    admit all apt aten bias bits bubblewrap bwrap call causal cause causes chunk colab contiguous copy cuda device
    diagnosis dict dropout empty event exp float flops gelu grid install irecv isend jax kernel
    kernels labs linux macos make matmul measure memoryerror modulo nan none notimplementederror
    numpy nvlink operator os other output pip pmean psum py python rank recv reduce repeats return round running
    scheduled seconds seen send sharding softmax stride strided strides synchronize tensor tflops tiny todo
    todos tokens torch trip triton true unfused wait windows world
    """.split()  # noqa: SIM905
)
"""Words of code, and names, that are the same in every language."""
SAME = {
    "es": frozenset(
        """
        bytes decode divide error factor final matrices no prompt prompts token tokens
        """.split()  # noqa: SIM905
    ),
    "ko": frozenset(),
}
"""Words that are spelled as in English."""


def failures(verdicts):
    """What failed, and what was said of it; no verdict has a word of English in Spanish or Korean."""
    for one in verdicts:
        for lang in ("es", "ko"):
            assert not english(one.why, lang), (lang, one.why)
            with in_language(lang):
                assert not leaks(one.title, lang)
                assert "{" not in re.sub(r"\{\"\w+\".*\}|'.*'|\{'.*\}", "", one.text)
    return {one.criterion: one.text for one in verdicts if not one.passed}


def written(folder, text):
    """A learner's file."""
    file = folder / "mine.py"
    file.write_text(text, encoding="utf-8")
    return file


def english(said, lang):
    """The English words that a sentence has in another language, but for what it quotes."""
    with in_language(lang):
        return leaks(str(quoting_nothing(said)), lang)


def quoting_nothing(said):
    """A sentence with nothing in the place of what it quotes."""
    return Text(
        said.key, {name: hushed(value, name in OPEN) for name, value in said.values.items()}
    )


def hushed(value, is_open):
    if isinstance(value, Text):
        return quoting_nothing(value)
    if isinstance(value, str):
        return "" if is_open else value
    if isinstance(value, Mapping | Amount | int | float):
        return value
    return [hushed(one, is_open) for one in value]


def leaks(text, lang):
    """Words of English, or of the English messages, that are no code."""
    return spelled(text) & (GRAMMAR | of_the_messages()) - CODE - SAME[lang]


@cache
def of_the_messages():
    """The words of the English messages."""
    return {word for one in verdict._texts("en").values() for word in spelled(bare(one))}


def bare(template):
    """A template without its fields."""
    return " ".join(text for text, *_ in string.Formatter().parse(template))


def fields(template):
    """What a template leaves open."""
    return {name for _, name, _, _ in string.Formatter().parse(template)} - {None}
