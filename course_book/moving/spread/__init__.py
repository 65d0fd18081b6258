"""Moving pictures of work that is spread over chips: what each holds, what travels, who waits."""

from course_book.moving.spread.collectives import all_reduce
from course_book.moving.spread.gradients import backward_pass
from course_book.moving.spread.pipelines import pipeline
from course_book.moving.spread.sharding import sharded_matmul
from course_book.moving.spread.shrinking import shrink

__all__ = ["all_reduce", "backward_pass", "pipeline", "sharded_matmul", "shrink"]
