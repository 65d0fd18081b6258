"""The labs' notebooks cell by cell as on a GPU: what measures is replaced by rows and traces that were
kept of a real one, so that every branch for CUDA runs here.
"""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from course_lib import bench, chip
from course_lib.bench import results
from course_tools import measured
from course_tools.campaigns import campaign, collectives, kernels, profiling, serving
from course_tools.diagnosis import trace
from course_tools.files import DATA
from tests.course_press.conftest import need

need("torch", "transformers")
ROOT = Path(__file__).parents[3]
H100 = chip("h100-sxm")
HERE = bench.Machine(
    name=H100.device_names[0],
    kind="cuda",
    key=H100.key,
    cache=H100.llc,
    multiprocessors=H100.multiprocessors,
)
TRACES = sorted((DATA / "traces").glob("*.json.gz"))
LABS = {folder.name[:2]: folder for folder in sorted((ROOT / "labs").glob("0*"))}


def cells(number):
    """The code of a lab's notebook, with its parameters for a GPU."""
    notebook = json.loads((LABS[number] / "lab.ipynb").read_text(encoding="utf-8"))
    code = ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]
    asked = [re.sub(r'^device = "cpu"', 'device = "cuda"', one) for one in code]
    assert asked != code
    # What measures is fake; what is measured runs on a CPU.
    return [
        one.replace("slow_models.build(name, device", "slow_models.build(name, 'cpu'")
        for one in asked
    ]


def kept(number, *ops):
    """Rows of a lab from the GPU; of collectives, which no GPU of ours has exchanged, a CPU's."""
    rows = [one for one in measured.lab(number) if not ops or one.op in ops]
    of_gpu = [one for one in rows if one.device == HERE.name]
    return of_gpu or [msgspec.structs.replace(one, device=HERE.name, kind="cuda") for one in rows]


def add(file, rows):
    for row in rows:
        results.append(file, row)
    return 0


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose measurements are those of the book."""
    shown = iter(TRACES)

    def recorded(call, path, device="cpu", **_):
        there = trace.events(json.loads(gzip.decompress(next(shown).read_bytes()))["traceEvents"])
        path.write_bytes(msgspec.json.encode(there))
        return there

    def replayed(engine, file, requests, *, rule, **_):
        rows = kept("03", "request")
        named = [re.sub(r"rule=\S+", f"rule={rule}", row.settings) for row in rows]
        pairs = zip(rows, named, strict=True)
        return add(file, [msgspec.structs.replace(row, settings=said) for row, said in pairs])

    def launched(program, *arguments, world):
        assert world == 2
        asked = dict(zip(arguments[::2], arguments[1::2], strict=True))
        assert asked["--device"] == "cuda"
        add(Path(asked["--out"]), kept("01"))

    import torch

    engine = serving.SmallEngine
    monkeypatch.setattr(bench, "machine", lambda device: HERE if device == "cuda" else 1 / 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(collectives, "launch", launched)
    monkeypatch.setattr(profiling, "record", recorded)
    monkeypatch.setattr(serving, "SmallEngine", lambda device, **how: engine("cpu", **how))
    monkeypatch.setattr(serving, "sweep", lambda _, file, **how: add(file, kept("03", "step")))
    monkeypatch.setattr(serving, "replay", replayed)
    monkeypatch.setattr(kernels, "load", lambda file, device: SimpleNamespace())
    monkeypatch.setattr(kernels, "run", lambda plan, mine, file, *_, **how: add(file, kept("04")))

    def ran(number):
        monkeypatch.setattr(campaign, "run", lambda plan, file, *_, **how: add(file, kept(number)))

    return ran


@pytest.mark.filterwarnings("ignore")  # torch says on import what it finds of a GPU
@pytest.mark.parametrize(
    "number", ["00", "01", "02", pytest.param("03", marks=pytest.mark.exhaustive), "04"]
)
def test_every_cell_of_a_lab_runs_as_on_a_gpu(number, gpu, tmp_path, monkeypatch, capsys):
    gpu(number)
    lab = tmp_path / LABS[number].name
    shutil.copytree(LABS[number], lab, ignore=shutil.ignore_patterns("results"))
    monkeypatch.chdir(lab)
    monkeypatch.syspath_prepend(str(lab))
    held = {"__name__": "__main__"}
    for code in cells(number):
        exec(compile(code, f"lab {number}", "exec"), held)
    for name in ("slow_models", "prediction", "learned"):
        sys.modules.pop(name, None)
    local = lab / "results" / "local"
    about = json.loads((local / "manifest.json").read_text(encoding="utf-8"))
    assert (about["lab"], about["device"]) == (number, HERE.name)
    assert HERE.name in (local / "REPORT.md").read_text(encoding="utf-8")
    assert "skipped" not in capsys.readouterr().out
