"""How long the simulated driver takes for a call: ``python -m tests.bench.simulated``.

A call is asked again within the same second; the last line has the fast lane with a new second, and so a new state of
the chip, in each round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from time import perf_counter

from npumond.drivers.simulated.driver import SimulatedDriver

ROUNDS = 2000


def main() -> None:
    """Print microseconds for each call, and the mean of the fast lane over a round."""
    seconds = count()
    now = [0.0]
    driver = SimulatedDriver("mixed", clock=lambda: now[0])
    device = driver.open().devices[2]
    for call in driver.calls(device):
        now[0] = next(seconds)
        print(f"{call.lane:7} {call.name:45} {_microseconds(partial(driver.call, device, call.name)):6.2f}")
    fast = [call.name for call in driver.calls(device) if call.lane == "fast"]

    def one_round() -> None:
        now[0] = next(seconds)
        for name in fast:
            driver.call(device, name)

    print(f"fast lane, each second anew, mean of {len(fast)} calls: {_microseconds(one_round) / len(fast):.2f}")


def _microseconds(work: Callable[[], object]) -> float:
    begun = perf_counter()
    for _ in range(ROUNDS):
        work()
    return (perf_counter() - begun) / ROUNDS * 1e6


if __name__ == "__main__":
    main()
