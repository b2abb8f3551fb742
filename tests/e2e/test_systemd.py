"""The service manager hears when the daemon is ready, how it is, that it makes progress, and when it does not."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from npumond.sinks.systemd import Notifier
from tests.e2e.daemon import ROOT, Daemon
from tests.e2e.hosts import host
from tests.standin.build import StandIn

pytestmark = pytest.mark.slow

UNIT = ROOT / "systemd" / "npumond.service"


class Manager:
    """What systemd is to the daemon: a datagram socket that it writes states to."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.said: list[str] = []

    def hears(self, wanted: Callable[[str], bool], within_s: float) -> bool:
        """Listen until a state is heard of which ``wanted`` is true, or for so long."""
        end = time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                states = self.socket.recv(4096).decode().splitlines()
            except TimeoutError:
                return False
            self.said += states
            if any(wanted(state) for state in states):
                return True
        return False


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """A manager that every daemon started from here on inherits."""
    path = tmp_path / "notify"
    heard = Manager(path)
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    yield heard
    heard.socket.close()


def test_it_is_told_of_every_step_of_the_daemons_life(standin: StandIn, tmp_path: Path, manager: Manager) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        assert manager.hears(lambda state: state == "READY=1", 10)
        assert manager.hears(lambda state: state == "STATUS=4 of 4 NPUs answer; 0 alerts firing", 10)
        assert manager.hears(lambda state: state == "WATCHDOG=1", 3)
        os.kill(daemon.pid, signal.SIGHUP)
        assert manager.hears(lambda state: state == "RELOADING=1", 5)
        assert manager.hears(lambda state: state == "READY=1", 5)
    assert manager.hears(lambda state: state == "STOPPING=1", 2)


def test_no_sign_of_life_comes_from_a_daemon_that_makes_no_progress(
    standin: StandIn, tmp_path: Path, manager: Manager
) -> None:
    with Daemon(tmp_path, standin, host("310p_duo")) as daemon:
        assert manager.hears(lambda state: state == "WATCHDOG=1", 5)
        os.kill(daemon.pid, signal.SIGSTOP)
        while manager.hears(lambda state: True, 0.2):
            pass  # what was on its way
        silent = not manager.hears(lambda state: state == "WATCHDOG=1", 2)
        os.kill(daemon.pid, signal.SIGCONT)
        assert silent
        assert manager.hears(lambda state: state == "WATCHDOG=1", 5)


def test_a_node_without_a_driver_is_ready_too(standin: StandIn, tmp_path: Path, manager: Manager) -> None:
    absent = StandIn(tmp_path, tmp_path / "libdcmi.so", tmp_path / "libacl_rt.so", tmp_path / "hccn_tool")
    with Daemon(tmp_path, absent, host("310p_duo"), awaited="/-/healthy"):
        assert manager.hears(lambda state: state == "READY=1", 10)
        assert manager.hears(lambda state: state.startswith("STATUS=") and "libdcmi.so" in state, 15)


def test_a_manager_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    notifier.send("READY=1")
    assert notifier.failures == 1


def test_a_watchdog_meant_for_another_process_is_not_fed(tmp_path: Path) -> None:
    environ = {"NOTIFY_SOCKET": "@npumond", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    assert Notifier(environ).watchdog_s is None
    assert Notifier({**environ, "WATCHDOG_PID": str(os.getpid())}).watchdog_s == 1.0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
def test_the_unit_is_sound(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/npumond", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []
