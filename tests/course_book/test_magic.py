"""What a reader's own function takes, in code and in a notebook."""

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from course_lib import CourseError
from course_book.magic import counted, load_ipython_extension, picture, roofline


def test_a_function_runs_as_ever_and_keeps_its_answer(capsys):
    @roofline("a100-sxm-80")
    def layer(x, w):
        return torch.relu(x @ w)

    x, w = (torch.randn(256, 256, dtype=torch.bfloat16) for _ in range(2))
    assert torch.equal(layer(x, w), torch.relu(x @ w))
    found = layer.answer
    assert found.values["flops"] >= 2 * 256**3
    assert found.values["lower_s"] <= found.range.low <= found.values["expected_s"]
    assert found.values["measured_s"] is None
    assert "A100" in capsys.readouterr().out


def test_where_it_runs_it_is_measured():
    x = torch.randn(512, 512)
    found = counted(torch.mm, "h100-sxm", x, x, measured=True)
    assert found.values["measured_s"] > found.values["lower_s"]
    assert "%" in found.answer["ko"]
    assert picture(found, "h100-sxm").svg()


def test_what_numpy_does_cannot_be_counted():
    with pytest.raises(CourseError, match=r"tensor of torch.*NumPy"):
        counted(np.dot, "h100-sxm", np.ones((4, 4)), np.ones((4, 4)))


def test_a_cell_that_ends_in_a_call_is_put_on_the_roof(capsys):
    shell = InteractiveShell.instance()
    load_ipython_extension(shell)
    shell.run_cell_magic(
        "roofline", "h100-sxm", "import torch\nx = torch.ones(64, 64)\ntorch.mm(x, x)"
    )
    assert "mm" in capsys.readouterr().out
    assert shell.user_ns["_answer"].values["flops"] == 2 * 64**3
    with pytest.raises(CourseError, match="must end in the call"):
        shell.run_cell_magic("roofline", "h100-sxm", "x = 1")
    InteractiveShell.clear_instance()
