import pytest

from course_lib import reports
from course_lib.measured import Manifest, Row

ABOUT = {"kind": "cpu", "dtype": "fp32", "shape": "8x8x8", "timing": "cold", "data": "random"}
OPS = {"products": "matmul", "collectives": "send", "operators": "chain"}


@pytest.mark.parametrize("name", OPS)
def test_every_report_has_one_frame(name):
    rows = [
        Row(**ABOUT, op=OPS[name], device=device, status="over-budget", note="too slow")
        for device in ("one", "two", "one")
    ]
    about = Manifest(
        lab="07", command="run 07", started="2026-01-01", wall_seconds=90.0, cost_usd=2
    )
    report = getattr(reports, name).report
    title, line, *rest = report(rows, about).strip().split("\n\n")
    assert title == "# 07"
    assert line == "`run 07`, started 2026-01-01, took 90 s, cost 2 USD."
    assert [part.removesuffix(", ") for part in rest if part.startswith("#")] == [
        "## one",
        "## two",
    ]
    assert "over-budget" in rest[1] + rest[2]
    assert report([], Manifest(lab="07", command="run 07")).endswith("Nothing was measured.\n")
