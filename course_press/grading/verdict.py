"""What a grader says."""

import msgspec

__all__ = ["Verdict"]


class Verdict(msgspec.Struct, frozen=True):
    """What the grader found by one criterion."""

    criterion: str
    passed: bool
    said: str
