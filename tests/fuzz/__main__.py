"""A hundred thousand inputs for everything that parses foreign bytes.

    python -m tests.fuzz [--inputs 100000] [--seed 2]

Exit status 1 when one of them raised what nobody expects.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.targets import TARGETS, inputs


def main() -> int:
    """Run every target; the inputs are shared out evenly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    crashes = 0
    print(f"{'target':<15}{'inputs':>9}{'seconds':>9}{'crashes':>9}")
    for name, target in TARGETS.items():
        count = -(-options.inputs // len(TARGETS))
        began_at, failed = time.monotonic(), 0
        for data in inputs(name, count, options.seed):
            try:
                target(data)
            except Exception as error:  # noqa: BLE001 - any error is what is looked for
                failed += 1
                print(f"{name}: {type(error).__name__}: {error}: {data!r}", file=sys.stderr)
        crashes += failed
        print(f"{name:<15}{count:>9}{time.monotonic() - began_at:>9.1f}{failed:>9}", flush=True)
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main())
