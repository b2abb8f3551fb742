"""The pages are what the real servers write: names, labels, bounds, and a format that others can read."""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from npumond.demo.ledger import Ledger
from npumond.demo.page import MINDIE_BOUNDS, VLLM_BOUNDS, Served, mindie_page, vllm_page
from npumond.demo.traffic import CHAT, FAST

SAMPLES = Path(os.environ.get("NPUMOND_SHARED", Path(__file__).parents[3] / "shared")) / "samples/inference"
SERVED = Served(model="some-model", started_at=1796200000.25, cache_tokens=8192)

needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"there are no samples in {SAMPLES}")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@cache
def page(server: str) -> str:
    """After a minute of traffic in which something failed too."""
    if server == "vllm":
        ledger = Ledger(FAST, server, 1, VLLM_BOUNDS)
        ledger.advance(230)
        return vllm_page(ledger, SERVED)
    ledger = Ledger(CHAT, server, 1, MINDIE_BOUNDS, whole_ms=True)
    ledger.advance(230)
    return mindie_page(ledger, SERVED)


def families(text: str) -> list[Metric]:
    """As the Prometheus client reads them."""
    return list(text_string_to_metric_families(text))


def values(server: str, name: str, **labels: str) -> list[float]:
    """Of the samples of this name with at least these labels."""
    samples = (each for family in families(page(server)) for each in family.samples)
    return [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]


def shapes(text: str) -> set[tuple[str, frozenset[str], str]]:
    """Each sample's name, the names of its labels, and ``le`` as it is written."""
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if line and not line.startswith("#")]
    names = ((line.partition("{")[0], frozenset(re.findall(r'(\w+)="', line)), line) for line in lines)
    return {(name, labels, "".join(re.findall(r'le="([^"]*)"', line))) for name, labels, line in names}


@pytest.mark.parametrize("server", ["vllm", "mindie"])
def test_every_sample_belongs_to_a_family_with_a_type_and_a_text(server: str) -> None:
    assert [
        family.name for family in families(page(server)) if family.type == "unknown" or not family.documentation
    ] == []


@pytest.mark.parametrize("server", ["vllm", "mindie"])
def test_no_family_and_no_series_is_there_twice(server: str) -> None:
    lines = [line.rpartition(" ")[0] for line in page(server).splitlines() if not line.startswith("# HELP")]
    heads = [line.split()[2] for line in page(server).splitlines() if line.startswith("# HELP")]
    assert len(lines) == len(set(lines))
    assert len(heads) == len(set(heads))


@pytest.mark.parametrize("server", ["vllm", "mindie"])
def test_buckets_only_rise_and_end_in_the_count(server: str) -> None:
    for family in families(page(server)):
        if family.type != "histogram":
            continue
        counts = {tuple(each.labels.items()): each.value for each in family.samples if each.name.endswith("_count")}
        rows: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {key: [] for key in counts}
        for each in family.samples:
            if each.name.endswith("_bucket"):
                key = tuple(item for item in each.labels.items() if item[0] != "le")
                rows[key].append((float(each.labels["le"]), each.value))
        for key, row in rows.items():
            assert all(one < other and low <= high for (one, low), (other, high) in pairwise(row)), family.name
            assert row[-1] == (math.inf, counts[key]), family.name


@needs_samples
def test_vllm_has_everything_that_the_sample_of_a_vllm_with_two_engines_has() -> None:
    sample = (SAMPLES / "synthetic-vllm-v1-dp2-scrape1.prom").read_text()
    assert shapes(sample) - shapes(page("vllm")) == set()


@needs_samples
def test_mindie_has_exactly_what_the_sample_of_a_mindie_has() -> None:
    sample = (SAMPLES / "mindie-server-scrape1.prom").read_text()
    assert shapes(page("mindie")) == shapes(sample)


@needs_samples
def test_mindies_families_and_lines_are_in_the_order_of_the_sample() -> None:
    def order(text: str) -> list[str]:
        lines = (line for line in text.splitlines() if not line.startswith("# HELP"))
        return [
            re.sub(r'model_name="[^"]*"', "", line if "TYPE" in line else line.rpartition(" ")[0]) for line in lines
        ]

    assert order(page("mindie")) == order((SAMPLES / "mindie-server-scrape1.prom").read_text())


@needs_promtool
@pytest.mark.slow
@pytest.mark.parametrize("server", ["vllm", "mindie"])
def test_promtool_can_read_the_page(server: str) -> None:
    run = subprocess.run(
        ["promtool", "check", "metrics"], input=page(server), capture_output=True, text=True, check=False, timeout=30
    )
    # 3 is the linter's, whose objections are to the vendors' names; 1 would be the parser's.
    assert run.returncode in (0, 3), run.stderr


def test_vllm_counts_every_finished_request_in_its_histograms_by_engine() -> None:
    finished = [sum(values("vllm", "vllm:request_success_total", engine=engine)) for engine in "01"]
    assert values("vllm", "vllm:e2e_request_latency_seconds_count") == finished


def test_vllm_has_each_reason_for_each_engine_from_the_start() -> None:
    assert len(values("vllm", "vllm:request_success_total")) == 2 * 5


def test_vllm_tells_failures_as_errors_and_as_5xx() -> None:
    errors = sum(values("vllm", "vllm:request_success_total", finished_reason="error"))
    assert values("vllm", "http_requests_total", status="5xx") == [errors]
    assert errors > 0


def test_vllm_has_no_status_that_it_has_not_answered_with_yet() -> None:
    text = vllm_page(Ledger(FAST, "vllm", 1, VLLM_BOUNDS), SERVED)
    assert "http_requests_total{" not in text


def test_vllm_has_one_observation_a_token_between_tokens() -> None:
    per_request = sum(values("vllm", "vllm:request_generation_tokens_sum"))
    requests = sum(values("vllm", "vllm:request_success_total")) - sum(
        values("vllm", "vllm:request_success_total", finished_reason="error")
    )
    between = sum(values("vllm", "vllm:inter_token_latency_seconds_count"))
    assert between == pytest.approx(per_request - requests, rel=0.005)  # clients that left have some too


def test_vllm_tells_when_it_began() -> None:
    assert values("vllm", "process_start_time_seconds") == [1796200000.25]
    assert set(values("vllm", "vllm:num_preemptions_created")) == {1796200000.25}


def test_mindie_does_not_receive_fewer_than_it_answers() -> None:
    received, good, bad = (values("mindie", f"request_{what}_total")[0] for what in ("received", "success", "failed"))
    assert received > good + bad > good > 0


def test_mindie_observes_the_requests_that_it_answered() -> None:
    assert values("mindie", "e2e_request_latency_seconds_count") == values("mindie", "request_success_total")
