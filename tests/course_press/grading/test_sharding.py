"""The grader of lab 05: right programs pass, and each planted mistake fails its own criterion with
the hint that mends it.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from course_lib import CourseError
from course_tools.hlo import CompiledCollective
from course_book.text import in_language
from course_press.grading import sharding
from course_press.grading.sharding import SHARDING, TASKS, mlp
from course_press.grading.verdict import Verdict
from tests.course_press.conftest import edited, need
from tests.course_press.grading.words import failures, written

need("jax")
LAB = Path(__file__).parents[3] / "labs" / "05-sharding"
TENSOR = '    weights = on(devices, None, "model"), on(devices, "model")\n    return jax.jit(mlp,'
RESULT = "in_shardings=(on(devices), *weights), out_shardings=on(devices))"
SUMS = 'jax.lax.psum_scatter(g / count, "data", tiled=True)'
MICROBATCH = "gradients(*microbatch, *whole)"
GATHERED = 'whole = tuple(jax.lax.all_gather(w, "data", tiled=True) for w in (w1, w2))'
TOKENS = "jax.lax.all_to_all(tokens, "
LAYER = "exchange(mlp(mine, w1[0], w2[0]))[None]"
SEQUENCE = "jax.jit(block, in_shardings=(rows, *weights), out_shardings=rows)"
DATA = "jax.jit(gradients, in_shardings=(rows, rows, whole, whole), out_shardings=whole)"
LOCAL = """(lambda step: jax.jit(jax.shard_map(step, mesh=devices, in_specs=(PartitionSpec("data"),) * 2
        + (PartitionSpec(),) * 2, out_specs=PartitionSpec(), check_vma=False)))(%s)"""
INSTEAD = """\
        def gathered(w1, w2):
            return tuple(jax.lax.all_gather(w, "data", tiled=True) for w in (w1, w2))

        whole = gathered(w1, w2)
