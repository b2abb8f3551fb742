"""What of inference the configuration wants, put together: targets, pushed latencies, probes.

Each part, with what it imports, is loaded only where it is asked for: a node that only watches its chips is to stay
small.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from npumond.config.settings import Config
from npumond.sources.self import Counts
from npumond.sources.source import Source

if TYPE_CHECKING:
    from npumond.sources.inference.latency_samples import Telling
    from npumond.sources.inference.measured import Requests
    from npumond.sources.inference.probes.source import ProbeSource
    from npumond.sources.inference.pushed.mqtt import MqttInput
    from npumond.sources.inference.pushed.statsd import StatsdSource
    from npumond.sources.inference.targets.source import Processes, TargetSource


class Inference:
    """The sources of inference, and their life."""

    def __init__(self, config: Config, processes: Processes) -> None:
        """``processes`` gives the process ids on each chip."""
        self._config = config
        self._books: dict[str, Requests] = {}
        self._targets = self._build_targets(processes) if config.inference.targets else None
        self._statsd = self._build_statsd() if config.inference.statsd.listen is not None else None
        self._mqtt = self._build_mqtt() if config.inference.mqtt is not None else None
        self._probes = self._build_probes() if config.inference.probes else None

    @property
    def sources(self) -> tuple[Source, ...]:
        """What the sampler asks."""
        return tuple(source for source in (self._targets, self._statsd, self._mqtt, self._probes) if source is not None)

    async def start(self) -> None:
        """Listen where something is pushed. Raises ListenError when the address cannot be had."""
        if self._statsd is not None:
            await self._statsd.start()

    def runs(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Names and tasks that are to run until the end."""
        if self._mqtt is not None:
            yield "mqtt-input", self._mqtt.run

    async def close(self) -> None:
        """Give back sockets and connections."""
        if self._statsd is not None:
            await self._statsd.close()
        for reader in (self._targets, self._probes):
            if reader is not None:
                await reader.close()

    def json(self, threshold_s: float | None) -> list[dict[str, object]]:
        """The targets' part of ``/api/v1/status``; ``threshold_s`` is that of the rule on the P99."""
        targets = [] if self._targets is None else self._targets.json(threshold_s)
        return targets if self._probes is None else [*targets, *self._probes.json()]

    def counters(self) -> Mapping[str, Callable[[], Counts]]:
        """The books of what was pushed, by family."""
        books: dict[str, Callable[[], Counts]] = {}
        if self._books:
            books["npumond_inference_models_overflowed_total"] = lambda: (
                ((source,), float(book.overflowed)) for source, book in self._books.items()
            )
        if (statsd := self._statsd) is not None:
            books["npumond_statsd_lines_total"] = lambda: _by_outcome(statsd.lines)
            books["npumond_statsd_lost_packets_total"] = lambda: _known(statsd.kernel_drops)
        if (mqtt := self._mqtt) is not None:
            books["npumond_mqtt_input_total"] = lambda: _by_outcome(mqtt.messages)
        return books

    def _build_targets(self, processes: Processes) -> TargetSource:
        from npumond.sources.inference.targets.own_kinds import kinds_of
        from npumond.sources.inference.targets.source import TargetSource

        inference = self._config.inference
        return TargetSource(kinds_of(inference), inference.window, self._telling(), processes, time.monotonic)

    def _build_statsd(self) -> StatsdSource:
        from npumond.sources.inference.pushed.statsd import StatsdSource

        address = self._config.inference.statsd.listen
        assert address is not None  # noqa: S101 - asked for only then
        return StatsdSource(address, self._book("statsd"), self._config.sampling.fast, time.monotonic)

    def _build_mqtt(self) -> MqttInput:
        from npumond.sources.inference.pushed.mqtt import MqttInput

        wanted = self._config.inference.mqtt
        assert wanted is not None  # noqa: S101 - asked for only then
        identifier = f"npumond-{self._config.node}-{os.getpid()}"
        return MqttInput(wanted, identifier, self._book("mqtt"), self._config.sampling.fast, time.monotonic)

    def _build_probes(self) -> ProbeSource:
        from npumond.sources.inference.probes.source import ProbeSource

        probes, interval_s = self._config.inference.probes, self._config.sampling.fast
        return ProbeSource(probes, self._book("probe"), interval_s, time.monotonic)

    def _book(self, source: str) -> Requests:
        from npumond.sources.inference.measured import Requests

        book = Requests(source, self._config.inference.window, self._telling(), time.monotonic)
        self._books[source] = book
        return book

    def _telling(self) -> Telling:
        from npumond.sources.inference.latency_samples import Telling

        return Telling(self._config.inference.min_requests, self._config.metrics.aliases)


def _by_outcome(book: Any) -> Counts:
    """A record of counts, each field an outcome. Any: of whichever struct."""
    return (((name,), float(getattr(book, name))) for name in book.__struct_fields__)


def _known(count: float | None) -> Counts:
    return () if count is None else (((), float(count)),)
