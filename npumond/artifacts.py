"""Files that are made from the catalogue and the rules, so that they cannot drift from them.

README holds generated tables between marker comments; the files of `GENERATED` are made as a whole. `npumond artifacts`
rewrites them, ``--check`` only compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from npumond.catalog import CATALOG, Family
from npumond.default_rules import DEFAULT_RULES
from npumond.deployment import FILES
from npumond.errors import NpumondError
from npumond.rules import Condition, Rule


def metrics_markdown(families: Iterable[Family] = CATALOG) -> str:
    """The catalogue as a Markdown table: name, kind, labels, sampling group, meaning."""
    rows = (
        (f"`{family.name}`", family.kind, ", ".join(family.labels), family.group, family.help) for family in families
    )
    return _table(("family", "kind", "labels", "group", "meaning"), rows)


def rules_markdown(rules: Iterable[Rule] = DEFAULT_RULES) -> str:
    """The default rules as a Markdown table: name, severity, condition, duration, meaning."""
    return _table(("rule", "severity", "fires when", "for", "summary"), (_rule_row(rule) for rule in rules))


def _rule_row(rule: Rule) -> Sequence[str]:
    if not rule.on_node:
        return f"`{rule.name}`", rule.severity, f"`{rule.expr}` (Prometheus only)", _duration(rule.for_s), rule.summary
    labels = ",".join(f'{matcher.label}{matcher.op}"{matcher.value}"' for matcher in rule.labels)
    metric = f"{rule.metric}{{{labels}}}" if labels else rule.metric
    said = {
        "value": metric,
        "increase": f"increase of {metric} over {_duration(rule.window_s)}",
        "absent": f"no {metric}",
    }
    condition = said[rule.kind] if rule.kind == "absent" else f"{said[rule.kind]} {rule.op} {rule.threshold:g}"
    others = [_condition(rule, other) for other in rule.conditions]
    text = " and ".join(f"`{' '.join(part.split())}`" for part in (condition, *others))
    return f"`{rule.name}`", rule.severity, text, _duration(rule.for_s), rule.summary


def _condition(rule: Rule, other: Condition) -> str:
    if other.compare == "absent":
        return f"no {other.metric}"
    bound = other.threshold if other.share is None else other.share * rule.threshold
    compared = other.metric if other.compare == "value" else f"({rule.metric} - {other.metric})"
    return f"{compared} {other.op} {bound:g}"


def _duration(seconds: float) -> str:
    if seconds and seconds % 60 == 0:
        return f"{seconds / 60:g}m"
    return f"{seconds:g}s"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


SECTIONS: dict[str, Callable[[], str]] = {"metrics": metrics_markdown, "rules": rules_markdown}
"""Name of a marker in README to what stands between its two comments."""


def _with_sections(text: str, path: Path) -> str:
    for name, make in SECTIONS.items():
        begin, end = f"<!-- generated: {name} -->\n", f"<!-- end: {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not found or not closed:
            raise NpumondError(f"{path}: the markers {begin.strip()!r} and {end!r} are not both there")
        text = before + begin + make() + end + after
    return text


GENERATED: dict[str, Callable[[], str]] = {**FILES}
"""Path below the source tree to what makes the whole file; other modules' files join here."""


def stale(root: Path, write: bool) -> tuple[Path, ...]:
    """The generated files below ``root`` that were not fresh or not there; with ``write`` they are now.

    Raises `NpumondError` when README has lost its markers, OSError when a file cannot be read or written.
    """
    readme = root / "README.md"
    fresh = {readme: _with_sections(readme.read_text(encoding="utf-8"), readme)}
    fresh |= {root / name: make() for name, make in GENERATED.items()}
    found = tuple(path for path, text in fresh.items() if not path.is_file() or path.read_bytes() != text.encode())
    if write:
        for path in found:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fresh[path], encoding="utf-8", newline="\n")
    return found
