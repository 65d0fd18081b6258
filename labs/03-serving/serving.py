"""Lab 03: predict what an engine does with the requests that it gets.

Copy this file to my_serving.py, fill in the five functions, and have your file graded:

    course grade 03 my_serving.py

The two limits have the names that vLLM gives them: a step has at most `max_num_seqs` sequences and
at most `max_num_batched_tokens` new tokens. All times are in seconds.
"""

from typing import NamedTuple


class Request(NamedTuple):
    """A request: when it arrives, and how many tokens its prompt and its answer have."""

    arrived: float
    prompt: int
    output: int


class Times(NamedTuple):
    """When a request joins its first step, and when it gets its first and its last token."""

    scheduled: float
    first: float
    last: float


def fit(steps):
    """Three constants, in this order: the time per step, per new token, and per token read.

    steps is a list of (tokens, seen, seconds): the new tokens of a step, the tokens that it reads
    from caches, and how long it took.
    """
    # TODO 1: each measured step gives one equation, step + token * tokens + read * seen = seconds.
    #         There are more equations than constants, and numpy.linalg.lstsq finds the constants
    #         that come closest. First divide each equation by its seconds, so that relative errors
    #         count and the longest steps don't decide alone.
    raise NotImplementedError


def step_seconds(constants, tokens, seen):
    """The time of a step that has `tokens` new tokens and reads `seen` tokens from caches."""
    # TODO 2: the three parts come one after another.
    raise NotImplementedError


def admit(prompts, running, max_num_seqs, max_num_batched_tokens):
    """How many of the waiting requests join the next step.

    prompts lists how many tokens each waiting prompt has, in order of arrival. running is the
    number of sequences in decode: each takes one place and one new token of the step.
    """
    # TODO 3: first come, first served, and whole prompts only. Go on as long as a place is free and
    #         the rest of the token budget is enough for the next prompt. Stop at the first prompt
    #         that doesn't fit: nobody overtakes.
    raise NotImplementedError


def serve(requests, constants, max_num_seqs, max_num_batched_tokens):
    """The Times of each request. Requests and Times are both in order of arrival."""
    # TODO 4: keep a clock that starts at 0, and go from step to step.
    #         - Requests that have arrived but not joined are waiting. Ask admit() how many join.
    #         - If nothing is running and no request is waiting, set the clock to the next arrival.
    #         - New tokens of the step: one for each sequence in decode, and all tokens of each
    #           prompt that joins. Tokens read: for each sequence, its prompt and all the tokens
    #           that it got before, which are in its cache by the end of the step.
    #         - At the end of the step, every sequence in it gets one token, even if it just joined.
    #         - A sequence that has all of its output leaves, and its place is free at once.
    raise NotImplementedError


def summary(requests, times):
    """What users feel: ttft_p50, ttft_p99, tpot_p50, tpot_p99 and tokens_per_s, as a dict.

    Percentiles are over requests, as numpy.percentile computes them.
    """
    # TODO 5: the time to the first token starts when the request arrives. The time per output token
    #         is what each token after the first takes on average; a request with one token has
    #         none. tokens_per_s counts output tokens, from the first arrival to the last token of
    #         all requests.
    raise NotImplementedError
