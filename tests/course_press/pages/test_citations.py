"""Citations and the list of sources, in the words of each language."""

import json
import re
import subprocess
from pathlib import Path

import pypandoc
import pytest

from course_press.source.assets import ASSETS
from course_press.source.book import languages
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]
TITLE = "The roofline of an H100, in bf16"
WORKS = [
    {"id": "two", "author": ["Wulf", "McKee"], "issued": [1995]},
    {"id": "four", "author": ["Dao", "Fu", "Rudra", "Ré"], "issued": [2025, 2]},
    {"id": "again", "author": ["Dao", "Fu", "Rudra", "Ré"], "issued": [2025]},
    {"id": "seven", "author": list("ABCDEFG"), "issued": [2022]},
    {"id": "undated", "author": ["Bekman"], "accessed": [2026, 11, 21]},
]


def as_csl(work):
    dates = {name: {"date-parts": [work[name]]} for name in ("issued", "accessed") if name in work}
    authors = [{"family": name, "given": "X."} for name in work["author"]]
    return {
        "type": "webpage" if "accessed" in work else "book",
        "URL": "https://example.org",
        "id": work["id"],
        "title": TITLE if work["id"] == "four" else work["id"].title(),
        "author": authors,
        **dates,
    }


def cited(folder, lang, *options):
    (folder / "works.json").write_text(json.dumps([as_csl(work) for work in WORKS]))
    done = subprocess.run(
        [
            pypandoc.get_pandoc_path(),
            "--to=plain",
            "--wrap=none",
            "--citeproc",
            f"--bibliography={folder / 'works.json'}",
            f"--metadata=lang:{lang}",
            *options,
        ],
        input="".join(f"[@{work['id']}]\n\n" for work in WORKS),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert not done.stderr
    return done.stdout.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("lang", "said", "never"),
    [
        (
            "es",
            [
                "(Wulf y McKee 1995)",
                "(Dao et al. 2025b)",
                "(Bekman, s. f.)",
                "Bekman, X. s. f. ",
                "Consultado el 21 de noviembre de 2026",
            ],
            ["Accedido", " and ", "n.d."],
        ),
        (
            "ko",
            [
                "(Wulf · McKee 1995)",
                "Wulf, X., X. McKee. 1995.",
                "(Dao 외 2025b)",
                "Dao, X., X. Fu, X. Rudra, X. Ré. 2025b.",
                "A, X., X. B, X. C 외. 2022.",
                "(Bekman, 연도 미상)",
                "Bekman, X. 연도 미상. ",
                "접속일: 2026. 11. 21. http",
            ],
            ["기타", "와/과", "일자 없음", "접근된", "5년", "월"],
        ),
    ],
)
def test_citations_speak_the_language_of_the_page(tmp_path, lang, said, never):
    style = the_book(lang).csl
    text = cited(tmp_path, lang, f"--csl={style}")
    assert [one for one in said if one not in text] == []
    assert [one for one in never if one in text] == []


def test_english_citations_are_those_of_pandoc_but_for_case_and_a_comma(tmp_path):
    ours = cited(tmp_path, "en", f"--csl={the_book('en').csl}")
    theirs = cited(tmp_path, "en")
    assert TITLE in ours
    assert TITLE not in theirs, "pandoc's style sets titles in title case: ours must not"
    assert "X. C, et al. 2022" in theirs
    assert ours == theirs.replace(", et al.", " et al.").replace(titled(theirs), TITLE)


def titled(text):
    return re.search(re.escape(TITLE), text, re.IGNORECASE).group()


def test_every_language_of_the_book_cites_by_the_style_that_comes_with_the_press():
    assert {the_book(lang).csl for lang in languages(ROOT)} == {
        ROOT / (ASSETS / "vendor" / "chicago-author-date.csl").relative_to(ROOT)
    }


def csl_of(file):
    if file.suffix == ".json":
        return json.loads(file.read_text(encoding="utf-8"))
    done = subprocess.run(
        [pypandoc.get_pandoc_path(), file, "--to=csljson"], capture_output=True, check=True
    )
    return json.loads(done.stdout)


def test_a_person_stands_in_one_form_in_the_bibliography():
    """A publisher "Stas Bekman" beside the author "Bekman, Stas" would be two."""
    works = [work for file in the_book("en").bibliography for work in csl_of(file)]
    authors = [author for work in works for author in work.get("author", ())]
    people = {
        frozenset(f"{author['given']} {author['family']}".lower().split())
        for author in authors
        if "family" in author
    }
    names = [work.get("publisher", "") for work in works] + [a.get("literal", "") for a in authors]
    assert len(people) > 50
    assert people.isdisjoint(frozenset(name.lower().split()) for name in names)
    assert not any(one < other for one in people for other in people)
