"""Runs labs: papermill drives a lab's notebook here, SkyPilot on a rented machine."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import nbformat
import yaml

from course_lib import CourseError, bench
from course_lib.book import rent, tables
from course_lib.measured import results
from course_press.source.errors import MissingError
from course_press.source.files import swap_in

LOCAL = Path("results") / "local"
"""Where a lab keeps what was measured here; git ignores it."""
GPUS = {
    "A100-80GB": ("a100-sxm-80", {"runpod": "A100-80GB-SXM"}),
    "A100": ("a100-sxm-40", {"lambda": "A100"}),
    "H100": ("h100-sxm", {"runpod": "H100-SXM", "lambda": "H100", "vast": "H100"}),
    "H100-PCIe": ("h100-pcie", {"runpod": "H100"}),
    "H200": ("h200-sxm", {"runpod": "H200-SXM", "vast": "H200"}),
    "B200": ("b200-sxm", {"runpod": "B200", "lambda": "B200", "vast": "B200"}),
    "L4": ("l4", {"runpod": "L4", "vast": "L4"}),
    "L40S": ("l40s", {"runpod": "L40S", "vast": "L40S"}),
    "RTX4090": ("rtx-4090", {"runpod": "RTX4090", "vast": "RTX4090"}),
}
"""The GPUs that a lab may rent: the chip, and what SkyPilot calls it at each cloud. Nothing else is
asked of a cloud.
"""
CLOUDS = {"runpod": "RunPod", "lambda": "Lambda", "vast": "vast.ai"}
SETUP = 15
"""Minutes after which installing on the rented machine is ended."""
OVERHEAD = 20
"""Minutes that setting up and copying take besides the measuring, at most: what is paid for and not
measured.
"""
KEYS = {
    "runpod": "~/.runpod/config.toml",
    "lambda": "~/.lambda_cloud/lambda_keys",
    "vast": "~/.config/vastai/vast_api_key",
}
"""What SkyPilot copies to the rented machine, so that this can give itself back."""
UPLOADED = (
    "pyproject.toml",
    "constraints.txt",
    "README.md",
    "LICENSE",
    "LICENSE-text",
    "course_lib",
    "course_press",
)
"""What of the book the rented machine needs besides the lab; nothing else leaves this computer."""


class Run(NamedTuple):
    """What running a lab gave: the executed notebook, and the error it ended with."""

    notebook: Path
    error: str | None


class Plan(NamedTuple):
    """A lab on a rented machine, before it is paid for."""

    task: Mapping[str, Any]
    gpu: str
    chip: str
    price: tables.Price
    minutes: float
    ceiling: float
    """USD an hour above which SkyPilot takes no machine."""
    key: str
    """The file of the provider's key, which SkyPilot copies to the rented machine."""

    @property
    def usd(self) -> float:
        """What it will cost, about."""
        return self.price.usd_per_hour * self.minutes / 60


def folder(root: Path, number: str) -> Path:
    """The folder of a lab by its number.

    Raises
    ------
    CourseError
        If there is none; the message lists those that are.
    """
    found = sorted(
        path for path in (root / "labs").glob("[0-9][0-9]-*") if (path / "lab.ipynb").is_file()
    )
    for path in found:
        if path.name.partition("-")[0] == number.zfill(2):
            return path
    raise CourseError(
        f"lab {number!r} does not exist: choose from "
        f"{', '.join(path.name for path in found) or 'none'}"
    )


def amount(name: str, value: float, *, least: float = 0.0) -> float:
    """A finite number not below `least`, or a `CourseError` that names the option."""
    if not (isfinite(value) and value >= least):
        raise CourseError(f"{name} must be a finite number of at least {least:g} (got {value:g})")
    return value


