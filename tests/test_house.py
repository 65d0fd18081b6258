"""The rules of the house: what may import what, how large modules may be, what is
declared where.
"""

import hashlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from course_book import t
from course_book.text import in_language

ROOT = Path(__file__).parent.parent


def test_what_builds_the_package_is_pinned():
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert requires
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", one) for one in requires)


def test_whatever_a_package_reads_is_installed_with_it():
    """A file beside the code that no pattern of package-data names stays out of the wheel."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    for package, patterns in tools["package-data"].items():
        folder = ROOT / package
        installed = {file for pattern in patterns for file in folder.glob(pattern)}
        files = {file for file in folder.rglob("*.*") if file.is_file()}
        left = {file for file in files - installed if file.suffix not in (".py", ".pyc")}
        assert not left, package


def test_a_script_from_elsewhere_is_the_one_that_its_licence_names():
    vendor = ROOT / "course_press" / "assets" / "vendor"
    for script in [*vendor.glob("*.js"), *vendor.glob("*.css")]:
        licence = script.with_suffix(".LICENSE").read_text()
        assert re.search(r"\d+\.\d+\.\d+", licence)
        assert f"sha256 {hashlib.sha256(script.read_bytes()).hexdigest()}" in licence


def test_the_book_is_cited_as_its_pages_say():
    cited, shared, english = (
        yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        for name in ("CITATION.cff", "_quarto.yml", "_quarto-en.yml")
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    book = shared["book"] | english["book"]
    assert [one["name"] for one in cited["authors"]] == [book["author"]]
    assert [cited[key] for key in ("title", "date-released", "url", "repository-code")] == [
        book[key] for key in ("title", "date", "site-url", "repo-url")
    ]
    assert cited["version"] == project["version"]


def test_pins_carry_no_addresses():
    for name in ("constraints.txt", "hashes.txt"):
        assert not re.search(r"https?:|--index", (ROOT / name).read_text())


def test_every_pin_has_the_hashes_of_its_files():
    pins = re.split(r"\n(?! )", (ROOT / "hashes.txt").read_text().strip())
    assert all(re.search(r"( \\\n    --hash=sha256:[0-9a-f]{64})+$", pin) for pin in pins)
    named = [pin.partition(" \\\n")[0] for pin in pins]
    assert named == (ROOT / "constraints.txt").read_text().splitlines(), "make pins"


def test_environment_yml_equals_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = (
        project["dependencies"]
        + extras["book"]
        + extras["press"]
        + extras["explore"]
        + extras["torch"]
        + extras["labs"]
    )
    # Where the press asks more of a package than the library does, the press comes later and
    # counts.
    named = {re.match(r"[\w-]+", requirement)[0]: requirement for requirement in asked}
    wanted = {
        requirement.replace(" ", "").replace("torch", "pytorch") for requirement in named.values()
    }
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    pip = next(entry["pip"] for entry in environment if isinstance(entry, dict))
    conda = {entry.replace(" ", "") for entry in environment if isinstance(entry, str)}
    assert wanted <= conda | set(pip)
    assert "-e ." in pip  # the cells import the library, and pages say its version
    assert f"python{project['requires-python']}" in conda
    assert "quarto" in {re.match(r"[\w-]+", entry)[0] for entry in conda}


def test_pins_keep_to_what_pyproject_asks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned = re.findall(
        r"^([\w-]+)==([\d.]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE
    )
    for requirement in project["dependencies"] + [
        one for name in ("book", "press", "explore", "labs", "test") for one in extras[name]
    ]:
        name, least = re.match(r"([\w-]+)(?:>=([\d.]+))?", requirement).groups()
        versions = [version for other, version in pinned if other == name.lower()]
        assert versions, f"{name} is not pinned: make pins"
        for version in versions:
            assert [int(part) for part in version.strip(".").split(".")] >= [
                int(part) for part in (least or "0").split(".")
            ], requirement


def test_actions_are_pinned_by_commit():
    used = re.findall(
        r"uses: (\S+)", "".join(file.read_text() for file in (ROOT / ".github").rglob("*.yml"))
    )
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)


def test_vendored_files_have_their_licence():
    vendor = ROOT / "course_press" / "assets" / "vendor"
    files = {file for file in vendor.iterdir() if file.suffix != ".LICENSE"}
    assert files
    for file in files:
        assert any(file.stem.startswith(licence.stem) for licence in vendor.glob("*.LICENSE")), file


def pages(name):
    return sorted((ROOT / "chapters").glob(f"*/{name}.qmd"))


def test_every_guard_that_the_errata_name_exists():
    tests = set(
        re.findall(
            r"^def (test_\w+)",
            "".join(f.read_text() for f in (ROOT / "tests").rglob("test_*.py")),
            re.MULTILINE,
        )
    )
    named = [
        re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")) for page in pages("errata")
    ]
    assert named[0]
    assert all(other == named[0] for other in named)
    assert set(named[0]) <= tests


@pytest.mark.parametrize("page", pages("equations"), ids=lambda page: page.parent.name)
def test_the_page_of_equations_has_every_numbered_one(page):
    labelled = re.compile(r"\$\$ (.*?)[.,]? \$\$ \{#(eq-[\w-]+)\}")
    chapters = "".join(f.read_text(encoding="utf-8") for f in page.parent.glob("*.qmd"))
    collected = re.findall(
        r"^@(eq-[\w-]+).*\n\n\$\$ (.*?) \$\$$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(collected) > 20
    assert sorted((label, formula) for label, formula in collected) == sorted(
        (m[2], m[1]) for m in labelled.finditer(chapters)
    )


def test_the_ref_that_is_installed_is_this_version():
    ref = yaml.safe_load((ROOT / "_quarto.yml").read_text())["install-ref"]
    assert ref == f"v{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"


def test_nothing_tells_a_reader_to_install_a_name_that_is_not_ours():
    """The distribution's name is registered nowhere: whoever takes it would run their code on
    readers' machines.
    """
    name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"]
    folders = (
        "course_lib",
        "course_tools",
        "course_book",
        "course_press",
        "chapters",
        "labs",
        "docs",
        "notebooks",
    )
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    for file in [*files, *ROOT.glob("*.md"), ROOT / "Makefile"]:
        if (
            file.suffix in (".py", ".qmd", ".md", ".ipynb", ".yaml", ".toml", ".j2", "")
            and file.is_file()
        ):
            assert not re.search(
                rf"pip install[^\n]*[ '\"]{name}\b", file.read_text(encoding="utf-8")
            ), file


def test_git_passes_over_what_the_instructors_page_writes_into_a_clone(tmp_path):
    """Students' names, grades and files, and the keys: two sections on, the page says to commit and
    push.
    """
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    shutil.copyfile(ROOT / ".gitignore", tmp_path / ".gitignore")
    for page in pages("instructors"):
        commands = "\n".join(re.findall("```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.S))
        written = set(
            re.findall(r"(?:--(?:out|key|roll|all)|>|mkdir -p|grade 00) ([\w./-]+)", commands)
        )
        assert {"roll.csv", "sheets", "keys", "grades.csv", "submissions/s001"} <= written
        for path in written | {"grades", "sheet-7-key.ipynb"}:
            inside = path if Path(path).suffix else f"{path}/s001"
            done = subprocess.run(["git", "check-ignore", "-q", inside], cwd=tmp_path, check=False)
            assert done.returncode == 0, path


def test_prose_names_the_repository_of_the_configuration():
    repo = yaml.safe_load((ROOT / "_quarto.yml").read_text())["book"]["repo-url"].removeprefix(
        "https://github.com/"
    )
    found = [
        address
        for page in pages("*")
        for address in re.findall(
            r"https://(?:github|colab\.research\.google)\.com/(?:github/)?([\w-]+/[\w-]+)",
            page.read_text(encoding="utf-8"),
        )
    ]
    assert set(found) == {repo}


def test_prose_leads_to_the_repository_only_where_it_is_published():
    """And has nothing installed from there: the first cell of a notebook does that, or says how."""
    repo = yaml.safe_load((ROOT / "_quarto.yml").read_text())["book"]["repo-url"]
    published = re.compile(r"\[[^]]*\]\{\.content-visible when-meta=\"published\"\}")
    for page in pages("*"):
        text = page.read_text(encoding="utf-8")
        assert "git+" not in text, page
        assert repo.removeprefix("https://github.com/") not in published.sub("", text), page


@pytest.mark.parametrize("page", ["network-rooflines", "sharding", "int8-problems"])
def test_open_problems_have_answers_that_are_computed(page):
    """A problem for pencil and paper is followed by a folded answer, and the answer's numbers come
    from cells.
    """
    for language in ("en", "es", "ko"):
        text = (ROOT / "chapters" / language / f"{page}.qmd").read_text(encoding="utf-8")
        section = re.search(r"^## .*?-problems\}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL).group(
            1
        )
        after_exercises = section.rpartition(f"../cells/{page}/ex-")[2].partition(">}}")[2]
        answers = re.split(
            r'^::: \{\.callout-note collapse="true" title="[^"]+"\}$', section, flags=re.MULTILINE
        )[1:]
        questions = re.sub(r"^:::.*?^:::$", "", after_exercises, flags=re.MULTILINE | re.DOTALL)
        asked = len(re.findall(r"^\*\*\d+\.\*\*", questions, re.MULTILINE)) or bool(
            questions.strip()
        )
        assert len(answers) == asked
        assert not re.search(r"^\d+\. ", questions, re.MULTILINE), (
            "a numbered list leaves no place for an answer under each"
        )
        for answer in answers:
            assert "`{python} " in answer.partition("\n:::")[0]


@pytest.mark.parametrize("language", ["en", "es", "ko"])
def test_labs_have_the_letters_of_their_order_and_no_page_calls_one_by_its_number(language):
    listed = re.findall(
        r"chapters/\w+/(lab-\d+)\.qmd", (ROOT / f"_quarto-{language}.yml").read_text("utf-8")
    )
    with in_language(language):
        letters = {name: t(name) for name in listed}
    assert "".join(letters.values()) == "ABCDEF"
    for page in (ROOT / "chapters" / language).glob("*.qmd"):
        text = page.read_text(encoding="utf-8")
        if page.stem in letters:
            (word,) = re.findall(r'^title: "(\S+) (?=[A-Z]:)', text, re.MULTILINE)
            assert f'title: "{word} {letters[page.stem]}: ' in text
            assert f"`{page.stem.removeprefix('lab-')}`" in text.partition("\n:::")[0]
        assert not re.search(r"(?i)\b(labs?|prácticas?|실습) \d", text), page
