"""Snapshots as pages, read back by the parsers that scrapers use."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.utils import floatToGoString

from npumond.catalog import CATALOG, Family
from npumond.exposition import Renderer, bound_text
from npumond.model import Sample, Snapshot

TEMPERATURE = "npu_temperature_celsius"
PROCESS = "npu_process_hbm_used_bytes"
QUERY = "npu_query_duration_seconds"

LINT_EXCEPTIONS = {
    "inference_latency_ms": "an alias whose name is promised",
    "inference_latency_seconds": "quantile is a label of a gauge: it is computed over a window, which a summary is not",
    "inference_latency_resolution_seconds": "as inference_latency_seconds",
    "inference_latency_lower_bound_seconds": "as inference_latency_seconds",
}
"""What promtool's linter objects to, and why it stays."""


def snapshot(*samples: Sample) -> Snapshot:
    """A snapshot of these samples, grouped by family."""
    families: dict[str, tuple[Sample, ...]] = {}
    for sample in samples:
        families[sample.family] = (*families.get(sample.family, ()), sample)
    return Snapshot(at=0.0, wall_at=0.0, families=families)


def temperature(device_id: str, value: float) -> Sample:
    """A reading of one device."""
    return Sample(TEMPERATURE, (device_id,), value)


def page(*samples: Sample, openmetrics: bool = False) -> str:
    """The page of a new renderer."""
    return Renderer().render(snapshot(*samples), openmetrics).decode()


def parsed(text: str, openmetrics: bool) -> list[Metric]:
    """The page as prometheus_client's parser for the format reads it."""
    return list(parse_openmetrics(text) if openmetrics else parse_text(text))  # type: ignore[no-untyped-call]


def values(text: str, openmetrics: bool) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Value by series name and labels."""
    families = parsed(text, openmetrics)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def histogram(family: Family, labels: tuple[str, ...]) -> Iterator[Sample]:
    """A full histogram with one observation in each bucket."""
    bounds = [*family.buckets, math.inf]
    for count, bound in enumerate(bounds, start=1):
        yield Sample(family.name, (*labels, str(bound)), float(count), "_bucket")
    yield Sample(family.name, labels, 0.125, "_sum")
    yield Sample(family.name, labels, float(len(bounds)), "_count")


def everything() -> Snapshot:
    """Samples of every family of the catalogue, two series where there are labels."""
    samples: list[Sample] = []
    for family in CATALOG:
        for device in ("2", "10") if family.labels else ("",):
            labels = (device,) * len(family.labels)
            if family.kind == "histogram":
                samples += histogram(family, labels)
            else:
                samples.append(Sample(family.name, labels, 1.0))
    return snapshot(*samples)


both_formats = pytest.mark.parametrize("openmetrics", [False, True])


def test_a_gauge_in_text_format() -> None:
    """HELP, TYPE and the lines, and nothing else: no timestamp."""
    assert page(temperature("0", 73.9)) == (
        "# HELP npu_temperature_celsius Temperature of the chip.\n"
        "# TYPE npu_temperature_celsius gauge\n"
        'npu_temperature_celsius{device_id="0"} 73.9\n'
    )


def test_a_gauge_in_openmetrics() -> None:
    """The unit is told, and the page ends with EOF."""
    assert page(temperature("0", -1.0), openmetrics=True) == (
        "# HELP npu_temperature_celsius Temperature of the chip.\n"
        "# TYPE npu_temperature_celsius gauge\n"
        "# UNIT npu_temperature_celsius celsius\n"
        'npu_temperature_celsius{device_id="0"} -1.0\n'
        "# EOF\n"
    )


def test_a_counter_is_named_by_each_format_s_rule() -> None:
    """The family of a counter ends in _total in text format and does not in OpenMetrics; its samples always do."""
    counter = Sample("npu_energy_joules_total", ("0",), 5.0)

    assert "# TYPE npu_energy_joules_total counter\nnpu_energy_joules_total{" in page(counter)
    assert "# TYPE npu_energy_joules counter\n# UNIT npu_energy_joules joules\nnpu_energy_joules_total{" in page(
        counter, openmetrics=True
    )


def test_an_info_family_is_a_gauge_in_text_format_only() -> None:
    """OpenMetrics has a type for facts, text format has not."""
    info = Sample("npumond_build_info", ("0.1.0", "3.11.7"), 1.0)

    assert "# TYPE npumond_build_info gauge\nnpumond_build_info{" in page(info)
    assert "# TYPE npumond_build info\nnpumond_build_info{" in page(info, openmetrics=True)


def test_a_family_without_labels_has_no_braces() -> None:
    """An empty pair of braces is legal but not what anybody writes."""
    assert page(Sample("npu_devices_seen", (), 8.0)).endswith("\nnpu_devices_seen 8.0\n")


def test_a_histogram_has_buckets_by_bound_then_count_and_sum() -> None:
    """Whatever order the samples come in, each series' buckets stand together and rise."""
    family = next(family for family in CATALOG if family.name == QUERY)
    samples = [*histogram(family, ("10",)), *histogram(family, ("2",))]

    lines = [line for line in page(*reversed(samples)).splitlines() if not line.startswith("#")]

    assert lines[0] == 'npu_query_duration_seconds_bucket{device_id="2",le="0.0005"} 1.0'
    assert lines[13:16] == [
        'npu_query_duration_seconds_bucket{device_id="2",le="+Inf"} 14.0',
        'npu_query_duration_seconds_count{device_id="2"} 14.0',
        'npu_query_duration_seconds_sum{device_id="2"} 0.125',
    ]


