"""What a page says of a trace is what the library says of it."""

import gzip
import json
import random
import re
import shutil
import subprocess
from itertools import pairwise
from math import isclose

import pytest

from course_lib import CourseError, chip
from course_lib.specs import chips
from course_tools.diagnosis import SEEDED, diagnose, page, seeded
from course_tools.diagnosis.reading.rows import gather
from course_book.text import t
from course_press.outputs import translate
from tests.conftest import ROOT
from tests.course_tools.diagnosis import others
from tests.course_tools.diagnosis.others import MAKERS

KNOWN = [chip(key) for key in chips()]
READS = """
const fs = require("fs"), path = require("path");
globalThis.window = globalThis;
const [program, reader] = %s.map((file) => fs.readFileSync(file, "utf8").match(/<script[^>]*>([^]*?)<\\/script>/)[1]);
(0, eval)(reader);
const run = window.courseTraceReader(JSON.parse(program));
(async () => {
  const told = [];
  for (const names of JSON.parse(process.argv[2])) {
    const files = names.map((name) => new File([fs.readFileSync(name)], path.basename(name)));
    told.push(await run(files).catch((error) => ({ why: error.why, about: error.about, said: String(error.message) })));
  }
  console.log(JSON.stringify(told));
})();
"""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="runs the page's script")


def read_by_page(folder, *groups):
    """What the page's script makes of some groups of files."""
    files = [str(translate.ASSETS / f"{name}.html") for name in ("diagnosis", "trace")]
    (folder / "page.js").write_text(READS % json.dumps(files), encoding="utf-8")
    named = json.dumps([[str(file) for file in group] for group in groups])
    run = subprocess.run(
        ["node", folder / "page.js", named], capture_output=True, text=True, timeout=300, check=True
    )
    return json.loads(run.stdout)


def plain(one):
    """Records as objects, as the page has them."""
    if hasattr(one, "_asdict"):
        one = one._asdict()
    if isinstance(one, dict):
        return {name: plain(value) for name, value in one.items()}
    return [plain(value) for value in one] if isinstance(one, list | tuple) else one


def differences(one, other, at=""):
    """Where two results differ by more than the rounding of sums."""
    if isinstance(one, dict) and isinstance(other, dict) and set(one) == set(other):
        for name in one:
            yield from differences(one[name], other[name], f"{at}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{at}[{i}]")
    elif isinstance(one, float) and isinstance(other, int | float):
        # A moment since 1970, in µs, leaves a tenth of a µs: a strip's pieces begin at such.
        near = 1e-6 if at.startswith(".strip") else 1e-12
        if not isclose(one, other, rel_tol=1e-9, abs_tol=near):
            yield at, one, other
    elif one != other:
        yield at, one, other


def agree(folder, *groups):
    for group, said in zip(groups, read_by_page(folder, *groups), strict=True):
        found = plain(page.dropped([gather(file) for file in group], KNOWN))
        assert list(differences(found, said)) == [], group


def written(folder, traces):
    files = []
    for i, trace in enumerate(traces):
        files.append(folder / f"trace-{i}.json")
        files[-1].write_text(json.dumps(trace), encoding="utf-8")
    return files


@needs_node
def test_the_page_says_what_the_library_says(tmp_path):
    made = [others.drawn(make, 0.2, seed=i) for i, (_, make) in enumerate(MAKERS.values())]
    made += [others.drawn(MAKERS[name][1], 0.2, shapes=False) for name in list(MAKERS)[::4]]
    made += [
        others.drawn(MAKERS[name][1], 0.2, rows=others.on_device) for name in ("copies", "graph")
    ]
    made += [others.ranks(), others.mixed("launch_bound", "copies", 2)]
    for maker in ("host_bound_quiet", "copies"):
        MAKERS[maker][1](pen := others.Pen())
        made.append(others.of_jax(pen))
    files = written(tmp_path, made)
    groups = [[file] for file in [*files, *map(seeded, SEEDED)]]
    assert len(groups) > 40
    agree(tmp_path, *groups, files[:2])


@needs_node
@pytest.mark.exhaustive
def test_the_page_says_what_the_library_says_of_every_known_cause(tmp_path):
    files = written(tmp_path, (trace for _, trace in others.known_causes(3)))
    agree(tmp_path, *([file] for file in files))


