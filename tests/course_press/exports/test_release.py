"""A release: refused at the first thing that is not right; else one archive with checksums, the same
bytes each time.
"""

import hashlib
import subprocess
import zipfile
from datetime import date
from importlib.metadata import version

import pytest

from course_lib import CourseError
from course_press.exports import release as releasing
from course_press.exports.release import make_release, pack
from tests.course_press.conftest import course

NOW, DAY = version("course-lib"), date(2026, 11, 24)


def git(root, *command):
    subprocess.run(["git", "-C", str(root), *command], check=True)


@pytest.fixture
def clone(book):
    """The fixture book as a clean clone, one version before the library that is installed."""
    root = book.root
    (root / "pyproject.toml").write_text('[project]\nname = "book"\nversion = "0.0.9"\n')
    (root / "CITATION.cff").write_text("version: 0.0.9\ndate-released: 2026-01-02\n")
    (root / ".gitignore").write_text("dist/\n.cache/\n_site/\n")
    with (root / "_quarto.yml").open("a") as file:
        file.write("install-ref: v0.0.9\n")
    git(root, "init", "-q")
    git(root, "config", "user.email", "nobody@example.org")
    git(root, "config", "user.name", "Nobody")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "Begin")
    return book


def made(book, **more):
    said = []
    asked = {"to": ["epub"], "day": DAY, "say": said.append, **more}
    return make_release(book.root, NOW, book.root / "dist", **asked), said


def test_a_release_is_whole_and_is_run_again_where_it_was_stopped(clone, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(releasing, "pack", full)
        with pytest.raises(OSError, match="No space"):
            made(clone)
    archive, said = made(clone)
    assert (said[0], said[-1]) == ("predictions", "archive")
    (predicted,) = (clone.root / "course_tools/data/predictions").glob("*.json")
    assert predicted.stem == NOW
    assert f'version = "{NOW}"' in (clone.root / "pyproject.toml").read_text()
    assert f"version: {NOW}\ndate-released: {DAY}\n" == (clone.root / "CITATION.cff").read_text()
    quarto = (clone.root / "_quarto.yml").read_text()
    assert f"install-ref: v{NOW}" in quarto
    assert f"  date: {DAY}\n" in quarto
    with zipfile.ZipFile(archive) as packed:
        assert packed.testzip() is None
        names = packed.namelist()
        sums = packed.read(f"book-{NOW}/SHA256SUMS").decode().splitlines()
        for line in sums:
            digest, _, name = line.partition("  ")
            assert hashlib.sha256(packed.read(f"book-{NOW}/{name}")).hexdigest() == digest
        notebook = packed.read(f"book-{NOW}/notebooks/es/one.ipynb").decode()
    assert len(sums) == len(names) - 1
    inside = {name.removeprefix(f"book-{NOW}/") for name in names}
    wanted = {"site/index.html", "site/downloads/book-en.epub", "site/downloads/book-es.epub"}
    assert wanted | {"CITATION.cff", "notebooks/en/one.ipynb"} <= inside
    assert f"@v{NOW}" in notebook
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert archive.with_name(f"{archive.name}.sha256").read_text() == f"{digest}  {archive.name}\n"


def test_a_dry_run_checks_and_writes_nothing(clone):
    done = course(clone.root, "release", NOW, "--to", "epub", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f"version: 0.0.9 → {NOW}" in done.stdout
    assert "would make: archive" in done.stdout
    assert not (clone.root / "dist").exists()
    assert not subprocess.check_output(["git", "-C", str(clone.root), "status", "--porcelain"])


def test_the_archive_depends_on_names_and_contents_alone(tmp_path):
    pages = tmp_path / "site"
    pages.mkdir()
    archives = []
    for names in ("ab", "ba"):
        for name in names:
            (pages / name).unlink(missing_ok=True)
            (pages / name).write_text(name)
        pack(tmp_path, pages, tmp_path / "book-1.0.0.zip", DAY)
        archives.append((tmp_path / "book-1.0.0.zip").read_bytes())
    assert archives[0] == archives[1]


def test_the_first_thing_that_is_not_right_is_said(clone):
    with pytest.raises(CourseError, match=r"three whole numbers as in 1\.2\.3 \(got '1\.2'\)"):
        make_release(clone.root, "1.2", clone.root / "dist", day=DAY, to=["epub"])
    with pytest.raises(CourseError, match="--to 'html' is not a format: choose from epub, pdf"):
        made(clone, to=["html"])
    with pytest.raises(CourseError, match=r"0\.0\.8 is older than 0\.0\.9"):
        make_release(clone.root, "0.0.8", clone.root / "dist", day=DAY, to=["epub"])
    with pytest.raises(CourseError, match=r"9\.9\.9 again"):
        make_release(clone.root, "9.9.9", clone.root / "dist", day=DAY, to=["epub"])
    git(clone.root, "checkout", "-q", ".")
    clone.edit("chapters/en/one.qmd", "@sec-there", "@sec-where")
    with pytest.raises(CourseError, match=r"changes \(chapters/en/one\.qmd\): commit them"):
        made(clone)
    git(clone.root, "commit", "-qam", "Break it")
    with pytest.raises(CourseError, match=r"the first is chapters/en/one\.qmd:13: @sec-where"):
        made(clone)
    git(clone.root, "tag", f"v{NOW}")
    with pytest.raises(CourseError, match="is tagged already"):
        made(clone)
    (clone.root / "CITATION.cff").write_text("title: none\n")
    with pytest.raises(CourseError, match=r"CITATION\.cff has no line that says the version"):
        made(clone)
