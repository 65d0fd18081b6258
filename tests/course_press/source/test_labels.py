"""Labels numbered from the source are what pages print."""

from pathlib import Path

import pytest

from course_press.pages.pandoc import print_pages
from course_press.source.book import languages, read_book
from course_press.source.labels import find_labels
from tests.the_book import the_book

ROOT = Path(__file__).parents[3]


def assert_as_printed(book):
    (pages,) = print_pages([book])
    for page in pages:
        found = [(one.id, one.kind, one.number, one.title) for one in find_labels(page.chapter)]
        printed = [
            (one["id"], one["kind"], one["number"], one["title"] if one["kind"] == "sec" else "")
            for one in page.data["labels"]
        ]
        # What has a number is called by it; its title is nobody's concern.
        assert sorted((*one[:3], "" if one[2] else one[3]) for one in found) == sorted(
            (*one[:3], "" if one[2] else one[3]) for one in printed
        ), page.url


BOXES = """
::: {.callout-note}
## A title of a box {#sec-box}

### Counted {#sec-counted}
:::

::: {.callout-note title="Titled"}
## Counted too {#sec-too}
:::

::: {.panel-tabset}
## A tab {#sec-tab}

$$ x $$ {#eq-in-a-tab}
:::

```
## No heading {#sec-no} $$ x $$ {#eq-no}
```

## Without a number {#sec-without .unnumbered}

##### Too deep for one {#sec-deep}
"""


def test_labels_of_the_source_are_those_of_the_pages(book):
    with (book.root / "chapters/en/one.qmd").open("a") as file:
        file.write(BOXES)
    written = read_book(book.root, "en")
    assert_as_printed(written)
    by_id = {one.id: one.number for one in find_labels(written.chapters[1])}
    assert by_id["fig-line"] == "1.1"
    assert {"sec-box", "sec-tab", "sec-no", "eq-no"}.isdisjoint(by_id)
    assert by_id["sec-without"] == by_id["sec-deep"] == ""


def test_labels_of_a_korean_book_are_those_of_its_pages(whole_book):  # has printed them
    assert_as_printed(the_book("ko"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("lang", languages(ROOT))
def test_labels_of_the_book_are_those_of_its_pages(lang):
    assert_as_printed(the_book(lang))
