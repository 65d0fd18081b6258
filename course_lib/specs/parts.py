"""What a chip is made of: figures that its own file may have under `parts`, by name."""

from collections.abc import Mapping

PARTS: Mapping[str, tuple[str, float, float]] = {
    "matrix_units": ("1", 1, 1e4),
    "multiply_adds": ("1", 1, 1e8),
    "vector_lanes": ("1", 1, 1e6),
    "schedulers": ("1", 1, 1e3),
    "l1": ("B", 1e3, 1e9),
    "shared_width": ("B", 4, 1e6),
    "cache_width": ("B", 32, 1e8),
    "cache_reads": ("B/s", 1e10, 1e17),
    "shared_latency": ("s", 1e-10, 1e-5),
    "l1_latency": ("s", 1e-10, 1e-5),
    "cache_latency": ("s", 1e-9, 1e-5),
    "pins": ("1", 8, 1e6),
    "pin_rate": ("B/s", 1e6, 1e11),
}
"""Its SI unit, and what it lies between:

- of one multiprocessor, or of a core where a chip calls it that: its `matrix_units`, the 16-bit
  `multiply_adds` of one of them in a clock, the `vector_lanes` of a chip without warps, the
  `schedulers` of its warps, byte of `l1` (data cache
  and shared memory together), and byte that its shared memory delivers in a clock, `shared_width`;
- of the last-level cache: byte that it delivers in a clock, `cache_width`, as published, and
  `cache_reads`, as measured;
- of a load, from its start to its end, as one report measured them all: `shared_latency`,
  `l1_latency`, `cache_latency`;
- of main memory: its data `pins`, and the rate of one, `pin_rate`.
"""
BUILT = 0.03
"""How far what parts give may be from the peak and the bandwidth that are printed."""
