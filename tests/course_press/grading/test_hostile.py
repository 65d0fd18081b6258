"""Whatever a learner's process answers, its judge comes to a verdict, in words, in every language."""

import pytest

from tests.course_press.grading.hostile import FOLDERS, frames


@pytest.mark.parametrize("lab", FOLDERS)
@pytest.mark.parametrize(
    "seeds", [range(8), pytest.param(range(8, 300), marks=pytest.mark.exhaustive)], ids=["8", "300"]
)
def test_no_answer_of_a_learners_process_is_more_than_its_judge_can_take(lab, seeds):
    for seed in seeds:
        verdicts, words = dict(frames(seed))[lab]()
        assert verdicts, seed
        assert "unjudged" not in {one.why.key for one in verdicts}, (seed, words)
        assert all(text.isprintable() for text in words), (seed, words)
