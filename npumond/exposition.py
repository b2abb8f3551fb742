"""Snapshots as Prometheus pages: text format 0.0.4 and OpenMetrics 1.0.0.

A `Renderer` keeps, for each family, everything about its lines but the values: order, names, escaped labels. While the
same series come back, a page costs one comparison and one number a series.

Why not prometheus_client, which is the oracle in the tests: it sorts, escapes and validates every label again on every
scrape. Why numbers come from msgspec's JSON encoder: it writes the shortest text that reads back equal, as `repr` does,
for a whole family in one call and about six times faster. What JSON cannot say (NaN, infinities) takes the slow path.
Why whole families are reused and not single lines: looking for the lines that changed costs as much as writing them.

Both formats share their sample lines; only the head of a family differs. No timestamps and no ``_created`` series:
timestamps switch off Prometheus' staleness marks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from npumond.catalog import CATALOG, Family
from npumond.model import Sample, Snapshot

_SUFFIX_RANK = {"_bucket": 0, "_count": 1, "_sum": 2}

_encode_json = msgspec.json.Encoder().encode

_Key = tuple[tuple[str, ...], str]
"""Label values and suffix: what makes a series unique in its family."""


class Renderer:
    """Renders snapshots of one catalogue. Its memory is bounded by the series of the newest page."""

    def __init__(self, families: Iterable[Family] = CATALOG) -> None:
        self._blocks = {family.name: _Block(family) for family in families}

    def render(self, snapshot: Snapshot, openmetrics: bool) -> bytes:
        """The page as UTF-8: families in the order of the catalogue, series sorted, device 2 before device 10.

        Raises ValueError for samples that do not fit the catalogue: unknown family, wrong number of labels, a suffix
        where there is none. Such a sample is a mistake in the program, never in the data.
        """
        self._refuse_unknown(snapshot)
        parts: list[str] = []
        for name, block in self._blocks.items():
            samples = snapshot.families.get(name)
            if samples:
                parts.append(block.openmetrics_head if openmetrics else block.text_head)
                parts.append(block.lines(samples))
            else:
                block.forget()
        if openmetrics:
            parts.append("# EOF\n")
        # A lone surrogate in a label, which UTF-8 cannot carry, becomes a question mark instead of ending the page.
        return "".join(parts).encode("utf-8", "replace")

    def _refuse_unknown(self, snapshot: Snapshot) -> None:
        unknown = snapshot.families.keys() - self._blocks.keys()
        if unknown:
            raise ValueError(f"families that are not in the catalogue: {', '.join(sorted(unknown))}")


class _Block:
    """The lines of one family, prepared for the series that it had last time."""

    def __init__(self, family: Family) -> None:
        self.text_head = _text_head(family)
        self.openmetrics_head = _openmetrics_head(family)
        self._family = family
        self._histogram = family.kind == "histogram"
        self.forget()

    def forget(self) -> None:
        """Drop what was prepared; the family has no series now."""
        self._samples: tuple[Sample, ...] = ()
        self._keys: Sequence[object] = ()
        self._order: list[int] = []
        self._in_order = True
        self._values: list[float] = []
        self._parts: list[str] = []
        self._text = ""

    def lines(self, samples: tuple[Sample, ...]) -> str:
        """The family's sample lines; the text of last time where nothing changed."""
        if samples is self._samples:
            return self._text
        same_series = self._same_series(samples)
        values = [sample.value for sample in samples]
        if not self._in_order:
            values = [values[index] for index in self._order]
        if not (same_series and values == self._values):
            self._parts[1::2] = _number_texts(values)
            self._text = "".join(self._parts)
            self._values = values
        self._samples = samples
        return self._text

    def _same_series(self, samples: tuple[Sample, ...]) -> bool:
        """Whether the series are those of last time; prepares the new ones when they are not."""
        keys: Sequence[object]
        if self._histogram:
            keys = [(sample.labels, sample.suffix) for sample in samples]
        else:
            keys = [sample.labels for sample in samples]
        if keys == self._keys:
            return True
        self._lay_out(samples)
        self._keys = keys
        return False

    def _lay_out(self, samples: tuple[Sample, ...]) -> None:
        """Work out order and line prefixes; of series given twice the first stands, as a page may not repeat one."""
        names = [self._series(sample) for sample in samples]
        first = {name: index for index, name in reversed(list(enumerate(names)))}
        order = sorted(first.values(), key=lambda index: _sort_key(samples[index]))
        self._order = order
        self._in_order = order == list(range(len(samples)))
        self._parts = [""] * (2 * len(order) + 1)
        self._parts[0::2] = _gaps([names[index] for index in order])

    def _series(self, sample: Sample) -> str:
        """The line up to the value, ``name{label="value"} ``."""
        family = self._family
        names = (*family.labels, "le") if sample.suffix == "_bucket" else family.labels
        if sample.family != family.name or len(sample.labels) != len(names):
            raise ValueError(f"sample {sample!r} does not fit family {family.name} with labels {names}")
        if sample.suffix and not (self._histogram and sample.suffix in _SUFFIX_RANK):
            raise ValueError(f"sample {sample!r} has a suffix that family {family.name} does not have")
        values = sample.labels
        if sample.suffix == "_bucket":
            values = (*values[:-1], bound_text(float(values[-1])))
        pairs = ",".join(f'{name}="{_escape(value)}"' for name, value in zip(names, values, strict=True))
        return f"{family.name}{sample.suffix}{{{pairs}}} " if pairs else f"{family.name}{sample.suffix} "


