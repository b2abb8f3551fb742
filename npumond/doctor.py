"""`npumond doctor`: what was found on this machine, and why something is missing.

Each check is one function that looks at one thing and says what it saw. None of them changes anything; the driver is
looked at through a worker process, as the daemon does.
"""

from __future__ import annotations

import asyncio
import errno
import grp
import os
import shutil
import socket
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from npumond.config import Listen
from npumond.config.settings import Config
from npumond.errors import DriverError, WorkerError
from npumond.model import DriverFacts
from npumond.worker.client import WorkerProcess
from npumond.worker.process import INIT_DEADLINE_S
from npumond.worker.protocol import WorkerOptions

Verdict = Literal["ok", "missing", "problem", "note"]
"""``missing`` and ``problem`` make the exit status 1; ``note`` is only told."""

DRIVER_GROUP = "HwHiAiUser"
HCCN_TOOL = Path("/usr/local/Ascend/driver/tools/hccn_tool")
KUBELET_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
INSTALL_INFO = Path("/etc/ascend_install.info")


class Finding(Struct, frozen=True):
    """One thing that was looked at."""

    what: str
    verdict: Verdict
    text: str
    details: tuple[str, ...] = ()


async def examine(config: Config, options: WorkerOptions) -> list[Finding]:
    """Every check, in the order in which a person would ask."""
    return [
        *await _driver(options),
        _device_nodes(Path("/dev")),
        _driver_group(),
        _install_info(),
        _hccn_tool(config.driver.hccn_tool),
        *(_listen(address) for address in config.server.listen),
        _kubelet(),
    ]


async def _driver(options: WorkerOptions) -> list[Finding]:
    output: list[str] = []
    worker = await WorkerProcess.start(options, os.environ, output.append)
    try:
        return [_driver_found(await worker.facts(INIT_DEADLINE_S)), *_output(output)]
    except DriverError as error:
        return [Finding("driver", "missing", str(error), error.searched), *_output(output)]
    except WorkerError as error:
        return [Finding("driver", "problem", str(error), tuple(output))]
    finally:
        await worker.stop()


def _driver_found(facts: DriverFacts) -> Finding:
    chips = tuple(
        f"device {device.phy_id}: {device.chip or 'chip without a name'} "
        f"(card {device.card_id}, chip {device.chip_id}, {device.pci_address or 'no PCI address'})"
        for device in facts.devices
    )
    failed = tuple(f"{chip.position}: {chip.reason}" for chip in facts.failed)
    versions = f"driver {facts.driver_version or 'unknown'}, DCMI {facts.dcmi_version or 'unknown'}"
    text = (
        f"{facts.library} ({facts.backend}, API {facts.api}, {versions}): {len(chips)} of {facts.expected} chips answer"
    )
    return Finding("driver", "problem" if failed or not chips else "ok", text, (*chips, *failed, *facts.searched))


def _output(lines: list[str]) -> Iterable[Finding]:
    if lines:
        yield Finding("driver output", "note", "the driver's libraries printed", tuple(lines[:20]))


def _device_nodes(dev: Path) -> Finding:
    nodes = sorted((*dev.glob("davinci*"), *dev.glob("devmm_svm"), *dev.glob("hisi_hdc")))
    if not nodes:
        text = f"{dev} has no davinci*, devmm_svm or hisi_hdc: no driver is loaded, or the container was not given them"
        return Finding("device nodes", "missing", text)
    closed = [str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        return Finding("device nodes", "problem", f"no permission for {len(closed)} of {len(nodes)}", tuple(closed))
    return Finding("device nodes", "ok", f"{len(nodes)} found, all may be opened", tuple(str(node) for node in nodes))


def _driver_group() -> Finding:
    try:
        group = grp.getgrnam(DRIVER_GROUP)
    except KeyError:
        return Finding("group", "note", f"there is no group {DRIVER_GROUP}; a driver installation makes it")
    if os.geteuid() == 0 or group.gr_gid in (os.getegid(), *os.getgroups()):
        return Finding("group", "ok", f"this process is root or in {DRIVER_GROUP}")
    return Finding(
        "group", "problem", f"this process is neither root nor in {DRIVER_GROUP}, which owns the device nodes"
    )


def _install_info() -> Finding:
    try:
        text = INSTALL_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return Finding("installation", "note", f"{INSTALL_INFO}: {error.strerror}")
    return Finding("installation", "ok", str(INSTALL_INFO), tuple(text.split()))


def _hccn_tool(configured: str | None) -> Finding:
    path = Path(configured) if configured is not None else HCCN_TOOL
    if shutil.which(path) is None:
        return Finding(
            "hccn_tool", "note", f"{path} is not there or may not be run: no link state, speed or optical readings"
        )
    return Finding("hccn_tool", "ok", str(path))


def _listen(address: Listen) -> Finding:
    what = f"listen {address}"
    if address.path:
        return _listen_unix(what, Path(address.path))
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            text = "in use: a running npumond, or another program (Prometheus uses 9090 too)" if taken else str(error)
            return Finding(what, "problem", text)
    return Finding(what, "ok", "free")


def _listen_unix(what: str, path: Path) -> Finding:
    if not path.parent.is_dir():
        return Finding(what, "problem", f"the folder {path.parent} does not exist")
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        return Finding(what, "problem", "something that is not a socket is there")
    return Finding(what, "ok", "in use" if path.exists() else "free")


def _kubelet() -> Finding:
    if not KUBELET_SOCKET.exists():
        return Finding("kubelet", "note", f"{KUBELET_SOCKET} is not there: not a Kubernetes node, or it is not mounted")
    if not os.access(KUBELET_SOCKET, os.R_OK | os.W_OK):
        return Finding("kubelet", "problem", f"no permission for {KUBELET_SOCKET}")
    return Finding("kubelet", "ok", str(KUBELET_SOCKET))


def run(config: Config, options: WorkerOptions) -> list[Finding]:
    """`examine`, from ordinary code."""
    return asyncio.run(examine(config, options))
