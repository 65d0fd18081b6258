"""A command speaks one language, and writes its numbers as that language does."""

import re

import pytest
from typer.testing import CliRunner

from course_tools import diagnosis
from course_book.text import words
from course_press.cli.app import app

SERVE = ["serve", "llama-3-8b", "h100-sxm", "--rate", "5", "--requests", "40", "--prompt", "64"]
TRAIN = ["train", "llama-3-8b", "--chips", "16xh100-sxm"]
SPLIT = ["--layout", "dp=8,tp=2,zero=1,mbs=1,acc=4", "--tokens", "1e11"]
COMMANDS = [
    *(["diagnose", str(diagnosis.seeded(cause))] for cause in diagnosis.CAUSES),
    ["predict", "llama-3-8b", "l40s", "--calibrated", "--batch", "3"],
    ["predict", "llama-3-8b", "h100-sxm", "--context", "256", "--prefill"],
    ["predict", "mixtral-8x7b", "h200-sxm", "--tp", "2"],
    ["predict", "bert-large", "h100-sxm", "--context", "512"],
    ["predict", "llama-2-70b", "h100-sxm"],
    [*SERVE, "--slo", "ttft=0.5"],
    [*SERVE, "--bounds"],
    [*SERVE, "--slo", "ttft=0.5,tpot=0.05", "--plan", "--tp", "1"],
    TRAIN,
    [*TRAIN, *SPLIT],
    ["train", "llama-3-70b", "--chips", "2xh100-sxm", "--layout", "dp=2,mbs=1,acc=1"],
    ["compare", "a100-sxm-80", "h100-sxm"],
    ["chip", "t4"],
    ["models"],
]
ENGLISH = re.compile(
    r"(?<!-)\b(the|of|and|at least|at most|for each|is|are|not|memory|bound|time|share|step)\b(?![-_=@/])"
)
IN_ENGLISH = ("compare", "chip", "models")
POINT, COMMA = (
    re.compile(r"(?<![\w.@])\d+\.\d+(?![\w.])"),
    re.compile(r"(?<![\w.,@])\d+,\d{1,2}(?![\w,])"),
)


def fragments(lang):
    """What the tables have in English and, in this language, otherwise: whole words between braces."""
    there = words(lang)
    for key, text in words("en").items():
        if re.match("tell-|said-|flow-|lacks-|advice-", key) and text != there[key]:
            for piece in re.split(r"\{\w+\}", text):
                if len(piece.split()) > 2 and piece.strip() not in there[key]:
                    yield piece.strip()


@pytest.mark.parametrize("lang", ["es", "ko"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[-40:])
def test_a_command_speaks_one_language_with_one_decimal_sign(command, lang, monkeypatch):
    monkeypatch.setenv("COURSE_LANG", lang)
    done = CliRunner().invoke(app, command)
    assert not done.exception or isinstance(done.exception, SystemExit), done.exception
    said = re.sub(r"github:\S+|'.*?'", "", done.output)
    english = command[0] in IN_ENGLISH
    if not english:
        assert not [one for one in fragments(lang) if one in said]
        assert not ENGLISH.findall(said), said
    wrong = POINT if lang == "es" and not english else COMMA
    assert not wrong.findall(said), said
