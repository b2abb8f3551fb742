"""Lines of DogStatsD are taken, known as foreign, or garbage; no line raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npumond.sources.inference.labels import LatencyKind
from npumond.sources.inference.pushed.dogstatsd import MOST_COUNTED, Counted, Parser, Timed

D = "inference.request.duration"


def parsed(line: str) -> Timed | Counted | str:
    return Parser().parse(line)


def test_a_duration_is_a_request() -> None:
    assert parsed(f"{D}:12.5|ms|#model:resnet50") == Timed("e2e", "resnet50", "success", (0.0125,), 1.0)


@pytest.mark.parametrize("type_", ["ms", "h", "d"])
def test_durations_are_milliseconds(type_: str) -> None:
    assert parsed(f"{D}:250|{type_}") == Timed("e2e", "", "success", (0.25,), 1.0)


@pytest.mark.parametrize(("type_", "seconds"), [("h", 0.25), ("d", 0.25), ("ms", 0.00025)])
def test_a_name_in_seconds_holds_for_types_without_a_unit(type_: str, seconds: float) -> None:
    assert parsed(f"{D}_seconds:0.25|{type_}") == Timed("e2e", "", "success", (seconds,), 1.0)


@pytest.mark.parametrize(("name", "kind"), [("inference.request.ttft", "ttft"), ("inference.request.itl", "itl")])
def test_tokens_have_names_of_their_own(name: str, kind: LatencyKind) -> None:
    assert parsed(f"{name}:8|ms|#model:llama") == Timed(kind, "llama", "success", (0.008,), 1.0)


def test_a_counter_counts_requests_by_status() -> None:
    assert parsed("inference.request:3|c|#model:llama,status:error") == Counted("llama", "error", 3.0, 1.0)


def test_a_rate_becomes_a_weight() -> None:
    assert parsed(f"{D}:1|ms|@0.1|#model:a") == Timed("e2e", "a", "success", (0.001,), 10.0)


def test_values_may_be_packed() -> None:
    assert parsed(f"{D}:1:2:3|h|#model:a") == Timed("e2e", "a", "success", (0.001, 0.002, 0.003), 1.0)


def test_packed_counts_are_added() -> None:
    assert parsed("inference.request:1:2|c") == Counted("", "success", 3.0, 1.0)


def test_fields_of_later_protocols_are_passed_over_in_any_order() -> None:
    line = (
        f"{D}:1|ms|c:ci-83c0a99c|#team:x,model:org/name:8b,status:aborted|@0.5|T1656581400|e:it-false,pn-web|card:low"
    )
    assert parsed(line) == Timed("e2e", "org/name:8b", "aborted", (0.001,), 2.0)


def test_of_a_tag_given_twice_the_first_counts() -> None:
    assert parsed(f"{D}:1|ms|#model:a,model:b,flag") == Timed("e2e", "a", "success", (0.001,), 1.0)


@pytest.mark.parametrize(
    "line",
    [
        "page.views:1|c",
        "page.views:-1|c",
        "fuel.level:0.5|g|#a:b",
        "fuel.level:+1|g",
        "users.uniques:any text: even so|s",
        "song.length:240|h|@0.5",
        f"{D}:1|g",
        f"{D}:1|c",
        "inference.request:1|ms",
        "_e{5,4}:title|text|t:error",
        "_e{5,4}:title|a: b|#model:x",
        "_sc|Redis connection|2|#env:dev|m:timed out",
    ],
)
def test_a_well_formed_line_of_others_is_foreign(line: str) -> None:
    assert parsed(line) == "foreign"


@pytest.mark.parametrize(
    "line",
    [
        "x",
        ":",
        "|",
        ":1|ms",
        f"{D}",
        f"{D}:",
        f"{D}:1",
        f"{D}:1|",
        f"{D}:1|x",
        f"{D}:|ms",
        f"{D}:1:|ms",
        f"{D}:one|ms",
        f"{D}:nan|ms",
        f"{D}:inf|ms",
        f"{D}:1e999|ms",
        f"{D}:-1|ms",
        f"{D}:1:-1|ms",
        f"{D}:1_000|ms",
        f"{D}: 1|ms",
        f"{D}:1|ms|@",
        f"{D}:1|ms|@0",
        f"{D}:1|ms|@-1",
        f"{D}:1|ms|@2",
        f"{D}:1|ms|@1.1.1",
        f"{D}:1|ms|@1e-300",
        f"{D}:1|ms|@nan",
        f"{D}:1|ms|#status:odd",
        f"{D}:1|ms|what",
        f"{D}:1|ms\r",
        "two words:1|c",
        "page.views:many|c",
        "inference.request:-1|c",
        f"inference.request:{MOST_COUNTED:.0f}:1|c",
        "_e{x}:title|text",
        "_sc|name",
        "\x00\x01",
    ],
)
def test_a_line_that_cannot_be_read_is_garbage(line: str) -> None:
    assert parsed(line) == "garbage"


@pytest.mark.slow
@given(
    st.text() | st.from_regex(r"[a-z.]{0,9}:[-0-9.e:]{0,9}\|(ms|c|h|s)(\|[@#cT][-:,a-z0-9.]{0,9}){0,3}", fullmatch=True)
)
def test_no_line_raises(line: str) -> None:
    parsed(line)


@given(st.text(alphabet="inference.request:1|ms@0.5#model:a,status\n", max_size=60))
def test_a_known_line_means_the_same_the_second_time(line: str) -> None:
    parser = Parser()
    assert parser.parse(line) == parser.parse(line)


def test_what_is_remembered_of_lines_is_bounded() -> None:
    parser = Parser()
    for number in range(10_000):
        parser.parse(f"{D}:1|ms|#model:m{number}")
        parser.parse(f"{D}:1|ms|#model:{'x' * 1000}{number}")
    assert len(parser._meanings) <= 2048
    assert max(len(name) + len(tail) for name, tail in parser._meanings) <= 256
