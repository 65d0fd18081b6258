import math

import numpy as np
import pytest
from msgspec.structs import replace

from course_lib import CourseError, chip, chips, resnet
from course_lib.core import critical_batch, roofline
from course_lib.specs import model
from tests.each import each

A100 = chip("a100-sxm-80")
NET = model("resnet-50")


@pytest.mark.parametrize(
    ("counted", "per_image", "single", "many", "batch"),
    [
        ("weights", 0, 160, 10_240, 1),
        ("operands", 43.6, 86, 184, 6),
        ("fused", 56.8, 75.8, 142, math.inf),
        ("eager", 161.8, 38.4, 50.3, math.inf),
    ],
)
def test_which_bytes_decide(counted, per_image, single, many, batch):
    def at(images):
        return resnet.work("resnet-50", images, counted=counted)

    assert (at(2).bytes - at(1).bytes) / 1e6 == pytest.approx(per_image, abs=0.05)
    assert at(1).intensity == pytest.approx(single, rel=0.005)
    assert at(64).intensity == pytest.approx(many, rel=0.004)
    assert critical_batch(at, A100) == batch


def test_the_limit_of_the_fused_network_is_below_the_ridge():
    assert resnet.work(NET, 10**9, counted="fused").intensity == pytest.approx(144, abs=0.5)
    assert A100.ridge("fp16") == pytest.approx(153, abs=0.5)


def test_a_roof_over_the_sum_and_the_sum_of_roofs():
    overlapped = roofline(resnet.work(NET, 64), A100)
    one_by_one = resnet.forward(NET, A100, 64)
    assert (1e3 * overlapped.lower, 1e3 * one_by_one.lower) == (
        pytest.approx(1.68, abs=0.005),
        pytest.approx(2.10, abs=0.005),
    )
    assert overlapped.bound == one_by_one.bound == "compute-bound"
    assert {part.bound for part in one_by_one.parts.values()} == {"compute-bound", "memory-bound"}


def test_bounds_of_one_image():
    times = [
        1e6 * roofline(resnet.work(NET, 1, counted=counted), A100).lower
        for counted in ("weights", "fused")
    ]
    assert times == [pytest.approx(26.2, abs=0.05), pytest.approx(52.9, abs=0.05)]


def test_layers_add_up_to_what_is_published():
    every = resnet.layers(NET)
    assert sum(layer.parameters for layer in every) == NET.parameters
    assert sum(layer.flops for layer in every) / 2 == pytest.approx(
        NET.multiply_accumulates.si, rel=1e-3
    )
    assert sum(layer.norm for layer in every) == 53
    assert sum(layer.adds for layer in every) == 16
    assert len({layer.name for layer in every}) == len(every) == 53 + 3
    paper = resnet.layers(replace(NET, stride_in="1x1"))
    assert sum(layer.flops for layer in paper) / 1e9 == pytest.approx(7.7, abs=0.05)
    assert sum(layer.parameters for layer in paper) == NET.parameters