def run(
    root: Path,
    number: str,
    *,
    device: str,
    budget: float,
    usd_per_hour: float | None = None,
    say: Callable[[str], None] = lambda _: None,
    **parameters: Any,
) -> Run:
    """Execute a lab's notebook in its folder; the executed copy stays in `results/local`, also
    where a cell fails.

    Parameters
    ----------
    root : the book's folder.
    number : of the lab.
    device : ``"cpu"`` or ``"cuda"``.
    budget : s for all measurements.
    usd_per_hour : what the machine costs.
    say : is told what begins.
    **parameters : others of the notebook.

    Raises
    ------
    MissingError
        If papermill is not installed.
    CourseError
        If a number is none, another run is measuring, the folder cannot be written to, or the
        kernel dies.
    """
    amount("--budget", budget, least=1)
    if usd_per_hour is not None:
        amount("--usd-per-hour", usd_per_hour)
    try:
        import papermill
        from nbclient.exceptions import DeadKernelError
    except ImportError:
        raise MissingError(
            "papermill is not installed: make labs, or pip install -e '.[press,labs]'"
        ) from None
    lab = folder(root, number).resolve()
    given = {
        "device": device,
        "budget": budget,
        "out": LOCAL.as_posix(),
        "usd_per_hour": usd_per_hour,
        **parameters,
    }
    executed = LOCAL / "lab.ipynb"
    try:
        with _alone(root, f"lab {lab.name}"):
            (lab / LOCAL).mkdir(parents=True, exist_ok=True)
            executed = _unused(lab, f"lab-{device}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
            say(f"{lab.name} on {device}, {budget:g} s")
            try:
                # Paths from the lab's folder on: the executed notebook keeps them, and may be shown
                # to others.
                with contextlib.chdir(lab):
                    papermill.execute_notebook(
                        "lab.ipynb",
                        executed.as_posix(),
                        given,
                        cwd=".",
                        kernel_name="python3",
                        log_output=False,
                        progress_bar=True,
                    )
            except papermill.PapermillExecutionError as error:
                return Run(lab / executed, f"{error.ename}: {error.evalue}")
            except DeadKernelError:
                said = "the kernel died, as it does where memory runs out: close other programs"
                raise CourseError(f"{said}, and run again; finished rows are safe") from None
            finally:
                _without_paths(lab / executed, root)
            return Run(lab / executed, None)
    except OSError as error:
        where = f" to {executed}" if error.filename is None else f" to {Path(error.filename).name}"
        said = f"cannot write{where}: {error.strerror or error}; finished rows are safe"
        raise CourseError(f"{said}: see to the disk and its rights, and run again") from None


@contextlib.contextmanager
def _alone(root: Path, what: str) -> Iterator[None]:
    """Hold the book against other runs, which would measure each other; the system lets go when a
    process dies.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    file = root / ".cache" / "lab.lock"
    file.parent.mkdir(exist_ok=True)
    with file.open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "another process"
            raise CourseError(
                f"{holder} is measuring, and two runs would measure each other: wait for "
                f"it, or end it"
            ) from None
        lock.truncate(0)
        lock.write(
            f"{what} (process {os.getpid()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC)"
        )
        lock.flush()
        yield


def _unused(lab: Path, stem: str) -> Path:
    found = (LOCAL / f"{stem}{again}.ipynb" for again in ("", *(f"-{i}" for i in range(2, 1000))))
    return next(path for path in found if not (lab / path).exists())


def _without_paths(notebook: Path, root: Path) -> None:
    """Take this machine's folders out of an executed notebook: an error's traceback names them, and
    with them a user.
    """
    if not notebook.is_file():
        return
    try:
        given: Any = nbformat.read(notebook, as_version=nbformat.NO_CONVERT)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, nbformat.ValidationError):
        return  # a full disk may have left half of it
    known = {
        str(root.resolve()): ".",
        sys.prefix: "python",
        sys.base_prefix: "python",
        str(Path.home()): "~",
    }
    folders = sorted(
        ((old, new) for old, new in known.items() if len(old) > 1), key=lambda pair: -len(pair[0])
    )

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        if isinstance(value, str):
            for old, new in folders:
                value = value.replace(old, new)
        return value

    for cell in given.cells:
        if "outputs" in cell:
            cell["outputs"] = plain(cell["outputs"])
    given.metadata = plain(given.metadata)
    swap_in(notebook, json.dumps(given, indent=1, ensure_ascii=False) + "\n")


def plan(
    root: Path,
    number: str,
    *,
    gpu: str,
    cloud: str,
    budget: float,
    max_cost: float,
    usd_per_hour: float | None = None,
) -> Plan:
    """The task for a rented machine, and what it will cost by the newest dated price of its chip at
    that provider.

    Parameters
    ----------
    root : the book's folder.
    number : of the lab.
    gpu, cloud : keys of `GPUS` and `CLOUDS`.
    budget : s for all measurements.
    max_cost : USD that the whole may cost.
    usd_per_hour : what the provider asks, for one of which no dated price is known.

    Raises
    ------
    CourseError
        If the GPU or the cloud is not one of ours, no price is known, or the cost is above
        `max_cost`.
    """
    amount("--budget", budget, least=1)
    amount("--max-cost", max_cost)
    if gpu not in GPUS:
        raise CourseError(
            f"--gpu {gpu!r} is not one that the lab rents: choose from {', '.join(GPUS)}"
        )
    chip, names = GPUS[gpu]
    if cloud not in names:
        raise CourseError(
            f"--cloud {cloud!r} does not rent out one {gpu}: choose from {', '.join(names)}"
        )
    file = folder(root, number) / "cloud.yaml"
    if not file.is_file():
        raise CourseError(
            f"lab {number!r} has no task for a rented GPU: its page shows how to rent by hand"
        )
    price = _price(gpu, chip, CLOUDS[cloud], usd_per_hour)
    minutes = OVERHEAD + budget / 60
    ceiling = int(max_cost / (minutes / 60) * 100) / 100
    usd = price.usd_per_hour * minutes / 60
    if usd > max_cost:
        raise CourseError(
            f"--max-cost {max_cost:g} is below the {usd:.2f} USD that this would cost: "
            f"raise it, or choose another GPU"
        )
    text = file.read_text(encoding="utf-8")
    filled = {
        "gpu": names[cloud],
        "cloud": cloud,
        "budget": f"{budget:g}",
        "ceiling": f"{ceiling:g}",
        "setup": f"{SETUP}m",
        "limit": f"{budget + 60 * (OVERHEAD - SETUP):.0f}s",
    }
    for name, value in filled.items():
        text = text.replace(f"{{{name}}}", value)
    return Plan(yaml.safe_load(text), gpu, chip, price, minutes, ceiling, KEYS[cloud])


def _price(gpu: str, chip: str, provider: str, usd_per_hour: float | None) -> tables.Price:
    if usd_per_hour is not None:
        return tables.Price(
            chip,
            provider,
            amount("--usd-per-hour", usd_per_hour),
            f"{datetime.now(UTC):%Y-%m-%d}",
            "as given",
        )
    quoted = [price for price in rent.quotes(chip) if price.provider == provider]
    if not quoted:
        said = f"--gpu {gpu!r} has no dated price at {provider} in data/prices.csv"
        raise CourseError(f"{said}: look at what {provider} asks, and say it with --usd-per-hour")
    return quoted[0]


def shown(made: Plan) -> str:
    """The task as it would be handed to SkyPilot."""
    text: str = yaml.safe_dump(dict(made.task), sort_keys=False)
    return text


def launch(root: Path, number: str, made: Plan) -> Path:
    """Rent the machine, run the lab there, merge the rows with those that are here, and give the
    machine back.

    Raises
    ------
    MissingError
        If SkyPilot is not installed.
    CourseError
        If renting, running or copying fails; the machine is given back all the same, and what it
        had measured is kept.
    """
    if not shutil.which("sky"):
        raise MissingError(
            "sky is not on PATH: pip install -e '.[cloud]', then sky check; or rent by "
            "hand, as the lab's page shows"
        )
    lab, cluster = folder(root, number), f"rooflines-lab-{number.zfill(2)}"
    inside = (lab / LOCAL).relative_to(root)
    with tempfile.TemporaryDirectory() as place:
        book, back = Path(place, "book"), Path(place, "back")
        back.mkdir()
        _stage(root, lab, book)
        task = Path(place, "task.yaml")
        task.write_text(shown(made), encoding="utf-8")
        try:
            code = subprocess.run(
                ["sky", "launch", "--yes", "--cluster", cluster, str(task)], cwd=book, check=False
            ).returncode
            # What was measured before it failed is paid for too.
            source = f"{cluster}:sky_workdir/{inside.as_posix()}/"
            copied = subprocess.run(["rsync", "-rt", source, f"{back}/"], check=False).returncode
        finally:
            # Whatever happened, nothing rented is left running.
            subprocess.run(["sky", "down", "--yes", cluster], check=False)
        kept = _merge(back, lab / LOCAL, f"{made.gpu}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    if code or copied:
        failed = f"sky launch exited with {code}" if code else f"rsync exited with {copied}"
        raise CourseError(
            f"renting or running failed ({failed}); {kept} new rows were copied back: see "
            f"what is printed above"
        )
    return lab / LOCAL


def _stage(root: Path, lab: Path, book: Path) -> None:
    """Copy what the rented machine needs into a folder of its own: no history, no file that git
    does not track.
    """
    wanted = (*UPLOADED, lab.relative_to(root).as_posix())
    asked = ["git", "-C", str(root), "ls-files", "-z", "--", *wanted]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:  # not a clone: a downloaded archive
        found = (
            path
            for name in wanted
            for path in ((root / name).rglob("*") if (root / name).is_dir() else [root / name])
        )
        names = [path.relative_to(root) for path in found if path.is_file()]
        names = [
            name
            for name in names
            if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)
        ]
        names = [name for name in names if not (root / name).is_relative_to(lab / LOCAL)]
    # The rows that are here go along: the run goes on where the last one stopped.
    rows = (lab / LOCAL / "results.csv").relative_to(root)
    for name in (*names, rows):
        if (root / name).is_file():
            (book / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, book / name)


def _merge(back: Path, local: Path, prefix: str) -> int:
    """Append the rows that came back and are not here yet, and put the other files beside ours; how
    many rows were new.
    """
    manifest = back / "manifest.json"
    if manifest.is_file():
        # The rented machine has no history of the book's; what it ran is what stands here.
        about = msgspec.json.decode(manifest.read_bytes(), type=results.Manifest)
        results.write_manifest(
            manifest,
            msgspec.structs.replace(
                about, git_commit=about.git_commit or bench.device.git_commit()
            ),
        )
    local.mkdir(parents=True, exist_ok=True)
    for file in sorted(path for path in back.iterdir() if path.is_file()):
        (local / f"{prefix}-{file.name}").write_bytes(file.read_bytes())
    here = set(results.read(local / "results.csv"))
    new = [row for row in results.read(back / "results.csv") if row not in here]
    for row in new:
        results.append(local / "results.csv", row)
    (local / f"{prefix}-results.csv").unlink(missing_ok=True)
    return len(new)
