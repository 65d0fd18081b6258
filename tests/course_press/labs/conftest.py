"""A book with one small lab."""

import nbformat
import pytest

TASK = """
name: a-lab
resources:
  accelerators: "{gpu}:1"
  infra: "{cloud}"
workdir: .
run: |
  python3 -m course_press lab run 07 --device cuda --budget {budget}
"""


@pytest.fixture
def shelf(tmp_path):
    """A book with one small lab whose notebook the test writes."""

    def put(*cells):
        folder = tmp_path / "labs" / "07-small"
        folder.mkdir(parents=True)
        (folder / "cloud.yaml").write_text(TASK)
        first = nbformat.v4.new_code_cell(
            'device = "cpu"\nbudget = 1.0\nout = "."', metadata={"tags": ["parameters"]}
        )
        notebook = nbformat.v4.new_notebook(cells=[first, *map(nbformat.v4.new_code_cell, cells)])
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, folder / "lab.ipynb")
        return tmp_path

    return put


@pytest.fixture(autouse=True)
def single(monkeypatch):
    """One thread for torch too; elsewhere, where cells run, pages would seem to have changed."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
