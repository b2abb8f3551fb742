"""A few hundred foreign inputs for every parser at each run; `python -m tests.fuzz` has a hundred thousand."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.targets import TARGETS, inputs

COUNT = int(os.environ.get("NPUMOND_FUZZ", "300"))


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_is_too_odd(name: str) -> None:
    for data in inputs(name, COUNT, seed=1):
        TARGETS[name](data)
