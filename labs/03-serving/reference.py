"""Lab 03, reference solution: what an engine does with the requests that it gets."""

from typing import NamedTuple

import numpy as np


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
    """Three constants, in this order: the time per step, per new token, and per token read."""
    tokens, seen, seconds = np.array(steps, float).T
    columns = np.stack([np.ones_like(tokens), tokens, seen], axis=1) / seconds[:, None]
    found = np.linalg.lstsq(columns, np.ones_like(seconds), rcond=None)[0]
    return tuple(float(one) for one in np.maximum(found, 0.0))


def step_seconds(constants, tokens, seen):
    """The time of a step that has `tokens` new tokens and reads `seen` tokens from caches."""
    step, token, read = constants
    return step + token * tokens + read * seen


def admit(prompts, running, max_num_seqs, max_num_batched_tokens):
    """How many of the waiting requests join the next step."""
    left = max_num_batched_tokens - running
    joined = 0
    for prompt in prompts:
        if running + joined >= max_num_seqs or prompt > left:
            break
        left -= prompt
        joined += 1
    return joined


def serve(requests, constants, max_num_seqs, max_num_batched_tokens):
    """The Times of each request. Requests and Times are both in order of arrival."""
    scheduled, first, last, made = ([0.0] * len(requests) for _ in range(4))
    running, come, now = [], 0, 0.0
    while running or come < len(requests):
        waiting = [one.prompt for one in requests[come:] if one.arrived <= now]
        joined = admit(waiting, len(running), max_num_seqs, max_num_batched_tokens)
        if not running and not joined:
            now = requests[come].arrived
            continue
        new = list(range(come, come + joined))
        come += joined
        for i in new:
            scheduled[i] = now
        tokens = len(running) + sum(requests[i].prompt for i in new)
        seen = sum(requests[i].prompt + made[i] for i in running + new)
        now += step_seconds(constants, tokens, seen)
        running += new
        for i in running:
            made[i] += 1
            if made[i] == 1:
                first[i] = now
            if made[i] == requests[i].output:
                last[i] = now
        running = [i for i in running if made[i] < requests[i].output]
    return [Times(*one) for one in zip(scheduled, first, last, strict=True)]


def summary(requests, times):
    """What users feel: ttft_p50, ttft_p99, tpot_p50, tpot_p99 and tokens_per_s, as a dict."""
    pairs = list(zip(requests, times, strict=True))
    ttft = [time.first - one.arrived for one, time in pairs]
    tpot = [(time.last - time.first) / (one.output - 1) for one, time in pairs if one.output > 1]
    span = max(time.last for time in times) - min(one.arrived for one in requests)
    return {
        "ttft_p50": float(np.percentile(ttft, 50)),
        "ttft_p99": float(np.percentile(ttft, 99)),
        "tpot_p50": float(np.percentile(tpot, 50)),
        "tpot_p99": float(np.percentile(tpot, 99)),
        "tokens_per_s": sum(one.output for one in requests) / span,
    }
