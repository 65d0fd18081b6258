"""Which submissions are more alike than chance: a reason to look, and no verdict."""

import builtins
import io
import keyword
import tokenize
from collections.abc import Iterator, Mapping
from itertools import combinations, islice

import msgspec

LENGTH = 12  # tokens of a shingle
SHARE = 0.6  # of the shorter one's shingles: two that were written apart stay far below
MOST = 20_000  # tokens of a file that are compared, the first ones
FEWEST = 30  # shingles of its own that a file needs: a short one has no room to differ
LAYOUT = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.ENDMARKER}
)
KEPT = frozenset({*keyword.kwlist, *dir(builtins)})
Shingle = tuple[str, ...]


class Pair(msgspec.Struct, frozen=True):
    """Two files and the share of the shorter one's shingles that the other has too."""

    first: str
    second: str
    share: float


def shingles(text: str) -> set[Shingle]:
    """Runs of tokens, whatever variables are called, however it is laid out and commented."""
    tokens = list(islice(_tokens(text), MOST))
    return {
        tuple(tokens[at : at + LENGTH]) for at in range(max(1, len(tokens) - LENGTH + 1)) if tokens
    }


def alike(texts: Mapping[str, str], stub: str) -> list[Pair]:
    """The pairs that share more than `SHARE` of what is not the stub's, most first."""
    given = shingles(stub)
    own = {name: shingles(text) - given for name, text in texts.items()}
    large = sorted(name for name in own if len(own[name]) >= FEWEST)
    found = [
        Pair(first, second, len(own[first] & own[second]) / min(len(own[first]), len(own[second])))
        for first, second in combinations(large, 2)
    ]
    return sorted((one for one in found if one.share >= SHARE), key=lambda one: -one.share)


def _tokens(text: str) -> Iterator[str]:
    before = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in LAYOUT:
                continue
            if token.type == tokenize.NAME and token.string not in KEPT and before != ".":
                yield "name"
            elif token.type == tokenize.NUMBER:
                yield "number"
            elif token.type == tokenize.STRING:
                yield "text"
            else:
                yield token.string.strip() or tokenize.tok_name[token.type]
            before = token.string
    except (tokenize.TokenError, SyntaxError, ValueError):
        return  # what came before the mistake is compared
