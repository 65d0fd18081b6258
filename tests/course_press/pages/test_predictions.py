"""Each prediction of the book has a box to go to, and closes what it should."""

import json

import pytest
from lxml import html

LIVE = ("explorer", "moving", "exercise", "guesses")


def pages(folder, lang):
    for file in sorted((folder / lang / "chapters" / lang).glob("*.html")):
        yield html.parse(str(file), html.HTMLParser(encoding="utf-8"))


def predictions(folder, lang):
    for page in pages(folder, lang):
        for box in page.xpath("//div[@class='guess']"):
            data = json.loads(box.xpath("script")[0].text)
            yield page, box, {"id": box.get("id").removeprefix("predict-"), **data}


def has_class(one, name):
    return name in (one.get("class") or "").split()


def closed(box, data):
    """The question above a prediction, and what follows it as far as it is closed."""
    cell = next(one for one in box.iterancestors() if has_class(one, "cell"))
    above = [one for one in cell.xpath("preceding::div") if has_class(one, "predict")][-1]
    after = []
    for one in above.itersiblings():
        own = one.tag == "section" and cell in one.iter()
        if has_class(one, "predict") or (one.tag == "section" and not own):
            break
        if own or not any(has_class(part, "exercise") for part in one.iter()):
            after.append(one)
        if own:
            break
        if data.get("until") and one.xpath("descendant-or-self::*[@id=$id]", id=data["until"]):
            break
    return above, after


def test_each_question_has_its_own_prediction_which_closes_nothing_to_play_with(whole_book):
    questions, asked = [], []
    for _, box, data in predictions(whole_book, "en"):
        above, after = closed(box, data)
        questions.append(above)
        asked.append(data["id"])
        assert after, data["id"]
        found = [one.get("class") for part in after for one in part.iter() if one.get("class")]
        assert not {name for names in found for name in names.split()} & set(LIVE), data["id"]
        if until := data.get("until"):
            assert after[-1].xpath("descendant-or-self::*[@id=$id]", id=until), until
    assert len(set(questions)) == len(questions) == len(set(asked))
    every = [
        one
        for page in pages(whole_book, "en")
        for one in page.iter("div", "details")
        if has_class(one, "predict")
    ]
    assert len(every) == len(asked) > 0


@pytest.fixture(scope="module")
def asked(whole_book):
    """By language, what each box holds."""
    return {
        lang: [
            (data, box.xpath("count(script[@class='guess-shared'])"))
            for _, box, data in predictions(whole_book, lang)
        ]
        for lang in ("en", "es", "ko")
    }


def test_languages_ask_for_the_same_truths(asked):
    def truths(lang):
        return [
            {name: data.get(name) for name in ("id", "truth", "right", "span", "until")}
            for data, _ in asked[lang]
        ]

    assert truths("es") == truths("ko") == truths("en")


def test_what_predictions_share_stands_in_one_file(whole_book, asked):
    for lang, boxes in asked.items():
        script = (whole_book / lang / "predict.js").read_text(encoding="utf-8")
        first = script.partition(";\n")[0].removeprefix("window.coursePredictions = ")
        shared = json.loads(first)
        assert {data["id"] for data, _ in boxes} == set(shared["asks"])
        assert not any(scripts for _, scripts in boxes)
