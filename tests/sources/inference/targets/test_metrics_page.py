"""A page is read exactly, or refused as a whole with the reason."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from npumond.sources.inference.targets.metrics_page import Key, PageError, PageReader

FAMILIES = ("a_seconds", "b_total", "c")


def read(text: str) -> dict[Key, float]:
    return PageReader(FAMILIES).read(text.encode())


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("c 1", Key("c", ()), 1.0),
        ("c{} 2", Key("c", ()), 2.0),
        ('c{x="1",} 3', Key("c", (("x", "1"),)), 3.0),
        ('c{y="2", x="1"} 4', Key("c", (("x", "1"), ("y", "2"))), 4.0),
        ('c { x = "1" } 5', Key("c", (("x", "1"),)), 5.0),
        ("c 6 1700000000000", Key("c", ()), 6.0),
        ('c{x="1"} 7 # {trace_id="}"} 0.5 1.7', Key("c", (("x", "1"),)), 7.0),
        ('c{x="},{=\\"# "} 8', Key("c", (("x", '},{="# '),)), 8.0),
        ('c{x="a\\\\b\\nc"} 9', Key("c", (("x", "a\\b\nc"),)), 9.0),
        ("c 4.950195e+06", Key("c", ()), 4950195.0),
        ("c +Inf", Key("c", ()), math.inf),
        ('a_seconds_bucket{le="1"} 1\na_seconds_bucket{le="+Inf"} 1', Key("a_seconds_bucket", (), 1.0), 1.0),
        ('a_seconds_bucket{le="1e+00"} 2\na_seconds_bucket{le="inf"} 2', Key("a_seconds_bucket", (), 1.0), 2.0),
        ('a_seconds_bucket{le="1.0",x="y"} 3\na_seconds_bucket{x="y",le="Inf"} 3',
         Key("a_seconds_bucket", (("x", "y"),), math.inf), 3.0),
        ("a_seconds_sum 2\na_seconds_count 1", Key("a_seconds_sum", ()), 2.0),
        ("b_total 1\r", Key("b_total", ()), 1.0),
        ('c{"odd name"="1",x="2"} 1', Key("c", (("x", "2"),)), 1.0),
    ],
)  # fmt: skip
def test_every_way_of_writing_a_series_is_read(line: str, key: Key, value: float) -> None:
    assert read(f"# TYPE c gauge\n\n{line}\n")[key] == value


def test_what_is_not_wanted_is_left_out() -> None:
    """Also what only begins like it, and when a series was made."""
    text = "other 1\nc_other 2\ncc 3\nb_created 4\na_seconds_created 5\nb_total 6\n# c 7\n"
    assert read(text) == {Key("b_total", ()): 6.0}


def test_a_value_that_is_not_known_is_read_as_such() -> None:
    assert math.isnan(read("c NaN\n")[Key("c", ())])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the page is empty"),
        ("\n <html><body>Not here</body></html>", "an HTML page, not metrics"),
        ('{"message": "off"}', "JSON, not metrics"),
        ("c 1\nc{x=", "the page is cut off in its last line: 'c{x='"),
        ("c 1\nc 12", "the page is cut off in its last line: 'c 12'"),
        ("c{x=1} 2\n", "labels cannot be read: 'c{x=1} 2'"),
        ('c{x="1} 2\n', "a line cannot be read: 'c{x=\"1} 2'"),
        ("c\n", "a line cannot be read: 'c'"),
        ("c one\n", "a value cannot be read: 'c one'"),
        ('c{x="1" y} 2\n', "labels cannot be read: 'c{x=\"1\" y} 2'"),
        ('a_seconds_bucket{le="x"} 1\n', "a bucket's bound cannot be read: 'a_seconds_bucket{le=\"x\"} 1'"),
        ('a_seconds_bucket{le="1"} 1\n', "the histogram a_seconds has no bucket for +Inf"),
        ('c{x="1"} 1\nc{x="1"} 2\n', "a series is on the page twice: 'c{x=\"1\"} 2'"),
        ('c{x="1",y="2"} 1\nc{y="2",x="1"} 2\n', 'a series is on the page twice: \'c{y="2",x="1"} 2\''),
    ],
)
def test_a_page_with_a_mistake_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PageError) as caught:
        read(text)
    assert str(caught.value) == reason


def test_openmetrics_needs_no_end_of_line_after_its_end() -> None:
    assert read("c 1\n# EOF") == {Key("c", ()): 1.0}


def test_long_values_stay_apart() -> None:
    """Two series may differ in the last of four thousand characters only."""
    long = "y" * 4096
    assert len(read(f'c{{x="{long}1"}} 1\nc{{x="{long}2"}} 2\n')) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("c 5 5", "c 5 6"),
        ('c 5 # {id="a"} 5', 'c 5 # {id="a"} 0.3'),
    ],
)
def test_a_time_or_exemplar_that_reads_like_the_value_is_not_taken_for_it(first: str, second: str) -> None:
    reader = PageReader(("c",))
    reader.read(f"{first}\n".encode())
    assert reader.read(f"{second}\n".encode()) == {Key("c", ()): 5.0}


@pytest.mark.parametrize("text", ["404 page not found", "Not Found\n", "404 page not found\n"])
def test_words_in_place_of_a_page_are_shown(text: str) -> None:
    with pytest.raises(PageError, match=r"not metrics: it begins with '(404 page n|N)ot"):
        PageReader(("c",)).read(text.encode())


def test_a_page_may_begin_with_a_quoted_name() -> None:
    assert PageReader(("c",)).read(b'{"my.metric",a="b"} 1\nc 3\n') == {Key("c", ()): 3.0}


def test_the_second_reading_is_as_the_first() -> None:
    """Series are known again by how they are written; times and exemplars change with each page."""
    reader = PageReader(FAMILIES)
    page = 'c{{x="1"}} {0} 170000000{0}\nb_total {0}\nc {0} # {{t="1"}} {0}\na_seconds_count{{}} {0}\n'
    for value in (1, 2):
        expected = {
            Key("c", (("x", "1"),)): float(value),
            Key("b_total", ()): float(value),
            Key("c", ()): float(value),
            Key("a_seconds_count", ()): float(value),
        }
        assert reader.read(page.format(value).encode()) == expected


LABELS = st.dictionaries(
    st.sampled_from("pqrs"), st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3
)


def written(labels: dict[str, str]) -> str:
    escaped = {
        name: value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"") for name, value in labels.items()
    }
    return ",".join(f'{name}="{value}"' for name, value in escaped.items())


@given(st.lists(LABELS, unique_by=lambda labels: tuple(sorted(labels.items())), max_size=5), st.floats(allow_nan=False))
def test_prometheus_own_parser_reads_the_same(label_sets: list[dict[str, str]], value: float) -> None:
    page = "# TYPE c gauge\n" + "".join(f"c{{{written(labels)}}} {value!r}\n" for labels in label_sets)
    theirs = {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert {key.labels: number for key, number in read(page).items()} == theirs


@given(st.binary(max_size=300))
def test_noise_is_a_page_or_a_refusal(noise: bytes) -> None:
    with suppress(PageError):
        PageReader(FAMILIES).read(b"c " + noise)


def test_a_line_made_to_be_slow_is_refused_at_once() -> None:
    """Quotes without end, which an expression that goes back and tries again would take years for."""
    with pytest.raises(PageError, match="a line cannot be read"):
        read("c{" + 'x="' * 5000 + "a" * 5000 + "\n")
