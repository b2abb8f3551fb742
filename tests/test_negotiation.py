"""Which representation a client gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.negotiation import OPENMETRICS_CONTENT_TYPE as OPENMETRICS
from npumond.negotiation import TEXT_CONTENT_TYPE as TEXT
from npumond.negotiation import content_type, wants_gzip

PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

SCRAPERS: list[tuple[str | None, str, str]] = [
    # What Prometheus itself sends, by version.
    (
        (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ),
        OPENMETRICS,
        "2.40 to 2.48",
    ),
    (
        (
            f"{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        ),
        OPENMETRICS,
        "2.40 to 2.48 with native histograms",
    ),
    (
        (
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        ),
        OPENMETRICS,
        "2.49 to 2.55",
    ),
    (
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
            "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
            "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        ),
        OPENMETRICS,
        "3.x",
    ),
    (
        (
            f"{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
            "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
            "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
        ),
        OPENMETRICS,
        "3.x with native histograms",
    ),
    (
        "text/plain;version=1.0.0;escaping=underscores;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3",
        TEXT,
        "3.x told to scrape text",
    ),
    ("text/plain;version=0.0.4;q=0.3,*/*;q=0.2", TEXT, "3.x told to scrape text 0.0.4"),
    ("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPENMETRICS, "2.30"),
]

RULES: list[tuple[str | None, str, str]] = [
    (None, TEXT, "no header"),
    ("", TEXT, "empty header"),
    ("*/*", TEXT, "anything"),
    ("text/*", TEXT, "any text"),
    ("application/*", OPENMETRICS, "any application type"),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", TEXT, "a browser"),
    ("application/openmetrics-text", OPENMETRICS, "no version"),
    ("Application/OpenMetrics-Text ; Version=1.0.0 ; Q=0.9", OPENMETRICS, "case and spaces"),
    ('application/openmetrics-text;version="1.0.0"', OPENMETRICS, "quoted version"),
    ("application/openmetrics-text;version=0.0.1", OPENMETRICS, "old version only"),
    ("application/openmetrics-text;version=2.0.0", OPENMETRICS, "new version only"),
    ("application/openmetrics-text;version=1.x", OPENMETRICS, "version that is none"),
    ("text/plain;version=1.0.0;escaping=allow-utf-8", TEXT, "text 1.0.0"),
    ("application/openmetrics-text;q=0.3,text/plain;q=0.7", TEXT, "text liked better"),
    ("application/openmetrics-text;q=0.7,text/plain;q=0.3", OPENMETRICS, "OpenMetrics liked better"),
    ("text/plain,application/openmetrics-text", TEXT, "equal: the first"),
    ("application/openmetrics-text,text/plain", OPENMETRICS, "equal: the first"),
    ("*/*,application/openmetrics-text", OPENMETRICS, "equal: the one that is named"),
    ("application/openmetrics-text;q=0,*/*", TEXT, "q=0 excludes"),
    ("application/openmetrics-text;q=0.000", TEXT, "q=0 excludes, and nothing is left"),
    ("text/plain;q=0,*/*;q=0.1", OPENMETRICS, "q=0 excludes text"),
    (
        "application/openmetrics-text;version=1.0.0;q=0,application/openmetrics-text;version=0.0.1",
        TEXT,
        "ours excluded",
    ),
    (
        "application/openmetrics-text;version=1.0.0;q=0.2,application/openmetrics-text;q=0.9,text/plain;q=0.5",
        TEXT,
        "specific",
    ),
    ("application/json", TEXT, "nothing we have"),
    (PROTOBUF, TEXT, "protobuf only"),
    ("application/openmetrics-text;q=2", TEXT, "q out of range"),
    ("application/openmetrics-text;q=nan", TEXT, "q that is no number"),
    ("application/openmetrics-text;q=0.1234", TEXT, "q with too many digits"),
    ("application/openmetrics-text;version", TEXT, "parameter without value"),
    (";;;,,,///", TEXT, "rubbish"),
    ('a/b;x="application/openmetrics-text,text/plain', TEXT, "quote that is not closed"),
    ('a/b;x=",application/openmetrics-text;q=0,",application/openmetrics-text', OPENMETRICS, "comma in quotes"),
]


@pytest.mark.parametrize(("accept", "expected", "name"), SCRAPERS + RULES)
def test_accept(accept: str | None, expected: str, name: str) -> None:
    """The header of each scraper, and each rule of RFC 9110, gives the format it should."""
    assert content_type(accept) == expected, name


@given(st.text(alphabet='abc/*;=,"\\q.01 \t\x00é') | st.text())
def test_whatever_the_header_the_answer_is_one_of_ours(accept: str) -> None:
    """No header breaks the negotiation, and none is reflected."""
    assert content_type(accept) in (TEXT, OPENMETRICS)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, False),
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("deflate, br", False),
        ("*", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("gzip;q=0.5", True),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("identity;q=0", False),
        ("identity;q=0, *;q=0.5", True),
        ("gzip;q=5", False),
        ("gzip;;q", False),
        ("gzipped", False),
    ],
)
def test_accept_encoding(header: str | None, expected: bool) -> None:
    """gzip where it is asked for, identity where it is not or where it is liked better."""
    assert wants_gzip(header) is expected


@given(st.text())
def test_whatever_the_encoding_header_there_is_an_answer(header: str) -> None:
    """No header breaks it."""
    assert wants_gzip(header) in (True, False)
