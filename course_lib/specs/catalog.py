"""The chips and models of `course_lib/data`, one TOML file each, whose name is the key.

A file is read when it is first asked for. A folder named by the environment variable
`COURSE_CHIPS` adds the reader's own chips.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from course_lib.core import Estimate, Work, formulas
from course_lib.core.checks import (
    CourseError,
    count,
    known,
    nonnegative,
    shown,
    spelled,
    text,
    unfit,
)
from course_lib.specs.accelerators import Accelerator
from course_lib.specs.configurations import ConvNet, Model, Transformer, check
from course_lib.specs.provenance import DATA, as_record, load_toml

# The environment variable that names a folder with more chips.
FOLDER = "COURSE_CHIPS"
_CHIPS = "chips() or course chips lists them; course new chip begins a file of your own"
_MODELS = "models() or course models lists them; course predict reads any config.json by its path"


def chips(*, vendor: str | None = None, year: int | None = None) -> tuple[str, ...]:
    """The keys of all chips in the spec table, sorted; only a vendor's or a year's where one is
    given. Those in the reader's folder that cannot be read are left out: `unreadable` says why.

    Examples
    --------
    >>> chips(vendor="AMD", year=2024)
    ('mi325x',)
    """
    bad = unreadable()
    files = {**_ours(), **_own()}
    keys = tuple(sorted(key for key, path in files.items() if path not in bad))
    if vendor is None and year is None:
        return keys
    found = {key: chip(key) for key in keys}
    if vendor is not None:
        known("vendor", vendor, {one.vendor for one in found.values()})
    years = sorted({one.year for one in found.values()})
    if year is not None and count("year", year) not in years:
        raise CourseError(
            f"no chip is of year {shown(year)}: choose one of {', '.join(map(str, years))}"
        )
    return tuple(
        key
        for key, one in found.items()
        if vendor in (None, one.vendor) and year in (None, one.year)
    )


@cache
def _ours() -> Mapping[str, Path]:
    return {path.stem: path for path in (DATA / "chips").glob("*.toml")}


def _own() -> dict[str, Path]:
    folder = os.environ.get(FOLDER)
    if folder and not Path(folder).is_dir():
        raise CourseError(
            f"{FOLDER}={folder!r} is not a folder: set it to one that holds chips' TOML "
            f"files, or unset it"
        )
    return {path.stem: path for path in sorted(Path(folder).glob("*.toml"))} if folder else {}


def unreadable() -> Mapping[Path, str]:
    """The files in the reader's folder that give no chip, and why. All others can be used
    nevertheless.

    Examples
    --------
    >>> dict(unreadable())
    {}
    """
    found = {}
    for path in _own().values():
        try:
            _of_file(path)
        except CourseError as error:
            found[path] = str(error)
    return found


@cache
def _of_file(path: Path) -> Accelerator:
    if path.parent != DATA / "chips" and path.stem in _ours():
        raise CourseError(
            f"{path}: a chip of key {path.stem!r} is in the spec table already: rename the file"
        )
    return Accelerator.from_toml(path)


def _meant(what: str, key: str, keys: Collection[str], more: str) -> str:
    """The key however it is spelled; where it begins several, these are named."""
    if found := spelled(key, keys):
        return found
    meant = sorted(name for name in keys if name.startswith(f"{key.lower()}-"))
    if len(meant) > 1:
        raise CourseError(f"{what} {key!r} is ambiguous: choose one of {', '.join(meant)}")
    return known(what, key, keys, more)


def chip(key: str) -> Accelerator:
    """A chip of the spec table by its key; where there is none, a `CourseError` has the nearest
    one, or all that the key may mean.

    Examples
    --------
    >>> round(chip("h100-sxm").ridge("bf16"))
    295
    >>> chip("h100")
    Traceback (most recent call last):
    ...
    course_lib.CourseError: chip 'h100' is ambiguous: choose one of h100-pcie, h100-sxm
    """
    if not isinstance(key, str):
        raise unfit("key", "be a chip's key, as text", key, f"{_CHIPS}")
    files = {**_ours(), **_own()}
    return _of_file(files[_meant("chip", key, files, _CHIPS)])


def chip_of_device(device_name: str) -> Accelerator | None:
    """The chip that a runtime reports under exactly this name (`torch.cuda.get_device_name` say, or
    the model name of a CPU), or `None`: a name nobody listed is never guessed at.

    Examples
    --------
    >>> chip_of_device("Tesla T4"), chip_of_device("Tesla T40")
    (chip('t4'), None)
    """
    text("device_name", device_name)
    return next(
        (found for key in chips() if device_name in (found := chip(key)).device_names), None
    )


def accelerator(given: Accelerator | str) -> Accelerator:
    """The chip itself or of this key."""
    found: Any = chip(given) if isinstance(given, str) else given
    if not hasattr(found, "peaks") or not hasattr(found, "bandwidth"):
        raise unfit("chip", "be a key of the spec table or an Accelerator", found)
    one: Accelerator = found
    return one


def bounded(work: Work, chip: Accelerator, *, comms: ArrayLike = 0.0) -> Estimate:
    """`roofline`, for work that comes from a model rather than from the reader; pages ask too.

    A chip without any matrix unit does products on its vector unit. Elementwise work on a chip that
    publishes no vector peak for it has memory time only, which keeps the bound a bound; a product's
    missing peak stays an error, on whichever unit.
    """
    one = suited_to(work, chip)
    peak, late = peak_met(chip.peaks, one.unit, one.dtype), nonnegative("comms", comms)
    if peak is None:
        _require_peak(one, chip)
    t_math, t_memory = formulas.times(one.flops, one.bytes, peak, chip.bandwidth)
    return Estimate(t_math, t_memory, late, one.flops, one.bytes, one.kernels, work=one, chip=chip)


def _require_peak(work: Work, chip: Accelerator) -> NoReturn:
    try:
        chip.peak(work.dtype, work.unit)  # which says what is missing
    except CourseError as error:
        raise CourseError(
            f"{error}; compute=, or --compute, takes one of these for the arithmetic"
        ) from None
    raise AssertionError


def peak_met(peaks: Any, unit: str, dtype: str) -> float | None:
    """FLOP/s that arithmetic meets: if unpublished `inf` on the vector unit, else `None`."""
    own = unit + "." + dtype
    if own in peaks:
        found: float = peaks[own]
        return found
    return np.inf if unit == "vector" else None


def suited_to(work: Any, chip: Any) -> Any:
    """A product as work of the vector unit, where a chip has no other and publishes its rate."""
    fast = len([name for name in chip.peaks if name.startswith("matrix.")]) > 0
    if work.unit != "matrix" or fast or "vector." + work.dtype not in chip.peaks:
        return work
    return replace(work, unit="vector")


def models() -> tuple[str, ...]:
    """The keys of all models in the table, sorted.

    Examples
    --------
    >>> "llama-2-70b" in models()
    True
    """
    return tuple(sorted(path.stem for path in (DATA / "models").glob("*.toml")))


def listed_models() -> tuple[str, ...]:
    """Keys of the models that a list shows, by vendor, the latest first; MPT is for training only.

    Examples
    --------
    >>> listed_models()[0], listed_models()[-1]
    ('qwen3-0.6b', 'resnet-50')
    """
    every = [one for one in map(model, models()) if not one.key.startswith("mpt-")]
    every.sort(key=lambda one: (-one.year, one.parameters))
    latest = {one.vendor: -one.year for one in reversed(every)}
    return tuple(one.key for one in sorted(every, key=lambda one: (latest[one.vendor], one.vendor)))


def model(key: str) -> Model:
    """A model of the table by its key.

    Examples
    --------
    >>> model("llama-2-70b").kv_heads
    8
    """
    if not isinstance(key, str):
        raise unfit("key", "be a model's key, as text", key, f"{_MODELS}")
    return _read_model(key)


@cache
def _read_model(key: str) -> Model:
    if (found := _meant("model", key, models(), _MODELS)) != key:
        return _read_model(found)
    name = f"{found}.toml"
    return model_from(name, load_toml(DATA / "models" / name, dict[str, Any]))


def model_from(file: str, raw: Mapping[str, Any]) -> Model:
    """A model from what its file holds, checked."""
    kind: Any = ConvNet if raw.get("kind") == "convnet" else Transformer
    try:
        found: Model = as_record("of a model", {**raw, "key": file.removesuffix(".toml")}, kind)
        check(found)
    except CourseError as error:
        raise CourseError(f"{file}: {error}") from None
    return found


def transformer(given: Transformer | str, *, windows: bool = False) -> Transformer:
    """The model itself or of this key, refused where its `windows` are not counted."""
    found: Any = model(given) if isinstance(given, str) else given
    if not isinstance(found, Transformer):
        given = getattr(found, "key", found)
        raise unfit("model", "be a transformer or its key", given, "course_lib.resnet has convnets")
    if (found.windowed or found.recurrent) and not windows:
        raise CourseError(
            f"model {found.key or found.name!r} has layers that look at a window only or keep a "
            f"state, which are not counted here: ask course_lib.llm"
        )
    if found is given:  # those of the table were checked when they were read
        try:
            found.check_sizes()
        except CourseError as error:
            raise CourseError(f"model {found.key or found.name!r}: {error}") from None
    return found


def decoder(given: Transformer | str, *, windows: bool = False) -> Transformer:
    """As `transformer`; raise where it does not decode."""
    one = transformer(given, windows=windows)
    if one.kind != "decoder":
        raise CourseError(
            f"model must be a decoder (got {one.key!r}, an {one.kind}): its only pass is a prefill"
        )
    return one
