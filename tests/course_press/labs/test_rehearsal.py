"""Renting by hand, rehearsed: the two lines that the labs' page prints, against a pod that is as its
provider documents it, and that fails at each step in turn. Nothing is rented.
"""

import re
import subprocess
from pathlib import Path

import pytest

from course_lib.bench.rows import HEADER

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "labs" / "README.md", *sorted(ROOT.glob("chapters/*/lab-00.qmd"))]
LINES = re.findall(r"(?m)^(git archive HEAD .*|scp -P .*)$", PAGES[0].read_text(encoding="utf-8"))
# In the order in which they come: what of the lines, of `labs/rented.sh` and of the lab may fail.
STEPS = ("git", "ssh", "tar", "pip", "venv", "install", "lab", "scp", "merge")
# Every program writes down its step, and fails where that is the one to fail.
STEP = 'echo {step} >> "$LOG"; [ "$FAIL" != {step} ] || exit 7\n'
# runpod/base, as its Dockerfile says: python3 is 3.10, without torch and without uv.
POD = {
    "python3": """#!/bin/sh
case "$1" in -c) exit 1 ;; esac
{pip}
case "$*" in *" uv=="*) cp "$TOOLS/kept" "$TOOLS/uv" ;; *) exit 1 ;; esac
""",
    "kept": """#!/bin/sh
case "$1" in
  venv) {venv} mkdir -p .venv/bin ;;
  pip) {install} cp "$TOOLS/lab" .venv/bin/course ;;
esac
""",
    "lab": """#!/bin/sh
{lab}
mkdir -p labs/00-three-accelerators/results/local
echo {header} > labs/00-three-accelerators/results/local/results.csv
""",
    "tar": """#!/bin/sh
{tar}
exec /usr/bin/env -i PATH=/usr/bin:/bin tar "$@"
""",
}
HERE = {
    "git": '#!/bin/sh\n{git}\nexec tar -c -C "$BOOK" .\n',
    "ssh": '#!/bin/sh\n{ssh}\nfor last; do :; done\ncd "$HOME" && PATH="$TOOLS" exec sh -c "$last"\n',
    "scp": '#!/bin/sh\n{scp}\nexec cp -r "$HOME/${{4#*:}}" "$5"\n',
    "course": "#!/bin/sh\n{merge}\ntest -f pod/results.csv\n",
}


@pytest.fixture
def rehearse(tmp_path):
    """Runs both lines, as a reader pastes them; what was done, and how each ended."""
    book, pod, tools = (tmp_path / name for name in ("book", "home", "tools"))
    here, cwd = tmp_path / "here", tmp_path / "cwd"
    for folder in (book / "labs", pod, tools, here, cwd / ".venv" / "bin"):
        folder.mkdir(parents=True)
    (book / "labs" / "rented.sh").write_bytes((ROOT / "labs" / "rented.sh").read_bytes())
    (book / "constraints.txt").write_bytes((ROOT / "constraints.txt").read_bytes())
    said = {step: STEP.format(step=step) for step in STEPS}
    for place, programs in ((tools, POD), (here, HERE)):
        for name, text in programs.items():
            file = place / name if name != "course" else cwd / ".venv" / "bin" / name
            file.write_text(text.format(**said, header=HEADER))
            file.chmod(0o755)
    for name in ("sh", "mkdir", "cp", "grep", "env"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    log = tmp_path / "log"

    def run(fail=""):
        env = {"PATH": f"{here}:/usr/bin:/bin", "HOME": str(pod), "TOOLS": str(tools)}
        env |= {"BOOK": str(book), "LOG": str(log), "FAIL": fail}
        ends = []
        for line in LINES:
            asked = ["/bin/sh", "-c", line.replace("PORT", "22").replace("POD", "pod")]
            done = subprocess.run(asked, cwd=cwd, env=env, capture_output=True, check=False)
            ends.append(done.returncode)
            if done.returncode:
                break
        return log.read_text().split(), ends

    return run


def test_every_page_prints_the_lines_that_are_rehearsed():
    assert len(LINES) == 2
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert all(f"\n{line}\n" in text for line in LINES)


def test_both_lines_go_through_on_the_documented_image(rehearse):
    done, ends = rehearse()
    assert ends == [0, 0]
    # A pipe, whose ends begin at once.
    assert sorted(done[:3]) == ["git", "ssh", "tar"]
    assert done.index("ssh") < done.index("tar")
    assert done[3:] == list(STEPS[3:])


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_fails_ends_the_line_and_nothing_after_it_is_done(rehearse, step):
    done, ends = rehearse(step)
    assert ends[-1] != 0
    assert len(ends) == 1 + (step in ("scp", "merge"))
    reached = "tar" if step == "git" else step  # what comes of git is no archive: tar says so
    assert set(done) <= set(STEPS[: STEPS.index(reached) + 1])
    assert step in done
