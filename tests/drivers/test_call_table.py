"""The call table keeps its promises to the catalogue, to the lanes, and to the machine: it only reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import npumond.drivers
from npumond.catalog import reading_rows
from npumond.drivers import hccn
from npumond.drivers.dcmi.rows import Row
from npumond.drivers.dcmi.table import BY_NAME, ROWS, rows_of
from npumond.model import GROUPS, Device, Generation, Lane, LogicId, PhyId

GIVES: dict[str, frozenset[str]] = {row.name: row.gives for row in ROWS} | {
    topic.name: topic.fields for topic in hccn.TOPICS
}
LANES: dict[str, Lane] = {row.name: row.lane for row in ROWS} | {topic.name: "tool" for topic in hccn.TOPICS}
UNLESS: dict[str, str] = {row.name: row.unless for row in ROWS} | {topic.name: topic.unless for topic in hccn.TOPICS}

FORBIDDEN = re.compile(
    r"(^|_)(set|reset|rescan|clear|start|stop|create|destroy|upgrade|prbs|ping|hccsping|ubping|collect|exec|subscribe|revoke)(_|$)"
)
"""Words in names of functions that change something, disturb a link, or cannot be undone."""


def device(generation: Generation, chip_id: int = 0, *, first: bool = True) -> Device:
    """A chip of this generation."""
    return Device(
        phy_id=PhyId(0),
        logic_id=LogicId(0),
        card_id=0,
        chip_id=chip_id,
        chip="",
        generation=generation,
        first_of_card=first,
        first_of_node=first,
    )


def names(generation: Generation, chip_id: int = 0, *, first: bool = True, v2: bool = False) -> set[str]:
    """Rows that make sense for such a chip."""
    return {row.name for row in rows_of(device(generation, chip_id, first=first), v2=v2)}


def test_names_are_unique() -> None:
    """A name finds one row."""
    assert len(GIVES) == len(ROWS) + len(hccn.TOPICS)


def test_every_source_in_the_catalogue_names_a_row_and_a_field_of_it() -> None:
    """A metric that nothing fills would be absent for ever, and nobody would know why."""
    wanted = {(row.call, row.field) for _, _, row in reading_rows() if row.call.startswith(("dcmi", "hccn"))}

    assert {(call, field) for call, field in wanted if field not in GIVES.get(call, ())} == set()


def test_every_planned_row_is_wanted_by_the_catalogue() -> None:
    """A call that fills no metric is load on the chip for nothing."""
    wanted = {row.call for _, _, row in reading_rows()}

    assert {name for name in GIVES if name not in wanted and (name not in BY_NAME or BY_NAME[name].planned)} == set()


def test_every_row_is_asked_as_often_as_its_metrics_are_promised() -> None:
    """The lane of a row is the group of the families that it fills; the tool is as slow as slow."""
    wrong = [
        (family.name, source.call)
        for family, _, source in reading_rows()
        if source.call in LANES and family.group != ("slow" if LANES[source.call] == "tool" else LANES[source.call])
    ]

    assert wrong == []
    assert set(LANES.values()) <= {*GROUPS, "tool"}


def test_a_stand_in_stands_in_for_a_row_that_comes_before_it() -> None:
    """The worker must know the first answer when it decides about the second."""
    order = list(GIVES)

    assert [name for name, other in UNLESS.items() if other and order.index(other) >= order.index(name)] == []
    assert [
        name for name, other in UNLESS.items() if other and LANES[name] != LANES[other] and LANES[name] != "tool"
    ] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_row_changes_anything(row: Row) -> None:
    """A monitor reads."""
    for symbol in (row.v1, row.v2):
        assert symbol is None or not FORBIDDEN.search(symbol)
        assert symbol is None or "_get_" in symbol


def test_no_forbidden_function_is_named_in_the_driver() -> None:
    """Not in the table, and not in the code beside it either."""
    sources = Path(npumond.drivers.__path__[0]).rglob("*.py")
    symbols = {name for path in sources for name in re.findall(r"\bdcmi(?:v2)?_[a-z0-9_]+\b", path.read_text())}

    assert len(symbols) > 80
    # A subscription changes nothing on the chip; it belongs to the listener's own process and is no row of the table.
    subscriptions = {"dcmi_subscribe_fault_event", "dcmiv2_subscribe_fault_event"}
    assert {name for name in symbols if FORBIDDEN.search(name)} == subscriptions


def test_each_api_has_its_own_functions() -> None:
    """A v1 function on a 950, or the other way round, answers nothing."""
    assert all(row.v1 is None or row.v1.startswith("dcmi_") for row in ROWS)
    assert all(row.v2 is None or row.v2.startswith("dcmiv2_") for row in ROWS)
    assert not {name for name in names("910B") if name.startswith("dcmiv2_")}


def test_only_the_first_die_of_an_a3_card_is_asked_for_power() -> None:
    """The second answers with a number that means nothing."""
    assert "dcmi_get_device_power_info" in names("A3", 0)
    assert "dcmi_get_device_power_info" not in names("A3", 1)
    assert "dcmi_get_device_power_info" in names("310P", 1)


def test_card_and_node_calls_are_made_through_one_chip() -> None:
    """Once a card, once a node."""
    per_card = {"dcmi_mcu_get_power_info", "dcmi_get_card_elabel_v2", "dcmi_get_driver_health"}

    assert per_card <= names("310P")
    assert per_card.isdisjoint(names("310P", 1, first=False))


@pytest.mark.parametrize(
    ("call", "on", "off"),
    [
        ("dcmi_mcu_get_power_info", ("310", "310P"), ("310B", "910", "910B", "A3")),
        ("dcmi_get_hccs_link_bandwidth_info", ("910B", "A3", "unknown"), ("310P", "910")),
        ("dcmi_get_device_info[56,0]", ("A3", "950"), ("910B", "310P")),
    ],
)
def test_calls_of_one_product_are_not_made_on_another(
    call: str, on: tuple[Generation, ...], off: tuple[Generation, ...]
) -> None:
    """What a generation certainly lacks is not asked for."""
    assert [call in names(generation) for generation in on] == [True] * len(on)
    assert [call in names(generation) for generation in off] == [False] * len(off)
