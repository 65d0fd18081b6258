"""Many cases in one test: each has its name where it fails, and none costs what a test costs."""

import inspect
from functools import wraps

import pytest


def each(names, cases, *, ids=repr):
    """As `pytest.mark.parametrize` with these arguments, but within one test.

    All cases run; what failed is raised with the name of its case, together where it is several.
    Fixtures are those of the whole test: no case may lean on what another left in them.
    """
    names = names.replace(",", " ").split() if isinstance(names, str) else names
    cases = [case if len(names) > 1 else (case,) for case in cases]
    assert cases, names

    def loop(test):
        @wraps(test)
        def all_of_them(*args, **fixtures):
            failed = []
            for case in cases:
                try:
                    test(*args, **fixtures, **dict(zip(names, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all cases run
                    error.add_note(f"in the case of {', '.join(str(ids(one)) for one in case)}")
                    failed.append(error)
            if failed[1:]:
                raise BaseExceptionGroup(f"{len(failed)} of {len(cases)} cases", failed)
            if failed:
                raise failed[0]

        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in names]
        all_of_them.__signature__ = signature.replace(parameters=left)
        return all_of_them

    return loop
