"""Lab 03: predict what an engine does with the requests that come to it.

Fill in the five functions, then have them graded:

    course grade 03 labs/03-serving/serving.py

The names of the two limits are those of vLLM: a step has at most `max_num_seqs` sequences, and at
most `max_num_batched_tokens` new tokens. All times are in seconds.
"""

from typing import NamedTuple


class Request(NamedTuple):
    """A request: when it comes, and the tokens of its prompt and of its answer."""

    arrived: float
    prompt: int
    output: int


class Times(NamedTuple):
    """When a request joins its first step, gets its first token, and gets its last one."""

    scheduled: float
    first: float
    last: float


def fit(steps):
    """Three constants of a step, in this order: of each step, of a new token, of a token read.

    steps is a list of (tokens, seen, seconds): new tokens, tokens that the step reads from caches,
    and how long it took.
    """
    # TODO 1: every measured step is one equation, step + token * tokens + seen_cost * seen =
    #         seconds. There are more equations than constants: numpy.linalg.lstsq finds those that
    #         come closest. Divide each equation by its seconds first, so that relative errors count
    #         and the longest step does not decide alone.
    raise NotImplementedError


def step_seconds(constants, tokens, seen):
    """How long a step takes that has so many new tokens, and reads so many from caches."""
    # TODO 2: the three parts come one after another.
    raise NotImplementedError


def admit(prompts, running, max_num_seqs, max_num_batched_tokens):
    """How many of those that wait join the next step.

    prompts has the tokens of each prompt that waits, in the order in which they came. running is
    the number of sequences that decode: each has a place, and one new token in the step.
    """
    # TODO 3: first come, first served, and whole prompts only. Go on as long as there is a place
    #         and what is left of the token budget holds the next prompt. Stop at the first one that
    #         does not fit: nobody overtakes.
    raise NotImplementedError


def serve(requests, constants, max_num_seqs, max_num_batched_tokens):
    """The Times of each request, in the order of the requests, which is that of their arrival."""
    # TODO 4: keep a clock that begins at 0, and go from step to step.
    #         - Who has come by now and has not joined yet is waiting. Ask admit() how many join.
    #         - If nothing runs and nobody has come, set the clock to the next arrival.
    #         - New tokens of the step: one for each sequence that decodes, and all of each prompt
    #           that joins. Tokens read: for each sequence its prompt and all that it was given
    #           before, which are in its cache by the end of the step.
    #         - At the end of the step every sequence in it gets one token, those that joined too.
    #         - A sequence that has all of its output leaves, and its place is free at once.
    raise NotImplementedError


def summary(requests, times):
    """What users feel: ttft_p50, ttft_p99, tpot_p50, tpot_p99 and tokens_per_s, as a dict.

    Percentiles are over requests, as numpy.percentile has them.
    """
    # TODO 5: the time to the first token begins when the request comes. The time per output token
    #         is what the tokens after the first take, each: a request with one token has none.
    #         tokens_per_s counts output tokens, from the first arrival to the last token of all.
    raise NotImplementedError
