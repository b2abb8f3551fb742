"""The sample pages of real servers give the figures that were computed independently and checked against promtool."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from npumond.sources.inference.buckets import Distribution, quantile
from npumond.sources.inference.labels import LatencyKind
from npumond.sources.inference.targets.counts import Ready, counters, latencies, requests
from npumond.sources.inference.targets.kinds import KINDS, ServerKind, detect
from npumond.sources.inference.targets.metrics_page import Key, PageError, PageReader
from npumond.sources.inference.targets.sliding_window import SlidingWindow, scrape

SAMPLES = Path(__file__).parents[5] / "shared" / "samples" / "inference"
if not SAMPLES.is_dir():
    pytest.skip("the sample pages are not there", allow_module_level=True)

GOLDEN: Mapping[str, Any] = json.loads((SAMPLES / "golden-quantiles.json").read_text())
VLLM = [f"synthetic-vllm-v1-dp2-scrape{name}.prom" for name in ("1", "2", "3-idle", "4-restarted")]
PAGES_OF_CASE: Mapping[str, tuple[str, ...]] = {
    "mindie scrape1 absolute": ("mindie-server-scrape1.prom",),
    "mindie scrape2-scrape1": ("mindie-server-scrape1.prom", "mindie-server-scrape2.prom"),
    "sglang docs absolute": ("sglang-docs.prom",),
    "vllm v0 absolute": ("vllm-v0.prom",),
    "vllm v1 scrape2-scrape1 per engine": (VLLM[0], VLLM[1]),
    "vllm v1 scrape2-scrape1 all engines": (VLLM[0], VLLM[1]),
    "vllm v1 idle (scrape3-scrape2)": (VLLM[1], VLLM[2]),
    "vllm v1 after restart (scrape4 vs scrape3)": (VLLM[2], VLLM[3]),
    "vllm v1 scrape2-scrape1": (VLLM[0], VLLM[1]),
    "vllm v1 idle": (VLLM[1], VLLM[2]),
    "vllm v1 after restart": (VLLM[2], VLLM[3]),
}
KIND_OF_FAMILY: tuple[tuple[str, LatencyKind], ...] = (("e2e", "e2e"), ("first_token", "ttft"), ("token", "itl"))


def kind_of(name: str) -> ServerKind:
    kind = detect((SAMPLES / name).read_bytes())
    assert kind is not None
    return kind


def read(name: str, kind: ServerKind | None = None) -> dict[Key, float]:
    return PageReader((kind or kind_of(name)).families()).read((SAMPLES / name).read_bytes())


def difference(names: tuple[str, ...]) -> Mapping[Key, float]:
    """Between two pages, or of one page since the server's start."""
    kind = kind_of(names[0])
    if len(names) == 1:
        return counters(kind, read(names[0]))
    window = SlidingWindow(60.0)
    for at, name in enumerate(names):
        window.add(scrape(kind, read(name), at * 30.0))
    found = window.difference()
    assert found is not None
    return found


@pytest.mark.parametrize("case", GOLDEN["quantiles"], ids=lambda case: f"{case['case']} {case['histogram']}")
def test_a_histogram_has_the_quantiles_that_prometheus_gives_it(case: Mapping[str, Any]) -> None:
    names = PAGES_OF_CASE[case["case"]]
    engine = case["labels"].get("engine")
    seen = difference(names)
    if engine is not None:
        seen = {key: value for key, value in seen.items() if ("engine", engine) in key.labels}
    what = next(kind for word, kind in KIND_OF_FAMILY if word in case["histogram"])
    found = latencies(kind_of(names[0]), seen, {})[case["labels"]["model_name"]][what]
    assert isinstance(found, Distribution)
    assert found.count == case["count"]
    for share, expected in case["quantiles"].items():
        given = quantile(float(share), found)
        if expected is None:
            assert given is None
        else:
            assert given is not None
            assert given.value == pytest.approx(expected, rel=1e-12)
            assert given.clamped == (expected == case["highest_finite_bound"])


@pytest.mark.parametrize("case", GOLDEN["success"])
def test_requests_are_counted_by_the_http_layer_where_there_is_one(case: str) -> None:
    expected = GOLDEN["success"][case]
    counted = requests(kind_of(VLLM[0]), difference(PAGES_OF_CASE[case]))["qwen3-32b"]
    assert (counted.success, counted.error) == (expected["http_/v1"]["2xx"], expected["http_/v1"]["5xx"])
    assert counted.aborted == expected["finished_reason"]["abort"]
    assert counted.ratio(1) == expected["success_ratio_http"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mindie-server-scrape1.prom", "mindie"),
        ("sglang-docs.prom", "sglang"),
        ("torchserve-docs.prom", "torchserve"),
        ("triton.prom", "triton"),
        ("vllm-v0.prom", "vllm"),
        (VLLM[0], "vllm"),
    ],
)
def test_a_server_is_known_by_its_page(name: str, kind: str) -> None:
    assert kind_of(name).name == kind


def test_a_page_that_was_cut_is_refused_as_a_whole() -> None:
    with pytest.raises(PageError, match="cut off in its last line: 'vllm:e2e_request_'"):
        read("vllm-v1-truncated.prom", KINDS["vllm"])


def test_the_fixture_of_mindie_has_latencies_and_no_requests() -> None:
    """Its counters are 0 while the histograms hold 400: one is never made of the other."""
    counted = requests(KINDS["mindie"], difference(("mindie-server-scrape1.prom",)))
    assert counted["llama_65b"].by_status() == {"success": 0.0, "error": 0.0}
    assert counted["llama_65b"].ratio(1) is None


def test_triton_has_quantiles_of_its_own_in_seconds() -> None:
    seen = latencies(KINDS["triton"], difference(("triton.prom",)), read("triton.prom"))
    densenet = seen["densenet_onnx"]["e2e"]
    assert isinstance(densenet, Ready)
    assert densenet.quantiles[0.99] == pytest.approx(3e-6)
    assert densenet.mean == pytest.approx(1.327965 / 3)
    assert "simple_string" not in seen


def test_the_odd_writing_of_tritons_documentation_is_read() -> None:
    """Buckets without a suffix, a blank behind the comma, milliseconds."""
    page = read("triton-docs-quirks.prom", KINDS["triton"])
    seen = latencies(KINDS["triton"], counters(KINDS["triton"], page), page)["my_model"]["ttft"]
    assert isinstance(seen, Distribution)
    assert seen.bounds == (0.1, 0.5, 2.0, 5.0, math.inf)
    assert seen.count == 37
    assert seen.sum == pytest.approx(10.771)


def test_torchserve_has_a_mean_and_no_quantile() -> None:
    seen = latencies(KINDS["torchserve"], difference(("torchserve-docs.prom",)), {})["resnet18"]["e2e"]
    assert seen == Ready({}, 3.0, 290371.129 * 1e-6 / 3)
