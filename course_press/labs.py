"""Runs labs: papermill drives a lab's notebook here, SkyPilot on a rented machine."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from course_lib import CourseError, tables
from course_press.source import MissingError

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
"""The GPUs that a lab may rent: the chip, and what SkyPilot calls it at each cloud. Nothing else is asked of a cloud."""
CLOUDS = {"runpod": "RunPod", "lambda": "Lambda", "vast": "vast.ai"}
AUTOSTOP = 5
"""Minutes of idling after which a rented machine is given back."""
OVERHEAD = 20
"""Minutes that setting up and copying take besides the measuring: what is paid for and not measured."""


class Run(NamedTuple):
    """What running a lab gave: the executed notebook, and the error it ended with."""

    notebook: Path
    error: str | None


class Plan(NamedTuple):
    """A lab on a rented machine, before it is paid for."""

    task: Mapping[str, Any]
    chip: str
    price: tables.Price
    minutes: float

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
    found = sorted(path for path in (root / "labs").glob("[0-9][0-9]-*") if (path / "lab.ipynb").is_file())
    for path in found:
        if path.name.partition("-")[0] == number.zfill(2):
            return path
    raise CourseError(f"lab {number!r} does not exist: choose from {', '.join(path.name for path in found) or 'none'}")


def run(
    root: Path, number: str, *, device: str, budget: float, say: Callable[[str], None] = lambda _: None, **parameters: Any
) -> Run:
    """Execute a lab's notebook in its folder; the executed copy stays in `results/local`, also where a cell fails.

    Raises
    ------
    MissingError
        If papermill is not installed.
    """
    try:
        import papermill
    except ImportError:
        raise MissingError("papermill is not installed: make labs, or pip install -e '.[press,labs]'") from None
    lab = folder(root, number)
    local = lab / LOCAL
    local.mkdir(parents=True, exist_ok=True)
    executed = local / f"lab-{device}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.ipynb"
    say(f"{lab.name} on {device}, {budget:g} s")
    given = {"device": device, "budget": budget, "out": LOCAL.as_posix(), **parameters}
    try:
        papermill.execute_notebook(
            str(lab / "lab.ipynb"), str(executed), given, cwd=str(lab), kernel_name="python3", log_output=False, progress_bar=True
        )
    except papermill.PapermillExecutionError as error:
        return Run(executed, f"{error.ename}: {error.evalue}")
    return Run(executed, None)


def plan(root: Path, number: str, *, gpu: str, cloud: str, budget: float, max_cost: float) -> Plan:
    """The task for a rented machine, and what it will cost by the newest dated price of its chip.

    Raises
    ------
    CourseError
        If the GPU or the cloud is not one of ours, no price is known, or the cost is above `max_cost`.
    """
    if gpu not in GPUS:
        raise CourseError(f"--gpu {gpu!r} is not one that the lab rents: choose from {', '.join(GPUS)}")
    chip, names = GPUS[gpu]
    if cloud not in names:
        raise CourseError(f"--cloud {cloud!r} does not rent out one {gpu}: choose from {', '.join(names)}")
    known = [price for price in tables.prices() if price.chip == chip]
    prices = [price for price in known if price.provider == CLOUDS[cloud]] or known
    if not prices:
        raise CourseError(f"--gpu {gpu!r} has no dated price in data/prices.csv: add one, with its source")
    file = folder(root, number) / "cloud.yaml"
    if not file.is_file():
        raise CourseError(f"lab {number!r} has no task for a rented GPU: its page shows how to rent by hand")
    text = file.read_text(encoding="utf-8")
    task = yaml.safe_load(text.replace("{gpu}", names[cloud]).replace("{cloud}", cloud).replace("{budget}", f"{budget:g}"))
    made = Plan(task, chip, max(prices, key=lambda price: (price.date, price.usd_per_hour)), OVERHEAD + budget / 60)
    if made.usd > max_cost:
        raise CourseError(
            f"--max-cost {max_cost:g} is below the {made.usd:.2f} USD that this would cost: raise it, or choose another GPU"
        )
    return made


def shown(made: Plan) -> str:
    """The task as it would be handed to SkyPilot."""
    text: str = yaml.safe_dump(dict(made.task), sort_keys=False)
    return text


def launch(root: Path, number: str, made: Plan) -> Path:
    """Rent the machine, run the lab there, copy the results back, and give the machine back.

    Raises
    ------
    MissingError
        If SkyPilot is not installed.
    CourseError
        If renting, running or copying fails; the machine is given back all the same.
    """
    if not shutil.which("sky"):
        raise MissingError(
            "sky is not on PATH: pip install -e '.[cloud]', then sky check; or rent by hand, as the lab's page shows"
        )
    lab, cluster = folder(root, number), f"rooflines-lab-{number.zfill(2)}"
    local = lab / LOCAL
    local.mkdir(parents=True, exist_ok=True)
    task = local / "task.yaml"
    task.write_text(yaml.safe_dump(dict(made.task), sort_keys=False), encoding="utf-8")
    try:
        stop = ["--idle-minutes-to-autostop", str(AUTOSTOP), "--down"]
        subprocess.run(["sky", "launch", "--yes", "--cluster", cluster, *stop, str(task)], cwd=root, check=True)
        back = f"{cluster}:sky_workdir/{(lab / LOCAL).relative_to(root).as_posix()}/"
        subprocess.run(["rsync", "-a", back, f"{local}/"], check=True)
    except subprocess.CalledProcessError as error:
        raise CourseError(f"renting or running failed ({' '.join(error.cmd[:2])} exited with {error.returncode})") from None
    finally:
        # Whatever happened, nothing rented is left running.
        subprocess.run(["sky", "down", "--yes", cluster], check=False)
    return local
