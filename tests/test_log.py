"""The log: one line a record, whoever writes it, and changes of state only."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from npumond import log
from npumond.log import StateLog


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Leave logging as it was found: it is one for the whole process."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_elsewhere_than_on_a_terminal_a_record_is_one_json_line() -> None:
    """`auto` gives JSON with time, level, logger and fields."""
    stream = io.StringIO()
    log.configure("info", "auto", stream)
    structlog.get_logger("npumond.test").info("device lost", device_id=3, reason="-8012")
    [line] = lines(stream)
    assert line | {"timestamp": ""} == {
        "timestamp": "",
        "level": "info",
        "logger": "npumond.test",
        "event": "device lost",
        "device_id": 3,
        "reason": "-8012",
    }


def test_times_are_iso_in_utc() -> None:
    """Logs of two nodes can be laid side by side."""
    stream = io.StringIO()
    log.configure(stream=stream)
    structlog.get_logger("t").info("x")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", str(lines(stream)[0]["timestamp"]))


def test_on_a_terminal_a_record_is_text_in_colour() -> None:
    """`auto` gives people's lines where people look."""
    stream = Terminal()
    log.configure("info", "auto", stream)
    structlog.get_logger("t").info("device lost", device_id=3)
    assert "\x1b[" in stream.getvalue()
    assert "device lost" in stream.getvalue()


def test_console_without_a_terminal_has_no_colours() -> None:
    """Escape sequences in a file help nobody."""
    stream = io.StringIO()
    log.configure("info", "console", stream)
    structlog.get_logger("t").info("device lost", device_id=3)
    assert "\x1b[" not in stream.getvalue()
    assert "device_id=3" in stream.getvalue()


def test_json_is_given_on_a_terminal_when_it_is_asked_for() -> None:
    """The setting wins over what the stream is."""
    stream = Terminal()
    log.configure("info", "json", stream)
    structlog.get_logger("t").info("x")
    assert lines(stream)[0]["event"] == "x"


def test_libraries_log_through_the_same_pipeline() -> None:
    """What aiohttp says by `logging` looks like what we say."""
    stream = io.StringIO()
    log.configure("info", "json", stream)
    logging.getLogger("aiohttp.server").warning("bad request from %s", "10.0.0.1", extra={"peer": "10.0.0.1"})
    [line] = lines(stream)
    assert (line["logger"], line["level"], line["event"]) == ("aiohttp.server", "warning", "bad request from 10.0.0.1")
    assert line["peer"] == "10.0.0.1"


@pytest.mark.parametrize("name", ["structlog", "logging"])
def test_an_exception_is_one_field(name: str) -> None:
    """A traceback does not break the rule of one line a record."""
    stream = io.StringIO()
    log.configure("info", "json", stream)
    logger = structlog.get_logger("t") if name == "structlog" else logging.getLogger("t")
    try:
        raise OSError("no such device")
    except OSError:
        logger.exception("open failed")
    [line] = lines(stream)
    assert str(line["exception"]).endswith("OSError: no such device")
    assert line["event"] == "open failed"


def test_a_console_traceback_shows_no_local_variables() -> None:
    """Locals may hold passwords."""
    stream = io.StringIO()
    log.configure("info", "console", stream)
    password = "".join(["hun", "ter2"])
    try:
        raise OSError(len(password))
    except OSError:
        structlog.get_logger("t").exception("open failed")
    assert "OSError: 7" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()


@pytest.mark.parametrize(("level", "heard"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_what_is_below_the_level_is_not_written(level: log.Level, heard: int) -> None:
    """For our loggers and for those of libraries."""
    stream = io.StringIO()
    log.configure(level, "json", stream)
    for logger in (structlog.get_logger("ours"), logging.getLogger("theirs")):
        for say in (logger.debug, logger.info, logger.warning, logger.error):
            say("x")
    assert len(lines(stream)) == 2 * heard


def test_a_logger_that_was_used_before_follows_a_new_configuration() -> None:
    """A reload may change level and format."""
    logger = structlog.get_logger("t")
    log.configure("error", "console", io.StringIO())
    logger.info("unheard")
    stream = io.StringIO()
    log.configure("info", "json", stream)
    logger.info("heard")
    assert [line["event"] for line in lines(stream)] == ["heard"]


def test_odd_text_and_objects_do_not_break_a_line() -> None:
    """Vendor libraries print what they like."""
    stream = io.StringIO()
    log.configure("info", "json", stream)
    structlog.get_logger("t").info("printed", text="a\nb\udcff\x00", thing=object)
    assert lines(stream)[0]["text"] == "a\nb\udcff\x00"


class Recorder:
    """Keeps what was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def log(self, level: int, event: str | None = None, *args: Any, **fields: Any) -> Any:
        self.lines.append((str(event), fields))


class Scene:
    """A state log with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.heard = Recorder()
        self.log = StateLog(self.heard, lambda: self.now, burst=2, refill_s=60)

    def play(self, states: str) -> list[str]:
        """One state of one key a second; gives what was written, with what was suppressed."""
        for state in states:
            self.log.say("device 3", state, state)
            self.now += 1
        return [f"{event}{fields.get('suppressed', '')}" for event, fields in self.heard.lines]


def test_a_state_that_lasts_is_said_once() -> None:
    """Rounds go on, lines do not."""
    assert Scene().play("aaaaaa") == ["a"]


def test_a_change_is_said_at_once() -> None:
    """A fault and its end are two lines."""
    assert Scene().play("aaabbb") == ["a", "b"]


def test_a_flapping_state_is_silenced() -> None:
    """Two lines at once are allowed here, no more."""
    assert Scene().play("abababab") == ["a", "b"]


def test_what_was_silenced_is_counted_when_lines_are_allowed_again() -> None:
    """Six changes unseen, and then the state as it is, though it is the one said last."""
    scene = Scene()
    scene.play("abababab")
    scene.now += 60
    assert scene.play("bb") == ["a", "b", "b6"]


def test_a_change_that_was_silenced_is_said_later() -> None:
    """Nobody is left with a wrong last line."""
    scene = Scene()
    scene.play("abc")
    scene.now += 60
    assert scene.play("cc") == ["a", "b", "c"]


def test_keys_do_not_silence_each_other() -> None:
    """One flapping device hides no other."""
    scene = Scene()
    scene.play("abababab")
    assert scene.log.say("device 4", "lost", "device lost")


def test_a_forgotten_key_is_new() -> None:
    """And its memory is given back."""
    scene = Scene()
    scene.play("a")
    scene.log.forget("device 3")
    scene.log.forget("never said")
    assert scene.play("a") == ["a", "a"]


def test_state_changes_go_through_a_real_logger() -> None:
    """Level and fields arrive."""
    stream = io.StringIO()
    log.configure("info", "json", stream)
    said = StateLog(structlog.get_logger("npumond.sampler"), lambda: 0.0)
    said.say(3, "lost", "device lost", level=logging.WARNING, device_id=3)
    [line] = lines(stream)
    assert (line["event"], line["level"], line["device_id"]) == ("device lost", "warning", 3)
