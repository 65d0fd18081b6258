"""The labs' notebooks by papermill, in a Python that has what their first cell installs and a kernel,
from a wheel of this book; and a widget in such a kernel.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from itertools import cycle
from pathlib import Path

import nbformat
import pytest

from course_press.source.book import languages
from tests.conftest import once

papermill = pytest.importorskip("papermill")
ROOT = Path(__file__).parents[3]
LANGUAGES = languages(ROOT)
NUMBERS = sorted(folder.name[:2] for folder in ROOT.glob("labs/[0-9][0-9]-*"))
BUILT = ("course_lib", "course_tools", "course_book", "course_press")
# Labs whose measurements need more than the first cell installs, and what they say then.
MORE = {
    "01": "torch",
    "02": "torch",
    "03": "torch and transformers",
    "04": "torch and triton",
    "05": "jax",
}
# Each lab in English, whose cells translations share, and in one other language in turn.
in_turn = pytest.mark.parametrize(
    ("number", "lang"), [*zip(NUMBERS, cycle(LANGUAGES[:1])), *zip(NUMBERS, cycle(LANGUAGES[1:]))]
)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """This book's wheel."""

    def build(folder):
        source = folder / "source"
        for name in BUILT:
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSE-text"):
            shutil.copy(ROOT / name, source)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        if shutil.which("uv", path=Path(sys.executable).parent):
            command = [str(Path(sys.executable).with_name("uv")), "build", "-q", "--wheel"]
            command += ["--no-build-isolation", "--python", sys.executable, "-o", str(folder)]
        else:
            command += ["-w", str(folder)]
        subprocess.run([*command, str(source)], check=True)
        shutil.rmtree(source)

    (found,) = once(tmp_path_factory, "wheel", build).glob("*.whl")
    return found


def python_of(folder):
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


@pytest.fixture(scope="session")
def beside(tmp_path_factory, wheel):
    """A Python with the wheel, and what else is here; needs no network."""

    def make(folder):
        venv.create(folder, with_pip=False)
        (site,) = folder.glob("lib/python*/site-packages")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
        (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")

    return python_of(once(tmp_path_factory, "beside", make))


@pytest.fixture(scope="session")
def clean(tmp_path_factory, wheel):
    """A Python with the wheel, what it asks for, and a kernel: as the first cell leaves it."""

    def make(folder):
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
        asked = [f"course-lib[book] @ {wheel.as_uri()}", "ipykernel", "ipywidgets"]
        install = [uv, "pip", "install", "-q", "--python", str(python_of(folder)), *asked]
        subprocess.run(install, check=True)

    return python_of(once(tmp_path_factory, "clean", make))


@contextlib.contextmanager
def kernel(python, folder, lang):
    """A kernel of a Python by the name of `apart`, in a language."""
    spec = {
        "argv": [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "apart",
        "language": "python",
        "env": {"COURSE_LANG": lang, "COURSE_CACHE": "1000000", "PYTHONPATH": ""},
    }
    place = folder / "share" / "kernels" / "apart"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder / "share"))
        yield "apart"


def executed(python, notebook, folder, lang, **given):
    """A notebook as papermill leaves it, run in a folder."""
    with kernel(python, folder, lang) as name:
        papermill.execute_notebook(
            notebook,
            folder / "out.ipynb",
            given,
            cwd=notebook.parent,
            kernel_name=name,
            progress_bar=False,
            log_output=False,
        )
    return nbformat.read(folder / "out.ipynb", as_version=4)


def page(lang, number, folder):
    """A lab's page as a notebook, without the cells that are the reader's to run."""
    notebook = nbformat.read(ROOT / "notebooks" / lang / f"lab-{number}.ipynb", as_version=4)
    skipped = [one for one in notebook.cells if "nbval-skip" in one.metadata.get("tags", ())]
    notebook.cells = [one for one in notebook.cells if one not in skipped]
    nbformat.write(notebook, folder / "page.ipynb")
    return folder / "page.ipynb"


def lab(number, folder):
    """A copy of a lab's folder; its notebook."""
    (source,) = ROOT.glob(f"labs/{number}-*")
    shutil.copytree(source, folder / "lab", ignore=shutil.ignore_patterns("results"))
    return folder / "lab" / "lab.ipynb"