@pytest.mark.parametrize("spelling", ["1", "1.0", "1.00", "1e0"])
def test_bounds_are_spelled_as_prometheus_3_would(spelling: str) -> None:
    """One bound has one spelling, however a source writes it."""
    assert 'le="1.0"' in page(Sample(QUERY, ("0", spelling), 1.0, "_bucket"))


@given(st.floats(min_value=0, allow_nan=False))
def test_bounds_are_canonical(bound: float) -> None:
    """Up to a million prometheus_client's parser has the same idea; beyond, it spells some powers of ten oddly."""
    text = bound_text(bound)

    assert float(text) == bound
    if bound < 1e6 or math.isinf(bound):
        assert text == floatToGoString(bound)  # type: ignore[no-untyped-call]


@both_formats
def test_devices_are_sorted_by_number(openmetrics: bool) -> None:
    """Device 2 comes before device 10, and numbers before words."""
    text = page(*(temperature(name, 1.0) for name in ("10", "x", "2", "", "007", "1")), openmetrics=openmetrics)

    found = [s.labels["device_id"] for family in parsed(text, openmetrics) for s in family.samples]
    assert found == ["1", "2", "007", "10", "", "x"]


def test_families_come_in_the_order_of_the_catalogue() -> None:
    """Diffs of two pages show what changed and not what moved."""
    backwards = Snapshot(at=0, wall_at=0, families=dict(reversed(list(everything().families.items()))))

    text = Renderer().render(backwards, openmetrics=False).decode()

    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert types == [family.name for family in CATALOG]


@both_formats
def test_every_family_is_read_back(openmetrics: bool) -> None:
    """Both parsers accept a page with everything on it and find every sample."""
    samples = [sample for family in everything().families.values() for sample in family]

    text = Renderer().render(everything(), openmetrics).decode()

    assert sorted(values(text, openmetrics).values()) == sorted(sample.value for sample in samples)
    assert all(family.documentation for family in parsed(text, openmetrics))


