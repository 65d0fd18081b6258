"""The box for a reader's own trace, in a real browser, from files, with the network cut off."""

import gzip
import json

import pytest

from course_tools.diagnosis import SEEDED, diagnose, seeded
from course_book.text import in_language, t
from tests.browser.conftest import print_small_book, wait_for
from tests.browser.test_explore import BOOK, LANGS
from tests.conftest import once
from tests.course_tools.diagnosis import others

pytestmark = pytest.mark.browser
PAGE = """---
title: Traces
---

{{< include ../cells/box.qmd >}}
"""
CELL = """```{python}
#| echo: false
from course_tools.diagnosis import seeded
from course_book.asking import TraceBox

TraceBox((seeded("copies"), seeded("synchronisation")), first=2)
```
"""


def print_box(folder):
    print_small_book(folder, BOOK, {"box": CELL}, "one", PAGE)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    return once(tmp_path_factory, "traces", print_box)


def opened(visit, lang="en", **options):
    page = visit(f"{lang}/chapters/{lang}/one.html", **options)
    wait_for(page, "!!document.querySelector('.trace-strip svg')")
    return page


def given(page, *files):
    """What the box shows of files: the verdict, or what is wrong with them."""
    page.set_input_files(".trace input[type=file]", files)
    over = "document.querySelector('.trace progress').hidden"
    wait_for(page, f"{over} && !!document.querySelector('.trace-said').textContent")
    cause = page.query_selector(".trace-answer .trace-cause")
    return (cause or page.query_selector(".trace-said")).inner_text()


@pytest.mark.parametrize("lang", LANGS)
def test_a_trace_gets_the_verdict_of_the_command(visit, lang):
    page = opened(visit, lang)
    for cause in SEEDED[::4]:
        found = diagnose(seeded(cause))
        with in_language(lang):
            meaning = t(f"cause-{found.cause}").partition(": ")[2]
            advice = t(f"advice-{found.advice}")
        assert given(page, seeded(cause)) == f"{found.cause}: {meaning}"
        assert advice in page.inner_text(".trace-verdict")
        assert f"course diagnose {cause}.json.gz" in page.inner_text(".trace-command")


def test_a_file_packed_in_several_pieces_is_read_whole(visit, tmp_path):
    whole, file = gzip.decompress(seeded("copies").read_bytes()), tmp_path / "pieces.json.gz"
    pieces = [whole[i : i + 9_000] for i in range(0, len(whole), 9_000)]
    file.write_bytes(b"".join(map(gzip.compress, pieces)))
    assert given(opened(visit), file).startswith("copies:")


def test_below_a_half_the_box_asks(visit, tmp_path):
    page, perhaps = opened(visit), []
    for mixed in (("host_bound", "imbalance", 0.5), ("copies", "host_bound", 1.2)):
        file = tmp_path / f"{mixed[0]}.json"
        file.write_text(json.dumps(others.mixed(*mixed)))
        found, said = diagnose(file), given(page, file)
        perhaps.append(said.startswith("Perhaps"))
        assert perhaps[-1] == (found.confidence < 0.5)
        assert found.cause in said
    assert perhaps == [True, False]


def test_several_files_are_ranks_of_one_run(visit, tmp_path):
    rows = json.loads(gzip.decompress(seeded("copies").read_bytes()))
    files = [tmp_path / f"rank{i}.json" for i in range(2)]
    for i, file in enumerate(files):
        file.write_text(json.dumps(rows | {"distributedInfo": {"rank": i, "world_size": 2}}))
    assert diagnose(files).cause in given(opened(visit), *files)


def test_a_file_that_is_no_trace_gets_a_sentence_and_no_command(visit, tmp_path):
    page = opened(visit)
    whole = gzip.decompress(seeded("copies").read_bytes())
    for name, content, said in (
        ("notes.json", b"Not JSON.", "does not begin as JSON does"),
        ("half.json", whole[: len(whole) // 2], "is cut off after"),
        ("half.json.gz", gzip.compress(whole)[:900], "inside its compression"),
        ("other.json", b'{"a": 1}', "without a list traceEvents"),
    ):
        (tmp_path / name).write_bytes(content)
        found = given(page, tmp_path / name)
        assert found.startswith(f"{name} ")
        assert said in found
        assert not page.query_selector(".trace-answer *")  # nothing was found, nor would be
    (tmp_path / "packed.json.zst").write_bytes(b"\x28\xb5\x2f\xfd0000")
    given(page, tmp_path / "packed.json.zst")
    assert "diagnose packed.json.zst" in page.inner_text(".trace-command")


def test_what_the_diagnosis_refuses_is_said_in_its_words(visit, tmp_path):
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 9}
    (tmp_path / "steps.json").write_text(json.dumps({"traceEvents": [step]}))
    assert "only annotations" in given(opened(visit), tmp_path / "steps.json")


def test_reading_can_be_stopped_and_the_page_answers_meanwhile(visit, tmp_path):
    pen = others.Pen()
    while len(pen.rows) < 60_000:
        others.MAKERS["launch_bound"][1](pen, 1.0)
    file = tmp_path / "long.json"
    file.write_text(json.dumps(pen.trace()))
    page = opened(visit)
    page.set_input_files(".trace input[type=file]", file)
    wait_for(page, "!document.querySelector('.trace progress').hidden")
    page.select_option(".trace-example select", "0")  # the page itself is free
    assert page.query_selector(".trace-strip svg")
    page.set_input_files(".trace input[type=file]", file)
    page.click(".trace-box button")
    assert page.inner_text(".trace-said") == "Canceled."
    assert page.query_selector(".trace progress").is_hidden()


def test_an_example_keeps_its_cause_until_its_verdict_is_opened(visit):
    page = opened(visit)
    assert page.query_selector(".trace-parts").inner_text().count("synchronisation") == 0
    page.focus(".trace-verdict summary")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('.trace-parts').innerText.includes('synchronisation')")
    assert "synchronisation" in page.inner_text(".trace-cause")


@pytest.mark.parametrize(("lang", "scheme"), [("en", "light"), ("es", "dark"), ("ko", "light")])
def test_it_is_accessible_and_fits_a_phone(visit, accessible, lang, scheme):
    page = opened(visit, lang, width=390, color_scheme=scheme)
    accessible(page)
    given(page, seeded("launch-bound"))
    accessible(page)
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert page.evaluate(wide)
