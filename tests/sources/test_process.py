"""The daemon's own figures are those that every exporter shows, by the same names."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from npumond.catalog import BY_NAME
from npumond.model import Sample
from npumond.sources.process import ProcessSource


def waiting_child() -> subprocess.Popen[bytes]:
    """A process that ends when it is sent a line."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


async def sampled(source: ProcessSource) -> dict[tuple[str, ...], float]:
    (batch,) = (await source.sample("normal")).batches
    return {(sample.family, *sample.labels): sample.value for sample in batch.samples}


def by_prometheus_client() -> dict[str, float]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}


async def test_every_figure_of_the_process_agrees_with_prometheus_client() -> None:
    ours = await sampled(ProcessSource(5.0, lambda: None, time.monotonic))
    theirs = by_prometheus_client()
    exact = ("process_virtual_memory_bytes", "process_max_fds")
    assert {name: ours[(name,)] for name in exact} == {name: theirs[name] for name in exact}
    assert ours[("process_resident_memory_bytes",)] == pytest.approx(theirs["process_resident_memory_bytes"], rel=0.1)
    assert ours[("process_start_time_seconds",)] == pytest.approx(theirs["process_start_time_seconds"], abs=2)
    assert ours[("process_cpu_seconds_total",)] == pytest.approx(theirs["process_cpu_seconds_total"], abs=1)
    assert ours[("process_open_fds",)] == pytest.approx(theirs["process_open_fds"], abs=2)


async def test_every_sample_is_in_the_catalogue_under_this_source() -> None:
    (batch,) = (await ProcessSource(5.0, os.getpid, time.monotonic).sample("normal")).batches
    origins = {BY_NAME[sample.family].origin for sample in batch.samples}
    assert origins <= {"process", "self"}


async def test_cpu_of_a_replaced_worker_is_not_lost() -> None:
    current: list[int | None] = [os.getpid()]
    source = ProcessSource(5.0, lambda: current[0], time.monotonic)
    first = (await sampled(source))[("npumond_worker_cpu_seconds_total",)]
    child = waiting_child()
    try:
        current[0] = child.pid
        second = (await sampled(source))[("npumond_worker_cpu_seconds_total",)]
    finally:
        child.communicate(b"\n")
    assert second >= first > 0


async def test_a_worker_that_just_ended_costs_its_memory_figure_only() -> None:
    child = waiting_child()
    child.communicate(b"\n")
    (batch,) = (await ProcessSource(5.0, lambda: child.pid, time.monotonic).sample("normal")).batches
    assert Sample("npumond_worker_cpu_seconds_total", (), 0.0) in batch.samples
    assert all(sample.family != "npumond_worker_resident_memory_bytes" for sample in batch.samples)
