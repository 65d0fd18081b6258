"""Runs a lab on a rented GPU, by SkyPilot."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from course_lib import CourseError, specs
from course_lib.bench import record, results, rows
from course_press.labs.run import LOCAL, amount, folder
from course_press.source.errors import MissingError, choose

# The GPUs that a lab may rent, where, with which files of keys, and what goes there.
_GIVEN: Mapping[str, Any] = specs.load_toml(Path(__file__).with_suffix(".toml"), dict)
GPUS, CLOUDS, KEYS, UPLOADED = (_GIVEN[name] for name in ("gpus", "clouds", "keys", "uploaded"))
# Minutes after which installing on the rented machine is ended.
SETUP = 15
# Minutes that setting up and copying take besides the measuring, at most: what is paid for and not
# measured.
OVERHEAD = 20


class Plan(NamedTuple):
    """A lab on a rented machine, before it is paid for."""

    task: Mapping[str, Any]
    gpu: str
    chip: str
    price: specs.Price
    minutes: float
    # USD an hour above which SkyPilot takes no machine.
    ceiling: float
    # The file of the provider's key, which SkyPilot copies to the rented machine.
    key: str

    @property
    def usd(self) -> float:
        """What it will cost, about."""
        return self.price.usd_per_hour * self.minutes / 60


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
    """The task for a rented machine, and its cost by the newest dated price at that provider."""
    amount("--budget", budget, least=1)
    amount("--max-cost", max_cost)
    choose(gpu, GPUS, f"--gpu {gpu!r} is not one that the lab rents")
    chip, names = GPUS[gpu]
    choose(cloud, names, f"--cloud {cloud!r} does not rent out one {gpu}")
    file = folder(root, number) / "cloud.yaml"
    if not file.is_file():
        said = f"lab {number!r} has no task for a rented GPU"
        raise CourseError(f"{said}: its page shows how to rent by hand")
    price = _price(gpu, chip, CLOUDS[cloud], usd_per_hour)
    minutes = OVERHEAD + budget / 60
    ceiling = int(max_cost / (minutes / 60) * 100) / 100
    usd = price.usd_per_hour * minutes / 60
    if usd > max_cost:
        said = f"--max-cost {max_cost:g} is below the {usd:.2f} USD that this would cost"
        raise CourseError(f"{said}: raise it, or choose another GPU")
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


def _price(gpu: str, chip: str, provider: str, usd_per_hour: float | None) -> specs.Price:
    if usd_per_hour is not None:
        usd, today = amount("--usd-per-hour", usd_per_hour), f"{datetime.now(UTC):%Y-%m-%d}"
        return specs.Price(chip, provider, usd, today, "as given")
    quoted = [price for price in specs.quotes(chip) if price.provider == provider]
    if not quoted:
        said = f"--gpu {gpu!r} has no dated price at {provider} in data/prices.csv"
        raise CourseError(f"{said}: look at what {provider} asks, and say it with --usd-per-hour")
    return quoted[0]


def shown(made: Plan) -> str:
    """The task as it would be handed to SkyPilot."""
    text: str = yaml.safe_dump(dict(made.task), sort_keys=False)
    return text


def launch(root: Path, number: str, made: Plan) -> Path:
    """Rent the machine, run the lab there, merge its rows with those here, and give it back.

    It is given back whatever fails; where that fails, with the command to do it by hand.
    """
    if not shutil.which("sky"):
        get = "pip install -e '.[cloud]', then sky check; or rent by hand, as the lab's page shows"
        raise MissingError(f"sky is not on PATH: {get}")
    lab, cluster = folder(root, number), f"rooflines-lab-{number.zfill(2)}"
    inside = (lab / LOCAL).relative_to(root)
    with tempfile.TemporaryDirectory() as place:
        book, back = Path(place, "book"), Path(place, "back")
        back.mkdir()
        _stage(root, lab, book)
        task = Path(place, "task.yaml")
        task.write_text(shown(made), encoding="utf-8")
        kept, left = None, ""
        try:
            code = subprocess.run(
                ["sky", "launch", "--yes", "--cluster", cluster, str(task)], cwd=book, check=False
            ).returncode
            # What was measured before it failed is paid for too.
            source = f"{cluster}:sky_workdir/{inside.as_posix()}/"
            copied = subprocess.run(["rsync", "-rt", source, f"{back}/"], check=False).returncode
            kept = merge(back, lab / LOCAL, f"{made.gpu}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        finally:
            # Whatever happened, nothing rented is left running.
            down = ["sky", "down", "--yes", cluster]
            if all(subprocess.run(down, check=False).returncode for _ in range(2)):
                left = (
                    f"sky down failed: the rented machine {cluster} may run on, at "
                    f"{made.price.usd_per_hour:g} USD an hour. Give it back by hand: sky down "
                    f"{cluster}; then see with sky status, and at {made.price.provider}, that it "
                    f"is gone"
                )
            if left and kept is None:  # what else went wrong matters less
                raise CourseError(left)
    if code or copied:
        failed = f"sky launch exited with {code}" if code else f"rsync exited with {copied}"
        said = f"renting or running failed ({failed}); {kept} new rows were copied back: see "
        raise CourseError("\n".join(filter(None, (f"{said}what is printed above", left))))
    if left:
        raise CourseError(f"{left}. All {kept} new rows were copied back")
    return lab / LOCAL


def _stage(root: Path, lab: Path, book: Path) -> None:
    """Copy what the rented machine needs: what git tracks, without history."""
    wanted = (*UPLOADED, lab.relative_to(root).as_posix())
    asked = ["git", "-C", str(root), "ls-files", "-z", "--", *wanted]
    listed = subprocess.run(asked, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = [Path(name) for name in listed.stdout.split("\0") if name]
    else:  # not a clone: a downloaded archive
        found = [path for name in wanted for path in (root / name, *(root / name).rglob("*"))]
        found = [one for one in found if one.is_file() and not one.is_relative_to(lab / LOCAL)]
        hidden = re.compile(r"(^|/)(\.|__pycache__/)")
        names = [path.relative_to(root) for path in found]
        names = [name for name in names if not hidden.search(name.as_posix())]
    # The rows that are here go along: the run goes on where the last one stopped.
    rows = (lab / LOCAL / "results.csv").relative_to(root)
    for name in (*names, rows):
        if (root / name).is_file():
            (book / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, book / name)


def merge(back: Path, local: Path, prefix: str) -> int:
    """Append the rows that are not here yet, put other files beside ours; how many are new."""
    manifest = back / "manifest.json"
    if manifest.is_file():
        # The rented machine has no history of the book's; what it ran is what stands here.
        about = msgspec.json.decode(manifest.read_bytes(), type=rows.Manifest)
        commit = about.git_commit or record.git_commit()
        results.write_manifest(manifest, msgspec.structs.replace(about, git_commit=commit))
    local.mkdir(parents=True, exist_ok=True)
    for file in sorted(path for path in back.iterdir() if path.is_file()):
        (local / f"{prefix}-{file.name}").write_bytes(file.read_bytes())
    here = set(results.read(local / "results.csv"))
    new = [row for row in results.read(back / "results.csv") if row not in here]
    for row in new:
        results.append(local / "results.csv", row)
    (local / f"{prefix}-results.csv").unlink(missing_ok=True)
    return len(new)