@needs_node
def test_the_page_reads_a_trace_however_it_is_written(tmp_path):
    """Packed whole or in pieces, indented, a bare list, one without an end, numbers that JSON does
    not have, strings with brackets.
    """
    trace = others.drawn(MAKERS["synchronisation"][1], 0.2)
    rows = trace["traceEvents"]
    about = {"name": 'a "[{" in a \\ name', "args": {"odd": float("nan"), "far": float("inf")}}
    odd = trace | {
        "note": {"traceEvents": ["}", {"x": "]"}]},
        "traceEvents": [rows[0] | about, *rows],
    }
    files = written(tmp_path, [trace, rows, odd, {"z": 1, **trace, "other": [{"}": "{"}]}])
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(files[0].read_bytes()))
    (tmp_path / "wide.json").write_text(json.dumps(trace, indent=4), encoding="utf-8")
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf" + files[0].read_bytes())
    whole, cuts = files[0].read_bytes(), (0, 3_000, 3_001, 20_000, None)
    members = [gzip.compress(whole[a:b]) for a, b in pairwise(cuts)]
    (tmp_path / "members.json.gz").write_bytes(b"".join(members))
    (tmp_path / "open.json").write_text(f"{json.dumps(rows)[:-1]},\n", encoding="utf-8")
    (tmp_path / "commas.json").write_text(f"{json.dumps(trace)[:-2]},],}}", encoding="utf-8")
    names = ("packed.json.gz", "wide.json", "marked.json", "members.json.gz", "open.json")
    more = [tmp_path / name for name in (*names, "commas.json")]
    agree(tmp_path, *([file] for file in [*files, *more]))


@needs_node
def test_a_file_that_is_no_trace_is_refused_by_its_kind(tmp_path):
    whole = json.dumps(others.drawn(MAKERS["copies"][1], 0.2))
    pick = random.Random(3)
    cut = [whole[: pick.randrange(400, len(whole) - 2)] for _ in range(6)]
    packed = gzip.compress(whole.encode())
    bad = {
        "empty": [b"", b"  \n"],
        "begins": [b"name,dur\n1,2\n", b"\xc3"],
        "json": [b"{'a': 1}", b'{"traceEvents": [{"name": nope}]}', b'{"traceEvents": [5]}'],
        "utf16": [b"\xff\xfe{\x00"],
        "utf8": [b'{"traceEvents": [{"name": "\xff"}]}'],
        "protobuf": [b"\n\x9a\x01\x08\x03\xc2\x06trusted"],
        "after": [b'{"traceEvents": [{"name": "a"}]} {}'],
        "cut": [one.encode() for one in cut],
        "list": [b'{"a": [1, {"b": 2}]}', b"{}"],
        "eventless": [b"[]"],
        "nothing": [b'{"traceEvents": [{"ph": "X", "name": "a", "cat": "op", "ts": 1, "dur": 2}]}'],
        "packed": [packed[: len(packed) // 2]],
        "damaged": [packed[:20] + b"spoilt" + packed[26:]],
        "said": [
            b'[{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 1, "dur": 9}]'
        ],
        "zstd": [b"\x28\xb5\x2f\xfd0000"],
        "nsight": [b"SQLite format 3\x00"],
    }
    groups, expected = [], []
    for why, contents in bad.items():
        for i, content in enumerate(contents):
            groups.append([tmp_path / f"{why}-{i}"])
            groups[-1][0].write_bytes(content)
            expected.append(why)
    told = read_by_page(tmp_path, *groups)
    assert [one.get("why") for one in told] == expected
    for (file,), one in zip(groups, told, strict=True):
        if one["why"] not in ("zstd", "nsight"):  # which the command reads
            with pytest.raises(CourseError) as refused:
                diagnose(file)
            about = {"file": file.name, "n": one.get("about"), "message": one["said"]}
            said = (
                t(f"trace-bad-{one['why']}").format(**about)
                if one["why"] != "said"
                else one["said"]
            )
            assert reason(said) == reason(str(refused.value))


@needs_node
def test_recordings_without_a_device_are_not_read_as_ranks(tmp_path):
    made = others.drawn(others.unfused, 0.2, rows=lambda pen: pen.rows[:-1:3])
    files = written(tmp_path, [made, made])
    (told,) = read_by_page(tmp_path, files)
    with pytest.raises(CourseError, match=re.escape(told["said"])):
        diagnose(files)
    assert told["why"] == "ranks"


def reason(said):
    """Without what only the library knows: where in the file, and in its parser's words why."""
    return re.sub(r" at byte \d+, line \d+| \([^)]*\)", "", said)


def test_the_trees_are_what_the_library_says_now():
    """Whoever changes it writes them anew: `python -m course_press.outputs.translate`."""
    assert translate.DIAGNOSIS.read_text(encoding="utf-8") == translate.trees()


def test_the_page_says_how_many_batches_its_schedule_takes():
    cells = ROOT / "chapters" / "cells" / "your-own-step"
    snippet, setup = (cells.joinpath(f"{name}.qmd").read_text() for name in ("record", "setup"))
    scheduled = re.search(r"schedule\(wait=(\d+), warmup=(\d+), active=(\d+), repeat=1\)", snippet)
    assert (
        re.search(r"^recorded = (\d+), (\d+), (\d+) ", setup, re.M).groups() == scheduled.groups()
    )
