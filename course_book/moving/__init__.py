"""Moving pictures: what happens inside a machine, step by step, with its costs running along."""

from course_book.moving.anatomy import journey, machine, systolic
from course_book.moving.collectives import all_reduce, exchange, sharded_matmul
from course_book.moving.memory import fill, heads, hierarchy, shrink
from course_book.moving.multiprocessors import coalescing, multicast, stages, waves
from course_book.moving.requests import batching, guesses
from course_book.moving.tiles import flash_attention, roofs, tiled_product
from course_book.moving.timelines import backward_pass, fuse, overlap, pipeline

__all__ = [
    "all_reduce",
    "backward_pass",
    "batching",
    "coalescing",
    "exchange",
    "fill",
    "flash_attention",
    "fuse",
    "guesses",
    "heads",
    "hierarchy",
    "journey",
    "machine",
    "multicast",
    "overlap",
    "pipeline",
    "roofs",
    "sharded_matmul",
    "shrink",
    "stages",
    "systolic",
    "tiled_product",
    "waves",
]
