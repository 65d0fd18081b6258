"""The constants of a training framework, fitted by `course_tools.train.fitting`."""

from functools import cache

import msgspec

from course_lib.core.checks import known
from course_lib.specs import load_toml
from course_tools.files import DATA

FOLDER = DATA / "training"
FRAMEWORK = "nanotron"


class TrainingConstants(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a framework's runs add to what physics asks of them.

    Attributes
    ----------
    source, rows : what they were fitted to, and how many runs of it.
    fragmentation : memory taken over memory needed, of all that the allocator hands out.
    logits : copies of the logits in single precision that live at once.
    gathered : of the inputs that tensor parallelism gathers, the share that is kept for the
        backward pass where there is no pipeline.
    passing : arrays of a microbatch's tokens, as wide as the model, that live between operators.
    runtime : byte that libraries take on every chip.
    usable : share of the memory above which a run more likely fails than not.
    attention : share of the peak that attention reaches, its backward pass included.
    traffic : how often each byte that a layer keeps crosses the memory's port, forward and
        backward.
    launch, launch_shared : s that the host takes for a layer and microbatch: alone, and where
        chips share matrices.
    stall : s that each further chip of a tensor-parallel group adds to that where a pipeline
        crosses machines.
    nvlink, ports, gradients : shares of their rates that links reach: within a machine, across
        machines for a layer's tokens, and for gradients.
    scatters : whether each copy gets the sum of its own share of the gradients with ZeRO 1, rather
        than of all.
    tied_copies : copies of the model up to which published runs crashed whose pipeline summed a
        tied embedding over two stages and several microbatches, without ZeRO, on several machines.
        Why is not known.
    update : byte that the optimizer moves for each parameter.
    pressure : how much longer steps take whose memory is above `tight` of the chip's.
    tight : see there.
    far : machines above which networks were slower: ``far_ports`` times for gradients, and
        ``far_stage`` s for a microbatch at each stage boundary.
    low, high : factors on the expected step: an 80 % range.
    """

    source: str
    rows: int
    fragmentation: float
    logits: float
    gathered: float
    passing: float
    runtime: float
    usable: float
    attention: float
    traffic: float
    launch: float
    launch_shared: float
    stall: float
    nvlink: float
    ports: float
    gradients: float
    scatters: bool
    tied_copies: int
    update: float
    pressure: float
    tight: float
    far: float
    far_ports: float
    far_stage: float
    low: float
    high: float


def frameworks() -> tuple[str, ...]:
    """The frameworks whose constants are kept.

    Examples
    --------
    >>> frameworks()
    ('nanotron',)
    """
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def constants(framework: TrainingConstants | str = FRAMEWORK) -> TrainingConstants:
    """A framework's constants by its name.

    Examples
    --------
    >>> constants().fragmentation >= 1
    True
    """
    if isinstance(framework, TrainingConstants):
        return framework
    return _read(known("framework", framework, frameworks()))


@cache
def _read(name: str) -> TrainingConstants:
    return load_toml(FOLDER / f"{name}.toml", TrainingConstants)
