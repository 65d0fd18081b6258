"""Reading a trace: whole, in pieces, and what is no trace."""

import gzip
import json
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib import CourseError
from course_tools import diagnosis
from course_tools.diagnosis.reading import rows, stream
from course_tools.diagnosis.reading.rows import union
from tests.course_tools.diagnosis.test_verdicts import drawn

ROW = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2}


def events(path):
    return list(stream.Stream(path))


def refused(tmp_path, content):
    file = tmp_path / "some.json"
    file.write_bytes(content)
    with pytest.raises(CourseError) as said:
        diagnosis.diagnose(file)
    return str(said.value)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.text(max_size=12) | st.just("}, {"),
                "ts": st.floats(0, 1e15) | st.integers(0, 10**16),
                "args": st.dictionaries(
                    st.text(max_size=5),
                    st.lists(st.fixed_dictionaries({"a": st.integers()}), max_size=3),
                    max_size=2,
                ),
            }
        ),
        max_size=30,
    ),
    st.integers(1, 90),
    st.sampled_from([None, 1]),
)
@settings(max_examples=60, deadline=None)
def test_pieces_of_any_size_hold_the_same_events(tmp_path_factory, raw, piece, indent):
    file = tmp_path_factory.mktemp("pieces") / "trace.json"
    file.write_text(
        json.dumps(
            {"a": [1, {}], "note": "é}", "traceEvents": raw, "constructed": "é}"}, indent=indent
        )
    )
    kept = stream.PIECE
    try:
        stream.PIECE = piece
        reader = stream.Stream(file)
        found = list(reader)
    finally:
        stream.PIECE = kept
    assert [(one.name, one.ts) for one in found] == [(one["name"], one["ts"]) for one in raw]
    assert reader.head == {"constructed": "é}"}


