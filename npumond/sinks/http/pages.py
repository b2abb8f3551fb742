"""Ready bytes of /metrics: a snapshot is rendered and compressed at most once a format, when first asked for."""

from __future__ import annotations

import gzip
from types import MappingProxyType

from npumond.exposition import Renderer
from npumond.latest import Latest
from npumond.model import Snapshot

_GZIP_LEVEL = 1
"""Level 9 takes ten times as long for a page that is a third smaller."""

NOTHING_YET = Snapshot(at=0.0, wall_at=0.0, families=MappingProxyType({}))
"""Stands for the time before the first round: a page without series is true, an error would not be."""


class Pages:
    """The pages of the newest snapshot."""

    def __init__(self, snapshots: Latest[Snapshot], renderer: Renderer) -> None:
        self._snapshots = snapshots
        self._renderer = renderer
        self._version = -1
        self._ready: dict[tuple[bool, bool], bytes] = {}

    def page(self, openmetrics: bool, compressed: bool) -> bytes:
        """The newest snapshot in the format asked for."""
        if self._version != self._snapshots.version:
            self._version = self._snapshots.version
            self._ready.clear()
        key = (openmetrics, compressed)
        if key not in self._ready:
            self._ready[key] = self._make(openmetrics, compressed)
        return self._ready[key]

    def _make(self, openmetrics: bool, compressed: bool) -> bytes:
        if compressed:
            return gzip.compress(self.page(openmetrics, compressed=False), _GZIP_LEVEL, mtime=0)
        return self._renderer.render(self._snapshots.get() or NOTHING_YET, openmetrics)
