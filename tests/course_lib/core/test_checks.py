"""How names are spelled: as people and hubs write them, and never one of several or a file's."""

import pytest

from course_lib import chips, specs
from course_lib.core.checks import spelled

TABLES = {"chips": [*chips()], "models": [*specs.models()]}


@pytest.mark.parametrize("keys", TABLES.values(), ids=TABLES)
def test_a_key_is_known_however_its_words_are_parted_and_whoever_published_or_tuned_it(keys):
    for key in keys:
        parted = [key.replace("-", mark) for mark in (" ", "_", "")]
        tuned = [f"{key}-Instruct", f"{key}_it", f"{key}-chat-hf"]
        for written in (key, key.upper(), *parted, *tuned, f"Who.ever/{key.title()}"):
            assert spelled(written, keys) == key, written
        # One that is tuned is itself where the table has it alone.
        assert spelled(tuned[0], [tuned[0].lower()]) == tuned[0].lower()


@pytest.mark.parametrize("keys", TABLES.values(), ids=TABLES)
def test_what_could_be_two_keys_or_is_a_path_is_none(keys):
    for key in keys:
        for path in (f"./{key}", f"/models/{key}", f"who/ever/{key}"):
            assert spelled(path, keys) is None
        joined = key.replace("-", "")
        if joined != key:
            assert spelled(key.upper(), [*keys, joined]) is None
            assert spelled(joined, [*keys, joined]) == joined