def _gaps(series: list[str]) -> list[str]:
    """What stands before, between and after a family's values: names of series, and line feeds."""
    return [series[0], *(f"\n{name}" for name in series[1:]), "\n"]


def _text_head(family: Family) -> str:
    """HELP and TYPE in format 0.0.4, which has no ``info`` and names counters in full."""
    kind = "gauge" if family.kind == "info" else family.kind
    help_text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {family.name} {help_text}\n# TYPE {family.name} {kind}\n"


def _openmetrics_head(family: Family) -> str:
    """HELP, TYPE and UNIT in OpenMetrics, where the family's name lacks the suffix of its samples."""
    name = family.name
    if family.kind in ("counter", "info"):
        name = name.removesuffix("_total" if family.kind == "counter" else "_info")
    unit = f"# UNIT {name} {family.unit}\n" if family.unit else ""
    return f"# HELP {name} {_escape(family.help)}\n# TYPE {name} {family.kind}\n{unit}"


def _escape(text: str) -> str:
    """Text between double quotes, and the HELP text of OpenMetrics."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _sort_key(sample: Sample) -> tuple[object, ...]:
    """Order in a family: by labels; the buckets of a histogram by bound, then its count and sum."""
    if not sample.suffix:
        return (*map(_natural, sample.labels),)
    bucket = sample.suffix == "_bucket"
    labels = sample.labels[:-1] if bucket else sample.labels
    bound = float(sample.labels[-1]) if bucket else math.inf
    return (*map(_natural, labels), _SUFFIX_RANK[sample.suffix], bound)


def _natural(text: str) -> tuple[int, int, str, str]:
    """Sorts whole numbers by size, before everything else. No `int`, which refuses very long texts."""
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0")
        return 0, len(digits), digits, text
    return 1, 0, text, ""


def _number_texts(values: list[float]) -> list[str]:
    """The shortest decimal texts that read back equal."""
    joined = _encode_json(values)[1:-1].decode()
    # "null" (NaN, infinities) and "true" share a letter that no number has; "false" has one of its own.
    if "u" in joined or "f" in joined:
        return [_number_text(value) for value in values]
    return joined.split(",")


def _number_text(value: float) -> str:
    """One value, whatever it is; a bool, which type checkers take for a number, becomes one."""
    number = float(value)
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else ("+Inf" if number > 0 else "-Inf")


def bound_text(bound: float) -> str:
    """A bucket's ``le`` as OpenMetrics and Prometheus 3 want it: ``0.005``, ``1.0``, ``1e+06``, ``+Inf``.

    Prometheus 3 rewrites other spellings, which splits the series from those that older versions stored.
    """
    if not math.isfinite(bound) or abs(bound) < 1e6:
        return _number_text(bound)
    texts = (f"{bound:.{digits}e}" for digits in range(17))
    return next(text for text in texts if float(text) == bound)
