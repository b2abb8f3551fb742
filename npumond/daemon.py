"""The daemon: where all objects meet, and their life from start to end.

`Daemon` passes each object what it needs; nothing is looked up anywhere else. `Daemon.run` runs them in one task group:
an error that nobody expects ends all of them, and the service manager starts the daemon again.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import npumond
from npumond import api
from npumond.config import describe
from npumond.config.settings import Config
from npumond.errors import ConfigError
from npumond.inference import Inference
from npumond.judge import Judge
from npumond.latest import Latest
from npumond.log import StateLog, configure, logger
from npumond.model import Snapshot
from npumond.rules import Transition
from npumond.ruleset import rules_of
from npumond.sampler import Sampler
from npumond.sinks.http.server import HttpServer
from npumond.sinks.systemd import Notifier, ServiceManager
from npumond.sources.npu import NpuSettings, NpuSource
from npumond.sources.process import ProcessSource
from npumond.sources.roundtrip import RoundtripSource
from npumond.sources.self import SelfSource
from npumond.sources.source import Source
from npumond.statefile import StateFile
from npumond.worker.client import worker_options
from npumond.worker.prober import roundtrip
from npumond.worker.subscriber import Subscriber
from npumond.worker.supervisor import Supervisor

log = logger()

PROBE_COUNT = 10
PROBE_DEADLINE_S = 30.0
"""The first context on a chip takes seconds; one that takes longer than this is hung."""

AT_NEXT_START = ("node", "server", "driver", "inference")
"""Sections whose changes a reload tells of and leaves."""

STOP_DEADLINE_S = 2.5
"""For the HTTP server after SIGTERM. A worker that cannot be killed takes 2 s before that; 5 s are promised in all."""


class Daemon:
    """Everything that runs, built once."""

    def __init__(
        self,
        config: Config,
        reread: Callable[[], Config],
        *,
        path: Path | None,
        scenario: str,
        environ: Mapping[str, str],
    ) -> None:
        """``reread`` gives the configuration as it is now, for a reload; ``path`` is where it stands, for people."""
        self._config = config
        self._reread = reread
        self._path = path
        self._environ = environ
        self._stopping = asyncio.Event()
        self._reload_wanted = asyncio.Event()
        self._reload_ok = True
        self._reload_errors: tuple[str, ...] = ()
        self._configured_at = time.time()
        self.snapshots: Latest[Snapshot] = Latest()
        self.judge = Judge(rules_of(config), _tell_transition)
        self.memory = self._memory()
        self.inference = Inference(config, self._processes)
        self.supervisor = Supervisor(
            worker_options(config.driver, scenario), environ, _tell_worker, config.driver.call_timeout
        )
        self.npu = NpuSource(self.supervisor, NpuSettings.of(config), time.monotonic)
        self.subscriber = Subscriber(
            worker_options(config.driver, scenario),
            environ,
            wanted=config.driver.fault_events,
            opened=self.supervisor.opened,
            on_fault=self.npu.heard,
            on_gap=self.npu.faults.gap,
            on_change=_tell_worker,
        )
        normal_s = config.sampling.normal
        sources: tuple[Source, ...] = (
            self.npu,
            *self._roundtrip_source(),
            *self.inference.sources,
            ProcessSource(normal_s, self._worker_pid, time.monotonic),
            self._self_source(normal_s),
        )
        self.sampler = Sampler(sources, self.snapshots, self.judge, time.monotonic, time.time)
        self.manager = ServiceManager(Notifier(environ), self.snapshots, self._status_line, NpuSource.name)
        self.http = HttpServer(
            config.server.listen,
            snapshots=self.snapshots,
            status=self.status,
            alerts=self.judge.alerts,
            devices=lambda: api.devices_json(self.snapshots.get()),
            ready=self.ready,
            reload=self.reload if config.server.reload_endpoint else None,
        )

    def _roundtrip_source(self) -> Iterator[RoundtripSource]:
        probe, library = self._config.driver.latency_probe, self._config.driver.acl_library
        if probe.enabled:
            yield RoundtripSource(
                probe.interval,
                lambda: self.supervisor.facts,
                partial(roundtrip, library=library, count=PROBE_COUNT, deadline_s=PROBE_DEADLINE_S),
                time.monotonic,
            )

    def _memory(self) -> StateFile | None:
        """Beside the local store, where that place exists; what is simulated is not remembered."""
        if self._config.driver.backend == "simulated" or self._config.history is None:
            return None
        place = self._environ.get("STATE_DIRECTORY", "").split(":")[0]
        directory = Path(place) if place else Path(self._config.history.path).parent
        return StateFile(directory / "alerts.json") if directory.is_dir() else None

    def _remember(self) -> None:
        saved = None if self.memory is None else self.memory.load()
        if saved is not None:
            self.judge.restore(saved, time.monotonic(), time.time())

    def _processes(self) -> dict[int, frozenset[int]]:
        """Process ids on each chip, by device id."""
        snapshot = self.snapshots.get()
        found: dict[int, frozenset[int]] = {}
        for sample in () if snapshot is None else snapshot.samples("npu_process_hbm_used_bytes"):
            device_id = int(sample.labels[0])
            found[device_id] = found.get(device_id, frozenset()) | {int(sample.labels[1])}
        return found

    def _self_source(self, interval_s: float) -> SelfSource:
        return SelfSource(
            interval_s,
            time.monotonic,
            time.time,
            sources=lambda: self.sampler.states,
            counters={
                "npumond_driver_calls_total": lambda: self.npu.calls.items(),
                "npumond_worker_restarts_total": lambda: (((why,), n) for why, n in self.supervisor.restarts.items()),
                "npumond_missed_slots_total": lambda: self.sampler.missed.items(),
                **self.inference.counters(),
            },
            gauges={
                "npumond_workers_left_behind": lambda: float(self.supervisor.left_behind),
                "npumond_config_last_reload_successful": lambda: float(self._reload_ok),
                "npumond_config_last_reload_success_timestamp_seconds": lambda: round(self._configured_at, 3),
                "npumond_event_loop_lag_seconds": lambda: self.sampler.lag_s,
            },
        )

    async def run(self) -> None:
        """Serve until `stop`. Raises `ListenError` when an address cannot be had, before anything else is started."""
        await self.http.start()
        log.info("listening", addresses=[str(address) for address in self.http.bound], node=self._config.node)
        self._listen_to_signals()
        try:
            self._remember()  # before anything else can fail: what is not remembered is not saved in the end either
            await self.inference.start()
            async with asyncio.TaskGroup() as tasks:
                running = [
                    tasks.create_task(self.supervisor.run(), name="worker"),
                    tasks.create_task(self.subscriber.run(), name="events"),
                    *(tasks.create_task(run(), name=name) for name, run in self.inference.runs()),
                    tasks.create_task(self.sampler.run(), name="sampler"),
                    tasks.create_task(self._reload_when_told(), name="reload"),
                    tasks.create_task(self._tell_changes(), name="tell"),
                    tasks.create_task(self.manager.run(), name="service-manager"),
                    *self._memorising(tasks),
                ]
                await self._stopping.wait()
                self.manager.stopping()
                for task in running:
                    task.cancel()
        finally:
            try:
                async with asyncio.timeout(STOP_DEADLINE_S):
                    await self.inference.close()
                    await self.http.stop()
            except TimeoutError:
                log.warning("connections_cut", after_s=STOP_DEADLINE_S)
            if self.memory is not None:
                self.memory.save(self.judge.memory)
            log.info("stopped")

    def _memorising(self, tasks: asyncio.TaskGroup) -> Iterator[asyncio.Task[None]]:
        if self.memory is not None:
            following = self.memory.follow(self.judge.boards, lambda: self.judge.memory)
            yield tasks.create_task(following, name="alert-memory")

    def stop(self) -> None:
        """End `run`; may be called more than once."""
        self._stopping.set()

    async def _tell_changes(self) -> None:
        """Log when a device or a source fails or recovers, and not each time it is looked at."""
        news = News()
        async for snapshot in self.snapshots:
            for device in snapshot.devices:
                news.tell("device", device.up, device.reason, device_id=device.device.phy_id)
            for source in snapshot.sources:
                news.tell("source", source.success, source.reason, source=source.source, group=source.group)

    # What the API shows.

    def ready(self) -> tuple[bool, str]:
        """Whether a first complete round was made and at least one chip is fresh; if not, why."""
        snapshot = self.snapshots.get()
        if snapshot is None or not snapshot.devices:
            return False, self.supervisor.trouble or "no complete round yet"
        if not any(state.up for state in snapshot.devices):
            return False, "no chip answers: " + snapshot.devices[0].reason
        return True, ""

    def status(self) -> dict[str, object]:
        """``/api/v1/status``."""
        return {
            "node": self._config.node,
            "version": npumond.__version__,
            "ready": self.ready()[0],
            "driver": api.driver_json(self.supervisor.facts, self.supervisor.trouble, self.supervisor.searched),
            "sources": api.sources_json(self.sampler.states, time.monotonic()),
            "faults": self.npu.faults.json(time.monotonic(), time.time()),
            "events": {
                "state": self.subscriber.state,
                "reason": self.subscriber.reason,
                "dropped": self.subscriber.missed.dropped,
                "rejected": self.subscriber.missed.rejected,
            },
            "targets": self.inference.json(self._latency_threshold_s()),
            "config": {
                "path": str(self._path) if self._path is not None else None,
                "last_reload_ok": self._reload_ok,
                "errors": list(self._reload_errors),
                "settings": describe(self._config),
            },
        }

    def _latency_threshold_s(self) -> float | None:
        """Of the rule on the P99 of whole requests; None where it is switched off."""
        return next((rule.threshold for rule in self.judge.rules if rule.name == "InferenceLatencyHigh"), None)

    def _status_line(self) -> str:
        """One line for ``systemctl status``."""
        snapshot = self.snapshots.get()
        devices = () if snapshot is None else snapshot.devices
        firing = len(self.judge.alerts("firing"))
        chips = f"{sum(device.up for device in devices)} of {self.supervisor.expected} NPUs answer"
        return f"{self.supervisor.trouble or chips}; {firing} alerts firing"

    def _worker_pid(self) -> int | None:
        return self.supervisor.worker.pid if self.supervisor.worker is not None else None

    # Signals and the configuration.

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_wanted.set)

    async def _reload_when_told(self) -> None:
        while True:
            await self._reload_wanted.wait()
            self._reload_wanted.clear()
            self.manager.reloading()
            await self.reload()
            self.manager.reloaded()

    async def reload(self) -> tuple[bool, str]:
        """Read the configuration again; a bad one leaves the old one in force. Gives success, or why not."""
        try:
            config = self._reread()
            rules = rules_of(config)
        except ConfigError as error:
            self._reload_ok, self._reload_errors = False, error.mistakes
            log.error("reload_failed", mistakes=list(error.mistakes))
            return False, str(error)
        waiting = [key for key in AT_NEXT_START if getattr(config, key) != getattr(self._config, key)]
        configure(config.log.level, config.log.format)
        self.judge.rules = rules
        self.npu.configure(NpuSettings.of(config))
        self._config = config
        self._reload_ok, self._reload_errors, self._configured_at = True, (), time.time()
        log.info("reloaded", path=str(self._path), at_next_start=waiting)
        return True, ""


class News:
    """Logs what failed and what recovered; that something was well from the start is no news."""

    def __init__(self) -> None:
        self._told = StateLog(log, time.monotonic)
        self._failed: set[tuple[object, ...]] = set()

    def tell(self, kind: str, well: bool, reason: str, **names: object) -> None:
        """The state of one thing, which its names tell apart from others of its kind."""
        key = (kind, *names.values())
        if not well:
            self._failed.add(key)
            self._told.say(key, well, f"{kind}_failed", level=logging.WARNING, reason=reason, **names)
        elif key in self._failed:
            self._told.say(key, well, f"{kind}_recovered", level=logging.INFO, **names)


def _tell_transition(transition: Transition) -> None:
    alert = transition.alert
    # A value that swings about its threshold is pending every few seconds: for people only what fired is news.
    told = {"firing": log.warning, "resolved": log.info}
    say = told.get(transition.after, log.debug)
    say(
        f"alert_{transition.after}",
        rule=alert.rule, severity=alert.severity, labels=alert.labels, value=alert.value, summary=alert.summary,
    )  # fmt: skip


def _tell_worker(event: str, fields: dict[str, object]) -> None:
    say = log.info if event in ("driver_open", "worker_output", "events_subscribed") else log.warning
    say(event, **fields)