def test_flops_and_traffic_equal_torchs_own_count():
    """A network written from the paper, run on no memory; hooks see what each operator reads and
    writes.
    """
    torch = pytest.importorskip("torch")
    from torch import nn
    from torch.utils.flop_counter import FlopCounterMode

    moved = {"conv": 0, "other": 0}

    def count(module, inputs, output):
        kind = "conv" if isinstance(module, nn.Conv2d | nn.Linear) else "other"
        moved[kind] += sum(tensor.numel() for tensor in inputs) + output.numel()

    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    def conv(into, out, kernel, stride=1):
        return nn.Sequential(
            nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(out)
        )

    class Block(nn.Module):
        def __init__(self, into, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                conv(into, width, 1),
                nn.ReLU(),
                conv(width, width, 3, stride),
                nn.ReLU(),
                conv(width, 4 * width, 1),
            )
            self.shortcut = conv(into, 4 * width, 1, stride) if into != 4 * width else nn.Identity()
            self.add, self.relu = Sum(), nn.ReLU()

        def forward(self, x):
            return self.relu(self.add(self.body(x), self.shortcut(x)))

    with torch.device("meta"), torch.no_grad():
        blocks, into = [], 64
        for stage, (depth, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
            for i in range(depth):
                blocks.append(Block(into, width, 2 if stage and not i else 1))
                into = 4 * width
        net = nn.Sequential(
            conv(3, 64, 7, 2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        whole = nn.Sequential(net, nn.Linear(2048, 1000)).eval()
        for module in whole.modules():
            if not list(module.children()) and not isinstance(module, nn.Identity | nn.Flatten):
                module.register_forward_hook(count)
        with FlopCounterMode(display=False) as counter:
            whole(torch.empty(1, 3, 224, 224))
    assert sum(parameter.numel() for parameter in whole.parameters()) == NET.parameters
    assert sum(layer.flops for layer in resnet.layers(NET)) == counter.get_total_flops()
    assert sum(layer.elements("operands") for layer in resnet.layers(NET)) == moved["conv"]
    assert (
        sum(layer.elements("eager") for layer in resnet.layers(NET))
        == moved["conv"] + moved["other"]
    )


def test_each_count_has_all_before_it():
    for layer in resnet.layers(NET):
        counts = [layer.elements(counted) for counted in resnet.BYTES]
        assert counts == sorted(counts)
        assert counts[0] == 0


def test_parts_add_up_and_broadcast():
    step = resnet.forward(NET, A100, np.array([1, 64]), counted="eager")
    work = resnet.work(NET, np.array([1, 64]), counted="eager")
    assert step.flops == pytest.approx(work.flops)
    assert step.bytes == pytest.approx(work.bytes)
    assert step.kernels == work.kernels == 56 + 53 + 49 + 16
    assert step.lower == pytest.approx(sum(part.lower for part in step.parts.values()))
    assert np.all(step.lower >= roofline(work, A100).lower * (1 - 1e-12))
    assert resnet.forward(NET, A100, 64, counted="eager").lower == pytest.approx(step.lower[1])


def test_int8_halves_bytes_and_doubles_the_peak():
    half, one = resnet.forward(NET, A100, 64), resnet.forward(NET, A100, 64, w="int8")
    assert one.bytes == half.bytes / 2
    assert one.lower == pytest.approx(half.lower / 2)
    mixed = resnet.work(NET, 1, w="int8", x="fp16")
    assert mixed.dtype == "fp16"
    assert mixed.bytes == NET.parameters + resnet.work(NET, 1).bytes - 2 * NET.parameters


@each("on", chips())
def test_it_runs_on_every_chip(on):
    has = [name.removeprefix("matrix.") for name in chip(on).peaks if name.startswith("matrix.")]
    fmt = next((dtype for dtype in ("fp16", "bf16") if dtype in has), "fp32")
    for counted in resnet.BYTES:
        assert resnet.forward(NET, on, 8, w=fmt, counted=counted).lower > 0


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: resnet.layers("llama-3-8b"), ["convnet", "'llama-3-8b'", "course_lib.llm"]),
        (lambda: resnet.work(NET, 0), ["batch", "got 0"]),
        (
            lambda: resnet.work(NET, 1, counted="fuse"),
            ["counted", "'fuse'", "did you mean 'fused'"],
        ),
        (lambda: resnet.forward(NET, A100, 1, counted="all"), ["counted", "'all'"]),
        (lambda: resnet.forward(NET, "tpu-v4", 1), ["tpu-v4", "'fp16'", "bf16"]),
        (lambda: resnet.forward(NET, "a100", 1), ["ambiguous", "a100-sxm-80"]),
    ],
)
def test_errors_name_argument_value_and_remedy(call, parts):
    with pytest.raises(CourseError) as error:
        call()
    for part in parts:
        assert part in str(error.value)
