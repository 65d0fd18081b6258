"""Lab 01: what each rank runs. The notebook starts it. To start it by hand, in this folder:

torchrun --standalone --nproc-per-node=2 collectives.py --out results/local/results.csv --budget 60
"""

import argparse
from pathlib import Path

from course_tools.campaigns import collectives

parser = argparse.ArgumentParser(description="Measure collectives, in every rank.")
parser.add_argument("--out", type=Path, default=Path("results/local/results.csv"))
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--budget", type=float, default=60.0, help="seconds for all measurements")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument(
    "--sizes",
    type=int,
    nargs="*",
    default=[],
    help="bytes; a range that suits the device if not given",
)
parser.add_argument("--ops", nargs="*", choices=collectives.OPS, default=list(collectives.OPS))
given = parser.parse_args()

collectives.sweep(
    given.out,
    device=given.device,
    budget=given.budget,
    seed=given.seed,
    sizes=given.sizes,
    ops=given.ops,
)