@pytest.mark.slow
@both_formats
@given(label=st.text(), value=st.floats() | st.integers(-(2**53), 2**53).map(float))
def test_any_label_and_value_is_read_back(openmetrics: bool, label: str, value: float) -> None:
    """Escaping and number texts are exact, for every text and every float."""
    text = page(Sample(PROCESS, ("0", "1", label), value), openmetrics=openmetrics)

    ((series, found),) = values(text, openmetrics).items()
    assert dict(series[1])["process"] == label
    assert found == value or (math.isnan(found) and math.isnan(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0.0"),
        (73.9, "73.9"),
        (68719476736.0, "68719476736.0"),
        (0.1 + 0.2, "0.30000000000000004"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (True, "1.0"),
        (False, "0.0"),
    ],
)
def test_number_texts(value: float, expected: str) -> None:
    """Shortest text that reads back equal; what JSON cannot say; bools, which the type checker lets through."""
    others = [temperature(str(number), 1.5) for number in range(1, 3)]

    assert page(temperature("0", value), *others).splitlines()[2:] == [
        f'npu_temperature_celsius{{device_id="0"}} {expected}',
        'npu_temperature_celsius{device_id="1"} 1.5',
        'npu_temperature_celsius{device_id="2"} 1.5',
    ]


def test_a_lone_surrogate_does_not_end_the_page() -> None:
    """Text that is not UTF-8 at all costs a question mark."""
    assert page(Sample(PROCESS, ("0", "1", "a\udc80b"), 1.0)).endswith('process="a?b"} 1.0\n')


def test_a_series_given_twice_is_served_once() -> None:
    """A page that repeats a series is refused whole; the first value stands."""
    text = page(temperature("0", 1.0), temperature("1", 2.0), temperature("0", 3.0))

    assert values(text, openmetrics=False) == {
        (TEMPERATURE, (("device_id", "0"),)): 1.0,
        (TEMPERATURE, (("device_id", "1"),)): 2.0,
    }


@pytest.mark.parametrize(
    "sample",
    [
        Sample("npu_no_such_thing", ("0",), 1.0),
        Sample(TEMPERATURE, (), 1.0),
        Sample(TEMPERATURE, ("0", "1"), 1.0),
        Sample(TEMPERATURE, ("0",), 1.0, "_sum"),
        Sample(QUERY, ("0",), 1.0, "_bucket"),
        Sample(QUERY, ("0",), 1.0, "_total"),
    ],
)
def test_a_sample_that_does_not_fit_the_catalogue_is_a_mistake(sample: Sample) -> None:
    """Unknown family, labels that do not match, a suffix that does not exist: the program is wrong, and says so."""
    with pytest.raises(ValueError, match=r"npu_"):
        page(sample)


@pytest.mark.slow
@both_formats
@given(
    pages=st.lists(
        st.lists(st.tuples(st.sampled_from(["0", "1", "2", "10"]), st.sampled_from([0.0, 1.5, math.nan])), max_size=5),
        max_size=5,
    )
)
def test_what_was_rendered_before_leaves_no_trace(openmetrics: bool, pages: list[list[tuple[str, float]]]) -> None:
    """A renderer that has seen other series and values gives the same bytes as a new one."""
    families = [family for family in CATALOG if family.name == TEMPERATURE]
    renderer = Renderer(families)
    for readings in pages:
        current = snapshot(*(temperature(*reading) for reading in readings))
        assert renderer.render(current, openmetrics) == Renderer(families).render(current, openmetrics)
        assert renderer.render(current, not openmetrics) == Renderer(families).render(current, not openmetrics)


def test_what_vanished_is_forgotten() -> None:
    """Processes come and go for years; a renderer keeps no more than the newest page."""
    renderer = Renderer()
    for pid in range(1000):
        current = snapshot(Sample(PROCESS, ("0", str(pid), "python"), 1.0))
        renderer.render(current, openmetrics=False)
    block = renderer._blocks[PROCESS]

    assert len(block._keys) == len(block._samples) == 1
    renderer.render(snapshot(), openmetrics=False)
    assert [len(block._keys), len(block._samples), len(block._parts), len(block._text)] == [0, 0, 0, 0]


def test_an_empty_snapshot_is_an_empty_page() -> None:
    """Before the first round there is nothing to say, and that is valid in both formats."""
    assert page() == ""
    assert page(openmetrics=True) == "# EOF\n"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_every_family() -> None:
    """Prometheus' own linter has nothing to say but about names that are promised."""
    text = Renderer().render(everything(), openmetrics=False)

    run = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False, timeout=30)

    findings = [line for line in run.stderr.decode().splitlines() if line.split()[0] not in LINT_EXCEPTIONS]
    assert findings == []
    assert run.returncode in (0, 3)


def test_the_sample_page_has_rising_buckets() -> None:
    """The page that the oracles are shown is itself sane."""
    buckets = [s.value for s in everything().samples(QUERY) if s.suffix == "_bucket" and s.labels[0] == "2"]

    assert all(low < high for low, high in pairwise(buckets))
