"""The source of what the operating system says of the daemon and of its worker.

The names are those that prometheus_client gives every exporter. Why not prometheus_client itself, which is the oracle
in the tests: importing it costs 4 MiB in a process that is to stay under 50.
"""

from __future__ import annotations

import gc
import platform
import resource
from collections.abc import Callable, Iterator

import psutil

from npumond import __version__
from npumond.model import Sample
from npumond.sources.source import Sampled, lasting_batch


class ProcessSource:
    """CPU, memory, descriptors and garbage collection of the daemon; CPU and memory of the worker."""

    name = "process"

    def __init__(self, interval_s: float, worker_pid: Callable[[], int | None], clock: Callable[[], float]) -> None:
        self._interval_s = interval_s
        self._worker_pid = worker_pid
        self._clock = clock
        self._daemon = psutil.Process()
        self._ended_worker_cpu_s = 0.0
        self._worker_cpu: tuple[int, float] | None = None

    @property
    def intervals(self) -> dict[str, float]:
        """One group, at the interval given."""
        return {"normal": self._interval_s}

    async def sample(self, group: str) -> Sampled:
        """Read /proc, which takes well under a millisecond, so on the loop.

        That fails where no descriptor is left to open a file with: a reason and no end of the daemon.
        """
        at = self._clock()
        try:
            samples = (*self._daemon_samples(), *_gc_samples(), *self._worker_samples())
        except OSError as error:
            return Sampled(reason=f"/proc cannot be read: {error.strerror}")
        batch = lasting_batch(self.name, group, at, self._interval_s, samples)
        return Sampled(batches=(batch,))

    def _daemon_samples(self) -> Iterator[Sample]:
        yield Sample("npumond_build_info", (__version__, platform.python_version()), 1.0)
        with self._daemon.oneshot():
            cpu, memory = self._daemon.cpu_times(), self._daemon.memory_info()
            yield Sample("process_cpu_seconds_total", (), cpu.user + cpu.system)
            yield Sample("process_resident_memory_bytes", (), float(memory.rss))
            yield Sample("process_virtual_memory_bytes", (), float(memory.vms))
            yield Sample("process_start_time_seconds", (), self._daemon.create_time())
            yield Sample("process_open_fds", (), float(self._daemon.num_fds()))
        yield Sample("process_max_fds", (), float(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))

    def _worker_samples(self) -> Iterator[Sample]:
        """CPU is summed over all workers so far, since a counter must not fall when a worker is replaced."""
        pid = self._worker_pid()
        if pid is not None:
            try:
                worker = psutil.Process(pid)
                with worker.oneshot():
                    cpu, memory = worker.cpu_times(), worker.memory_info()
            except psutil.Error:
                pass  # it ended between the look at its pid and this one
            else:
                self._note_worker_cpu(pid, cpu.user + cpu.system)
                yield Sample("npumond_worker_resident_memory_bytes", (), float(memory.rss))
        current_s = self._worker_cpu[1] if self._worker_cpu is not None else 0.0
        yield Sample("npumond_worker_cpu_seconds_total", (), self._ended_worker_cpu_s + current_s)

    def _note_worker_cpu(self, pid: int, cpu_s: float) -> None:
        if self._worker_cpu is not None and self._worker_cpu[0] != pid:
            self._ended_worker_cpu_s += self._worker_cpu[1]
        self._worker_cpu = (pid, cpu_s)


def _gc_samples() -> Iterator[Sample]:
    for generation, counts in enumerate(gc.get_stats()):
        labels = (str(generation),)
        yield Sample("python_gc_objects_collected_total", labels, float(counts["collected"]))
        yield Sample("python_gc_objects_uncollectable_total", labels, float(counts["uncollectable"]))
        yield Sample("python_gc_collections_total", labels, float(counts["collections"]))