def test_a_cut_off_trace_is_named_with_its_byte_wherever_it_is_cut(tmp_path):
    whole = json.dumps(drawn("strided", 0.05), indent=1).encode()
    for at in (1, 30, 500, len(whole) // 2, len(whole) - 40, len(whole) - 2):
        said = refused(tmp_path, whole[:at])
        assert "is cut off" in said
        assert f"at byte {at}, line {whole[:at].count(10) + 1}" in said


def test_a_cut_off_archive_is_named(tmp_path):
    whole = gzip.compress(json.dumps(drawn("strided", 0.05)).encode())
    assert "is cut off inside its compression at byte" in refused(
        tmp_path, whole[: len(whole) // 2]
    )
    assert "is not well compressed" in refused(tmp_path, whole[:40] + b"\0" * 40 + whole[80:])


def test_a_mistake_is_named_with_its_byte_and_line(tmp_path):
    text = json.dumps({"traceEvents": [ROW] * 5000}, indent=1).encode()
    at = text.index(b'"dur"', 400_000)
    said = refused(tmp_path, text[:at] + b"'" + text[at:])
    assert f"at byte {at}, line {text[:at].count(10) + 1}" in said
    assert "is not text in UTF-8 at byte" in refused(tmp_path, text.replace(b"mm", b"\xff\xff", 1))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty at byte 0"),
        (b"  \n ", "is empty"),
        (b"hello", "does not begin as JSON does at byte 0, line 1"),
        (b"{}", "JSON without a list traceEvents (its keys: none)"),
        (b'{"nodes": [1], "edges": {}}', "(its keys: 'nodes', 'edges')"),
        (b'{"traceEvents": 3}', "without a list traceEvents"),
        (b'{"traceEvents": []}', "holds no events"),
        (b"[]", "holds no events"),
        (b"[1, 2]", "an event was expected"),
        (b'[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]', "none of an operator or a kernel"),
        (b'[{"ph": "X", "cat": "toplevel", "ts": 1, "dur": 2}]', "(categories: 'toplevel')"),
        (b'{"traceEvents": []} and more', "goes on after its end at byte 20"),
        (b'{"traceEvents" []}', "a colon was expected"),
        (b"\x7fELF", "does not begin as JSON does"),
        ("[{}]".encode("utf-16"), "is text in UTF-16: save it in UTF-8"),
        (b"\n\x9a\x01\x08\x03\xc2\x06trusted", "is a protobuf, as Perfetto writes it"),
        (b"\nname,dur\n", "does not begin as JSON does at byte 1, line 2"),
        (b'[{"ph": "X"}, {"ph": ', "is cut off"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b'[{"ph": "X", "cat": "kernel", "name": "\\ud800"}]', "holds half a character"),
        (b'{"deviceProperties": [{"name": "\\udfff"}], "traceEvents": []}', "half a character"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(tmp_path, content, said):
    found = refused(tmp_path, content)
    assert said in found
    assert found.startswith("some.json ")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(CourseError, match=r"cannot be read: No such file"):
        diagnosis.diagnose(tmp_path / "none.json")
    with pytest.raises(CourseError, match="path must be the path of a trace"):
        diagnosis.diagnose(3)
    with pytest.raises(CourseError, match="cannot be read"):
        diagnosis.diagnose(tmp_path)


def test_numbers_that_json_lacks_and_odd_events_are_passed_over(tmp_path):
    file = tmp_path / "trace.json"
    odd = '{"ph": "X", "args": {"bytes": Infinity}}, {"name": 3, "args": []}, {"args": {"a": NaN}}'
    file.write_text(f"[{json.dumps(ROW)}, {odd}, {json.dumps(ROW)}]")
    found = events(file)
    assert [one.ts for one in found] == [1.5, None, None, None, 1.5]


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    file = tmp_path / "trace.json"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps([ROW]).encode())
    assert len(events(file)) == 1


@pytest.mark.parametrize("pack", [gzip.compress, import_module(stream.ZSTD).compress])
def test_packed_pieces_one_behind_the_other_are_one_file(tmp_path, pack):
    file = tmp_path / "trace.json.gz"
    whole = json.dumps({"a": 1, "traceEvents": [ROW] * 900}).encode()
    file.write_bytes(b"".join(pack(whole[i : i + 5_000]) for i in range(0, len(whole), 5_000)))
    assert len(events(file)) == 900


@pytest.mark.parametrize(
    "text",
    [
        "[{0}, {0}",  # the format lets a list lack its end
        "[{0},\n{0},\n",
        "[{0}, {0},]",
        '{{"a": 1, "traceEvents": [{0}, {0},],}}',
        '\ufeff{{"traceEvents": [{0}, {0}], "z": {{"b": [1]}},\n}}',
    ],
)
def test_commas_that_end_nothing_and_a_list_without_an_end(tmp_path, text):
    file = tmp_path / "trace.json"
    file.write_text(text.format(json.dumps(ROW)), encoding="utf-8")
    assert [one.ts for one in events(file)] == [1.5, 1.5]


def test_of_a_long_trace_a_stretch_in_the_middle_is_kept(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(drawn("synchronisation", 1.0)))
    whole = rows.gather(file)
    part = rows.gather(file, most=len(whole.ts) // 3)
    assert 0.15 < part.kept < 0.35
    assert {int(kind) for kind in part.kind} == {int(kind) for kind in whole.kind}
    assert whole.ts.min() < part.ts.min() < part.ts.max() < whole.ts.max()


def test_shapes_beyond_a_number_of_kinds_are_dropped(tmp_path, monkeypatch):
    file = tmp_path / "trace.json"
    every = [{**ROW, "args": {"Input Dims": [[i]], "Input type": ["float"]}} for i in range(50)]
    file.write_text(json.dumps(every))
    monkeypatch.setattr(rows, "KINDS", 10)
    found = rows.gather(file)
    assert len(found.types) == 11
    assert found.types[-1].dims == ()


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=20)


@given(spans, st.integers(0, 60), st.integers(0, 30))
def test_unions_cover_what_counting_moments_says(raw, start, length):
    covered = {moment for at, lasted in raw for moment in range(at, at + lasted)}
    found = union([at for at, _ in raw], [lasted for _, lasted in raw])
    assert found.total == len(covered)
    within = len(covered & set(range(start, start + length)))
    assert found.covered(np.array([start]), np.array([start + length]))[0] == within
    gaps = found.gaps(start, start + length)
    assert gaps.total == length - within