"""
INSIDE = "jax.lax.with_sharding_constraint(jax.nn.silu(x @ w1), on(devices%s)) @ w2"


def constrained(axes):
    """Task 1 with a constraint between the products."""
    return {"jax.jit(mlp, in": f"jax.jit(lambda x, w1, w2: {INSIDE % axes}, in"}


# By what is planted: the task, the edits of the reference, the criterion and the hint.
PLANTED = {
    "weights whole by accident": (
        1,
        {TENSOR: TENSOR.replace('None, "model"), on(devices, "model")', '), on(devices, "model")')},
        "shards",
        r"w1 is whole on every device: 8,192 B, and its part has 1,024 B. Cut it along F over model",
    ),
    "everything whole by accident": (
        1,
        {RESULT: "in_shardings=on(devices), out_shardings=on(devices))"},
        "devices",
        "every array is whole on every device.* begin with w1, and cut it along F over model",
    ),
    "activations whole by accident": (
        2,
        {
            'rows, whole = on(devices, "data"), on(devices)': "rows, whole = on(devices), on(devices)"
        },
        "devices",
        "each of them does all of the work: begin with x, and cut it along B over data",
    ),
    "targets whole by accident": (
        2,
        {DATA: DATA.replace("rows, rows,", "rows, whole,")},
        "shards",
        "t is whole on every device.* along B over data",
    ),
    "a mesh of one device": (
        1,
        {
            "np.array(jax.devices())": "np.array(jax.devices()[:1])",
            "mesh(model=8)": "mesh(model=1)",
        },
        "devices",
        "compiled for 1 of the 8 devices: make the mesh of all of jax.devices",
    ),
    "put on one device": (
        1,
        {
            RESULT: "in_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0]), "
            "out_shardings=None)"
        },
        "devices",
        "compiled for 1 of the 8 devices",
    ),
    "the contracted size cut": (
        1,
        {
            TENSOR: TENSOR.replace(
                'on(devices, None, "model"), on(devices, "model")',
                'on(devices, "model"), on(devices, None, "model")',
            )
        },
        "collectives",
        "w1 is cut along D, over which the product sums.* cut it along F",
    ),
    "the tokens cut where they should be whole": (
        1,
        {RESULT: RESULT.replace("(on(devices), *", '(on(devices, "model"), *')},
        "collectives",
        "x is cut along B, and this task wants it whole",
    ),
    "the result left cut": (
        1,
        {RESULT: RESULT.replace("out_shardings=on(devices)", 'out_shardings=on(devices, "model")')},
        "shards",
        r"left with the part \(8, 32\) of y, and \(64, 32\) is asked for: say so in out_shardings",
    ),
    "cut anew between the products": (
        1,
        constrained(', "model"'),
        "collectives",
        "nothing here needs the all-gather of 8,192 B in groups of 8.* with_sharding_constraint",
    ),
    "a constraint that gathers": (
        1,
        constrained(""),
        "collectives",
        "as large as h = x @ w1: something between the two products wants it whole",
    ),
    "fp32 where bf16 was asked": (
        1,
        {"jax.jit(mlp, in": "jax.jit(lambda x, *w: mlp(x.astype(jnp.float32), *w), in"},
        "collectives",
        "the all-reduce carries fp32, 8,192 B, and in bf16 it would be 4,096 B",
    ),
    "gradients that nobody adds": (
        2,
        {DATA: LOCAL % "gradients"},
        "correct",
        "each device returns the gradients of its own rows: add them up over data",
    ),
    "gradients added and not averaged": (
        2,
        {DATA: LOCAL % 'lambda *a: jax.lax.psum(gradients(*a), "data")'},
        "correct",
        "8 times too large: each device's are means.* use pmean where you use psum",
    ),
    "gradients divided twice": (
        2,
        {
            DATA: LOCAL
            % 'lambda *a: jax.tree.map(lambda g: g / 8, jax.lax.pmean(gradients(*a), "data"))'
        },
        "correct",
        "0.125 times what they should be",
    ),
    "gradients gathered needlessly": (
        3,
        {
            "in_shardings=(rows, rows, *weights), out_shardings=weights": "in_shardings=(rows, rows, "
            "*weights), out_shardings=on(devices)"
        },
        "shards",
        r"dw1 comes out whole, \(32, 128\).* its part \(32, 32\) only: nobody needs the rest",
    ),
    "the axes of the mesh swapped": (
        3,
        {"mesh(data=2, model=4)": "mesh(data=4, model=2)"},
        "shards",
        "rows are cut into 4 parts and weights into 2.* Make data the axis of 2 devices",
    ),
    "the wrong axis of the mesh": (
        3,
        {
            'rows = on(devices, "data")\n    weights = on(devices, None, "model"), '
            'on(devices, "model")\n    return jax.jit(gradients': 'rows = on(devices, "model")\n'
            '    weights = on(devices, None, "data"), on(devices, "data")\n    return jax.jit(gradients'
        },
        "shards",
        "the axes of the mesh are swapped",
    ),
    "weights gathered in the loop": (
        4,
        {
            GATHERED: INSTEAD.strip(),
            MICROBATCH: "gradients(*microbatch, *gathered(*jax.lax.optimization_barrier(\n"
            "                (w1, w2, microbatch))[:2]))",
        },
        "loop",
        "all-gather of 8,192 B stands in a loop and runs 4 times: gather before the loop, once",
    ),
    "gradients exchanged in the loop": (
        4,
        {
            "jax.tree.map(jnp.add, total, gradients(*microbatch, *whole))": "jax.tree.map(lambda a, g:"
            ' a + jax.lax.psum_scatter(g / 8, "data", tiled=True), total, '
            "gradients(*microbatch, *whole))",
            "jax.tree.map(jnp.zeros_like, whole)": "jax.tree.map(jnp.zeros_like, (w1, w2))",
            f"tuple({SUMS} for g in total)": "total",
        },
        "loop",
        "reduce-scatter of 8,192 B stands in a loop and runs 4 times: add up on each device first",
    ),
    "weights gathered twice": (
        4,
        {
            "return tuple(jax.lax.psum_scatter": 'back = jax.lax.all_gather(w2.T, "data", axis=1, '
            "tiled=True)\n        total = (total[0] + 0 * back, total[1])\n"
            "        return tuple(jax.lax.psum_scatter"
        },
        "collectives",
        "24,576 B are gathered, and 16,384 B are enough",
    ),
    "an all-reduce where a reduce-scatter does": (
        4,
        {
            SUMS: 'jax.lax.dynamic_slice_in_dim(jax.lax.pmean(g, "data"), '
            'jax.lax.axis_index("data") * (len(g) // 8), len(g) // 8)'
        },
        "collectives",
        "an all-reduce of 16,384 B, although every device needs only its part.* a reduce-scatter does",
    ),
    "gradients left whole": (
        4,
        {
            SUMS: 'jax.lax.pmean(g, "data")',
            "out_specs=(weights, weights)": "out_specs=PartitionSpec()",
        },
        "shards",
        "dw1 comes out whole.* a reduce-scatter does, at half the cost",
    ),
    "weights that no device shares": (
        4,
        {
            GATHERED: "whole = (w1, w2)",
            "in_specs=(rows, rows, weights, weights)": "in_specs=(rows, rows, PartitionSpec(), "
            "PartitionSpec())",
        },
        "shards",
        "w1 is whole on every device.* Cut it along D over data",
    ),
    "gradients of one's own rows, cut": (
        4,
        {
            SUMS: 'jnp.split(g, 8)[0] * 0 + jax.lax.dynamic_slice_in_dim(g, jax.lax.axis_index("data") '
            "* (len(g) // 8), len(g) // 8)"
        },
        "correct",
        "gradients of its own rows: add them up over data, by psum or psum_scatter",
    ),
    "the sequence's result whole": (
        5,
        {SEQUENCE: SEQUENCE.replace("out_shardings=rows", "out_shardings=on(devices)")},
        "shards",
        "y comes out whole.* a reduce-scatter does, at half the cost",
    ),
    "the sequence's rows whole": (
        5,
        {SEQUENCE: SEQUENCE.replace("(rows, *weights)", "(on(devices), *weights)")},
        "shards",
        "x is whole on every device: 4,096 B, and its part has 512 B",
    ),
    "tokens split along their slots": (
        6,
        {"split_axis=0, concat_axis=0": "split_axis=1, concat_axis=1"},
        "correct",
        "sent by their slot, the size C, and not by their expert",
    ),
    "tokens that stay at home": (
        6,
        {"mine = exchange(x[0])": "mine = x[0]", LAYER: "mlp(mine, w1[0], w2[0])[None]"},
        "correct",
        "through the expert of its own device: no all_to_all takes it",
    ),
    "results that never come back": (
        6,
        {LAYER: "mlp(mine, w1[0], w2[0])[None]"},
        "correct",
        "stayed with the experts: a second all_to_all takes them back",
    ),
    "tokens through the next expert": (
        6,
        {
            "mlp(mine, w1[0], w2[0])": 'mlp(mine, *(jax.lax.ppermute(w[0], "expert", [(i, (i + 1) % 8) '
            "for i in range(8)]) for w in (w1, w2)))"
        },
        "correct",
        "a token of device 0 for expert 0 went through expert 7",
    ),
    "all tokens to every expert": (
        6,
        {
            f"return {TOKENS}": 'all_ = jax.lax.all_gather(tokens, "expert")\n        return all_[:, '
            'jax.lax.axis_index("expert")]\n\n    def unused(tokens):\n        '
            f"return {TOKENS}"
        },
        "collectives",
        "an all-gather of .* only those for its own expert: an all-to-all of 16,384 B does",
    ),
    "the target missed with weights alone": (
        7,
        {
            "return both()": "devices = mesh(model=8)\n    weights = on(devices, None, 'model'), "
            "on(devices, 'model')\n    return jax.jit(gradients, in_shardings=(on(devices), on(devices), "
            "*weights), out_shardings=weights)"
        },
        "target",
        r"522 µs on the NVLink of eight H100s, and 400 µs is allowed \(all-reduce of 134,217,728 B in",
    ),
    "the target missed with rows alone": (
        7,
        {"return both()": "return data_parallel()"},
        "target",
        "1.04 ms on the NVLink of eight H100s, and 400 µs is allowed",
    ),
    "devices that repeat the work of others": (
        7,
        {
            "return both()": "devices = mesh(idle=4, model=2)\n    weights = on(devices, None, 'model'), "
            "on(devices, 'model')\n    return jax.jit(gradients, in_shardings=(on(devices), on(devices), "
            "*weights), out_shardings=weights)"
        },
        "devices",
        "only 2 of the 8 devices have work of their own, and the others repeat it",
    ),
    "returns a plain function": (
        1,
        {f"jax.jit(mlp, {RESULT}": "mlp"},
        "runs",
        r"tensor_parallel\(\) returns a function, which cannot be compiled: return jax\.jit",
    ),
    "returns one gradient": (
        2,
        {
            "jax.jit(gradients, in_shardings=(rows, rows, whole, whole)": "jax.jit(lambda *a: "
            "gradients(*a)[0], in_shardings=(rows, rows, whole, whole)"
        },
        "runs",
        r"the results have the shapes \(32, 128\), and \(32, 128\), \(128, 32\) are asked for",
    ),
    "partial sums that nobody adds": (
        1,
        {
            f"jax.jit(mlp, {RESULT}": "jax.jit(jax.shard_map(mlp, mesh=devices, in_specs=("
            "PartitionSpec(), PartitionSpec(None, 'model'), PartitionSpec('model')), "
            "out_specs=PartitionSpec(), check_vma=False))"
        },
        "correct",
        "devices 0 and 1 hold different numbers in the same place of y.* nobody adds the parts",
    ),
    "rows in another order": (
        1,
        {"jax.jit(mlp, in": "jax.jit(lambda x, *w: mlp(x[::-1], *w), in"},
        "correct",
        "y has wrong numbers on device 0",
    ),
    "numbers that are not finite": (
        1,
        {"jax.jit(mlp, in": "jax.jit(lambda x, *w: mlp(x, *w) / 0, in"},
        "correct",
        "the results hold numbers that are not finite",
    ),
    "weights cut into too few parts": (
        1,
        {"mesh(model=8)": "mesh(model=4, idle=2)"},
        "shards",
        "every device holds 2,048 B of w1, and its part has 1,024 B",
    ),
    "gradients added over the wrong axis": (
        3,
        {
            "return jax.jit(gradients, in_shardings=(rows, rows, *weights), out_shardings=weights)": "w = "
            "PartitionSpec(None, 'model'), PartitionSpec('model')\n    b = PartitionSpec('data')\n"
            "    return jax.jit(jax.shard_map(lambda *a: jax.lax.pmean(gradients(*a), 'model'), "
            "mesh=devices, in_specs=(b, b, *w), out_specs=w, check_vma=False))"
        },
        "correct",
        "dw1 has wrong numbers on device 0|hold different numbers in the same place of dw1",
    ),
    "fails in JAX": (
        1,
        {
            'on(devices, None, "model"), on(devices, "model")\n    return jax.jit(mlp': "on(devices, "
            'None, "models"), on(devices, "model")\n    return jax.jit(mlp'
        },
        "runs",
        r"line \d+: '.*'.*models",
    ),
}
REPRESENTATIVE = (
    "weights whole by accident",
    "a mesh of one device",
    "fp32 where bf16 was asked",
    "gradients added and not averaged",
    "weights gathered in the loop",
    "an all-reduce where a reduce-scatter does",
    "tokens split along their slots",
    "the target missed with weights alone",
    "returns a plain function",
)
"""One of each class; the others in `make exhaustive`."""


def graded(file, number, supervisor):
    return failures(SHARDING.grade(file, scenarios=[TASKS[number - 1]], supervisor=supervisor))


def planted(name, folder, supervisor):
    number, edits, criterion, why = PLANTED[name]
    file = written(folder, edited(LAB / "reference.py", edits))
    found = graded(file, number, supervisor)
    assert list(found) == [criterion], found
    assert re.search(why, found[criterion]), found[criterion]


@pytest.mark.parametrize("name", REPRESENTATIVE)
def test_planted_mistakes_fail_for_their_own_reason(name, tmp_path, jax_supervisor):
    planted(name, tmp_path, jax_supervisor)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", [name for name in PLANTED if name not in REPRESENTATIVE])
def test_other_planted_mistakes_fail_for_their_own_reason(name, tmp_path, jax_supervisor):
    planted(name, tmp_path, jax_supervisor)


def exchanged(collective, size, group=8, **more):
    about = {"dtype": "bf16", "widened": False, "sliced": False, "loops": (), "name": "it"}
    groups = (tuple(range(group)),)
    return CompiledCollective(collective, float(size), group, groups, **{**about, **more})


def observed(number, **parts):
    """What a right program of a task holds, but for what is said."""
    task = TASKS[number - 1]
    held = [parts.get(array, task.part(array)) for array in task.inputs]
    return sharding.Trial(task, parts=held)


@pytest.mark.parametrize(
    ("number", "parts", "found", "why"),
    [
        (1, {}, [exchanged("all-reduce", 4096, 4)], "in groups of 4 devices, and 8 is right"),
        (1, {}, [exchanged("all-reduce", 5000)], "exchanges all-reduce of 5,000 B in groups of 8"),
        (1, {}, [], "it exchanges none, and the task needs all-reduce of 4,096 B in groups of 8"),
        (1, {"w2": (128, 4)}, [], "w2 is cut along D: cut it along F"),
        (
            1,
            {},
            [exchanged("all-reduce", 4096), exchanged("send", 512, 2)],
            "needs the send of 512",
        ),
    ],
)
def test_other_exchanges_are_told_apart(number, parts, found, why):
    said = next(sharding.wrong_traffic(observed(number, **parts), found))
    assert re.search(why, str(said))
    assert failures([Verdict("collectives", False, said)])


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (exchanged("send", 512, 2, loops=(3,)), "the send of 512 B .* runs 3 times: take it out"),
        (exchanged("all-reduce", 512, loops=(None,)), "runs an unknown number of times: add up"),
    ],
)
def test_other_loops_are_told_apart(one, why):
    said = next(sharding.looping([exchanged("send", 8), one]))
    assert re.search(why, str(said))
    assert failures([Verdict("loop", False, said)])


def test_what_numpy_finds_is_the_derivative_of_the_loss():
    """A central difference along a random direction, in float64."""
    task = TASKS[1]
    rng = np.random.default_rng(0)
    x, t, *weights = (operand.astype(np.float64) for operand in task.operands(rng))
    way = [rng.standard_normal(w.shape) for w in weights]

    def loss(step):
        moved = [w + step * d for w, d in zip(weights, way, strict=True)]
        return np.sum((mlp(x, *moved) - t) ** 2) / (2 * len(x))

    slope = (loss(1e-5) - loss(-1e-5)) / 2e-5
    found = task.results([x, t, *weights])
    assert sum((g * d).sum() for g, d in zip(found, way, strict=True)) == pytest.approx(slope, 1e-6)


def test_a_callable_with_a_compiler_of_its_own_is_refused(tmp_path, jax_supervisor):
    text = "class Mine:\n    def __getattr__(self, name):\n        return lambda *_: 'nothing'\n"
    text += "    input_shardings = [(None,) * 3]\n    def lower(self, *_):\n        return self\n"
    text += (
        "    def compile(self):\n        return self\n    def as_text(self):\n        return ''\n"
    )
    text += "    def __call__(self, *_):\n        return 'y'\n"
    text += "def tensor_parallel():\n    return Mine()\n"
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert "returns a Mine, which cannot be compiled" in graded(file, 1, jax_supervisor)["runs"]


def test_a_file_that_ends_its_process_is_told_so(tmp_path, jax_supervisor):
    file = tmp_path / "mine.py"
    file.write_text("import os\ndef tensor_parallel():\n    os._exit(3)\n")
    assert "ended with exit status 3" in graded(file, 1, jax_supervisor)["runs"]
    file.write_text("def tensor_parallel(:\n")
    assert re.search("line 1: .*", graded(file, 1, jax_supervisor)["runs"])
    file.write_text("x = 1\n")
    assert "defines no function tensor_parallel()" in graded(file, 1, jax_supervisor)["runs"]


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("ModuleNotFoundError: No module named 'jax'", "hace falta jax: make labs"),
        ("ImportError: jaxlib", "no se puede importar: ImportError: jaxlib"),
    ],
)
def test_without_jax_a_file_is_refused_in_the_readers_language(missing, told):
    supervisor = SimpleNamespace(missing={"jax": missing})
    with in_language("es"), pytest.raises(CourseError, match=told):
        SHARDING.grade(Path("mine.py"), supervisor=supervisor)
