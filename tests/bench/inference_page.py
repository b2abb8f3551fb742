"""What reading an inference server's page costs, beside prometheus_client's parser, in one run.

The page is that of a vLLM with several engines: the simulated server's own page with its engines multiplied, to which
series of other families are added as a server with many models and middlewares has them. The first reading takes every
wanted line apart, later ones know the series again.

    python -m tests.bench.inference_page [--lines 1000 5000 20000 50000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

from prometheus_client.parser import text_string_to_metric_families

from npumond.demo.ledger import Ledger
from npumond.demo.page import VLLM_BOUNDS, Served, vllm_page
from npumond.demo.traffic import FAST
from npumond.sources.inference.targets.kinds import KINDS, detect
from npumond.sources.inference.targets.metrics_page import PageReader

REPEATS = 5
FAMILIES = KINDS["vllm"].families()


def page_of(lines: int) -> bytes:
    """A page of about so many lines."""
    ledger = Ledger(FAST, "vllm", 1, VLLM_BOUNDS)
    ledger.advance(30.0)
    text = vllm_page(ledger, Served(model="qwen3-0.6b", started_at=1.0, cache_tokens=8192))
    base = text.splitlines()
    out = list(base)
    engine = 2
    series = [line for line in base if 'engine="0"' in line]
    while len(out) < lines:
        out += [line.replace('engine="0"', f'engine="{engine}"') for line in series]
        engine += 1
    return ("\n".join(out[: max(lines, len(base))]) + "\n").encode()


def best_s(function: Callable[[], object]) -> float:
    """Shortest of some runs: the machine is shared, and nothing makes a run shorter than it is."""
    found = []
    for _ in range(REPEATS):
        began_at = time.perf_counter()
        function()
        found.append(time.perf_counter() - began_at)
    return min(found)


def their_reading(text: str) -> None:
    """Every family of the page, which is the least that their parser does."""
    for _ in text_string_to_metric_families(text):
        pass


def first_reading(body: bytes) -> None:
    """By a reader that has never seen the page."""
    PageReader(FAMILIES).read(body)


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, nargs="+", default=[1000, 5000, 20_000, 50_000])
    print("  lines  wanted  prometheus_client      first  ratio      later  ratio     detect")
    for lines in parser.parse_args().lines:
        body = page_of(lines)
        text = body.decode()
        warm = PageReader(FAMILIES)
        wanted = len(warm.read(body))
        theirs = best_s(partial(their_reading, text))
        first = best_s(partial(first_reading, body))
        later = best_s(partial(warm.read, body))
        detection = best_s(partial(detect, body))
        print(
            f"{text.count(chr(10)):7} {wanted:7} {theirs * 1e3:15.1f} ms {first * 1e3:6.2f} ms {theirs / first:6.1f} "
            f"{later * 1e3:6.2f} ms {theirs / later:6.1f} {detection * 1e3:6.2f} ms"
        )


if __name__ == "__main__":
    main()
