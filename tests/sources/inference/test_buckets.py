"""Quantiles are those of Prometheus, and each says what is certain of it."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
from itertools import accumulate
from pathlib import Path

import pytest

from npumond.sources.inference.buckets import Distribution, Quantile, quantile

INF = math.inf


def seen(bounds: tuple[float, ...], counts: tuple[float, ...], total: float | None = None) -> Distribution:
    return Distribution(bounds, counts, total)


def test_the_first_bucket_begins_at_nothing() -> None:
    """Whose every request took 20 ms has a P99 of 0.99 s here, and only the edges are honest."""
    assert quantile(0.99, seen((1.0, 2.5, INF), (100.0, 100.0, 100.0))) == Quantile(0.99, 0.0, 1.0)


def test_above_the_highest_bound_the_answer_is_at_least() -> None:
    found = quantile(0.99, seen((1.0, 10.0, INF), (0.0, 37.0, 100.0)))
    assert found == Quantile(10.0, 10.0, INF)
    assert found is not None
    assert found.clamped


def test_without_an_observation_there_is_no_quantile() -> None:
    assert quantile(0.5, seen((1.0, INF), (0.0, 0.0))) is None


def test_one_bucket_tells_nothing() -> None:
    assert quantile(0.5, seen((INF,), (5.0,))) is None


def test_a_count_below_the_one_before_is_repaired() -> None:
    """As Prometheus does it; counts of a page that was written while they changed can be so."""
    repaired = quantile(0.5, seen((1.0, 2.0, 3.0, INF), (10.0, 9.0, 20.0, 20.0)))
    assert repaired == quantile(0.5, seen((1.0, 2.0, 3.0, INF), (10.0, 10.0, 20.0, 20.0)))


def test_a_bound_that_is_not_positive_is_its_own_answer() -> None:
    assert quantile(0.5, seen((-1.0, 1.0, INF), (10.0, 10.0, 10.0))) == Quantile(-1.0, -INF, -1.0)


@pytest.mark.parametrize(("total", "mean"), [(5.0, 0.5), (None, None)])
def test_the_mean_is_exact_where_there_is_a_sum(total: float | None, mean: float | None) -> None:
    assert seen((1.0, INF), (10.0, 10.0), total).mean == mean


def test_nothing_has_no_mean() -> None:
    assert seen((1.0, INF), (0.0, 0.0), 0.0).mean is None


def histograms(count: int) -> list[Distribution]:
    """Histograms of every shape: few and many bounds, empty buckets, everything in the first or above the last."""
    chance = random.Random(4)
    made = []
    for _ in range(count):
        bounds = sorted(
            {round(chance.choice((0.001, 1.0, 100.0)) * chance.random(), 6) for _ in range(chance.randint(1, 20))}
        )
        sizes = [chance.choice((0, 0, 1, chance.randint(0, 1000))) for _ in (*bounds, INF)]
        made.append(seen((*bounds, INF), tuple(map(float, accumulate(sizes)))))
    return [one for one in made if one.count]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_gives_the_same_quantiles(tmp_path: Path) -> None:
    """To the last bit, on some hundred histograms, by its own query engine."""
    series, tests = [], []
    for number, one in enumerate(histograms(120)):
        for bound, count in zip(one.bounds, one.counts, strict=True):
            le = "+Inf" if bound == INF else repr(bound)
            series.append({"series": f'h_bucket{{le="{le}",n="{number}"}}', "values": repr(count)})
        for share in (0.01, 0.5, 0.9, 0.99, 1.0):
            found = quantile(share, one)
            assert found is not None
            sample = {"labels": f'{{n="{number}"}}', "value": found.value}
            expression = f'histogram_quantile({share}, h_bucket{{n="{number}"}})'
            tests.append({"expr": expression, "eval_time": "0s", "exp_samples": [sample]})
    document = {"tests": [{"interval": "1m", "input_series": series, "promql_expr_test": tests}]}
    path = tmp_path / "quantiles.json"  # which is YAML
    path.write_text(json.dumps(document))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