def test_a_page_runs_from_the_wheel_without_a_network(beside, tmp_path):
    (tmp_path / "a").mkdir()
    done = executed(beside, page("es", "05", tmp_path), tmp_path / "a", "es")
    assert len([one for one in done.cells if one.cell_type == "code"]) > 3
    where = "import course_lib; print(course_lib.__file__)"
    asked = subprocess.run([beside, "-Ic", where], capture_output=True, text=True, check=True)
    assert Path(asked.stdout).is_relative_to(beside.parents[1])


@pytest.mark.exhaustive
@in_turn
def test_every_page_runs_as_its_first_cell_leaves_a_python(clean, tmp_path, number, lang):
    done = executed(clean, page(lang, number, tmp_path), tmp_path, lang)
    counts = [one.execution_count for one in done.cells if one.cell_type == "code"]
    assert None not in counts


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", NUMBERS)
def test_a_lab_in_such_a_python_measures_or_says_what_it_needs(clean, tmp_path, number):
    given = {"device": "cpu", "budget": 5.0}
    if number not in MORE:
        executed(clean, lab(number, tmp_path), tmp_path, "en", **given)
        assert (tmp_path / "lab" / "results" / "local" / "REPORT.md").is_file()
        return
    with pytest.raises(papermill.PapermillExecutionError) as told:
        executed(clean, lab(number, tmp_path), tmp_path, "en", **given)
    assert MORE[number] in told.value.evalue
    assert "make labs" in told.value.evalue


@pytest.mark.exhaustive
@in_turn
def test_every_lab_measures_in_every_language(beside, tmp_path, number, lang):
    for needed in MORE.get(number, "").split(" and "):
        if needed:
            pytest.importorskip(needed)
    small = {"many": 6, "prompt": 20, "output": 4} if number == "03" else {}
    executed(beside, lab(number, tmp_path), tmp_path, lang, device="cpu", budget=8.0, **small)
    local = tmp_path / "lab" / "results" / "local"
    about = json.loads((local / "manifest.json").read_text(encoding="utf-8"))
    assert about["lab"] == number
    assert (local / "REPORT.md").is_file()


WIDGET = """
from course_book import explore
from course_book.text import t
shown = explore.decode().widget()
field, = [one for one in shown.children if getattr(one, "description", "") == t("batch")]
picture = shown.children[-2]
print(field.comm.comm_id, picture.comm.comm_id)
"""


def answered(client, code):
    """What a kernel prints for a cell, and the comm messages that it sends meanwhile."""
    comms, printed = [], ""
    asked = client.execute(code)
    while True:
        message = client.get_iopub_msg(timeout=120)
        if message["parent_header"].get("msg_id") != asked:
            continue
        content, kind = message["content"], message["msg_type"]
        assert kind != "error", "\n".join(content["traceback"])
        if kind == "stream":
            printed += content["text"]
        if kind.startswith("comm_"):
            comms.append(content)
        if kind == "status" and content["execution_state"] == "idle":
            return printed, comms


def test_a_widget_answers_a_page_over_the_kernel(beside, tmp_path):
    """A reader drags a slider: the page's message reaches the kernel, which sends a new picture."""
    pytest.importorskip("ipywidgets")
    from jupyter_client.manager import start_new_kernel

    with kernel(beside, tmp_path, "en") as name:
        manager, client = start_new_kernel(kernel_name=name)
        try:
            printed, opened = answered(client, WIDGET)
            field, picture = printed.split()
            assert {field, picture} <= {one["comm_id"] for one in opened}
            data = {"method": "update", "state": {"value": 33}, "buffer_paths": []}
            asked = client.session.msg("comm_msg", {"comm_id": field, "data": data})
            client.shell_channel.send(asked)
            sent = []
            while True:
                message = client.get_iopub_msg(timeout=60)
                if message["parent_header"].get("msg_id") != asked["header"]["msg_id"]:
                    continue
                if message["msg_type"] == "comm_msg":
                    sent.append(message)
                if message["content"].get("execution_state") == "idle":
                    break
            (drawn,) = [one for one in sent if one["content"]["comm_id"] == picture]
            assert drawn["content"]["data"]["buffer_paths"] == [["value"]]
            assert bytes(drawn["buffers"][0]).startswith(b"\x89PNG")
            assert answered(client, "print(field.value)")[0] == "33\n"
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
