"""The configuration: every mistake at once and in exact words, and nothing but ConfigError for any file."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from npumond.config import Config, Listen, check_rule_names, describe, load, notation, parse
from npumond.config.settings import NOT_YET, Driver, Sinks
from npumond.errors import ConfigError

HERE = Path(__file__).parent / "config"
BAD = sorted((HERE / "bad").glob("*.yaml"))
GOOD = sorted((HERE / "good").glob("*.yaml"))
RULE = """
rules:
  extra:
    - {name: %s, metric: npu_power_watts, op: ">", threshold: 300}
  overrides:
    %s: {for: 2m}
"""


def mistakes(text: str) -> tuple[str, ...]:
    """What is wrong with a text; empty when nothing is."""
    try:
        parse(text, "f.yaml")
    except ConfigError as error:
        return error.mistakes
    return ()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_gives_exactly_the_expected_mistakes(path: Path) -> None:
    """They stand on the file's first lines, without the file's name."""
    if path.stem.startswith("syntax_") and not yaml.__with_libyaml__:
        pytest.skip("the parser in Python has other words for what is not YAML")
    expected = [line[10:] for line in path.read_text().splitlines() if line.startswith("# expect: ")]
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert [mistake.removeprefix(f"{path}:") for mistake in caught.value.mistakes] == expected


def test_there_are_bad_files() -> None:
    """A folder that moved must not pass for a folder without faults."""
    assert len(BAD) > 80


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_file_is_read_and_shown_as_an_equal_one(path: Path) -> None:
    """What `describe` gives is a configuration again."""
    config = load(path, {"NODE_NAME": "n1"})
    assert parse(json.dumps(describe(config)), "shown") == config


@pytest.mark.parametrize("name", ["design_example", "empty", "only_comments"])
def test_what_says_nothing_new_equals_the_defaults(name: str) -> None:
    """The example of the design sets every key to its default."""
    assert parse((HERE / "good" / f"{name}.yaml").read_text(), name) == Config()


def test_every_key_arrives_in_base_units() -> None:
    """Seconds, ratios, addresses."""
    config = parse((HERE / "good" / "every_key.yaml").read_text(), "")
    rule = config.rules.extra[-1]
    assert (config.sampling.fast, config.sampling.normal, config.sampling.slow) == (0.5, 1.5, 90.0)
    assert config.server.listen[1:] == (Listen("::1", 9090), Listen(path="/run/npumond/http.sock"))
    assert (rule.threshold, rule.for_, rule.keep_firing_for, rule.labels) == (0.5, 600.0, 0.0, {"device_id": "0"})
    assert rule.while_ is not None
    assert config.rules.overrides["NpuAicoreUnderused"].threshold == 0.5
    assert config.history is None


def test_an_anchor_can_be_merged_and_its_keys_given_anew() -> None:
    """A second rule that differs in two fields."""
    first, second = parse((HERE / "good" / "anchors.yaml").read_text(), "").rules.extra
    assert second == msgspec.structs.replace(first, name="HbmHot", metric="npu_hbm_temperature_celsius")


def test_settings_are_what_msgspec_takes_too() -> None:
    """The structs alone say what is allowed; the reader adds words and lines."""
    config = parse((HERE / "good" / "every_key.yaml").read_text(), "")
    assert msgspec.convert(msgspec.to_builtins(config), Config) == config
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"fats": 1}, Driver)


def test_a_missing_default_file_is_an_empty_one(tmp_path: Path) -> None:
    """A machine without a configuration is monitored too."""
    assert load(None, {"NODE_NAME": "n1"}, tmp_path / "none.yaml") == Config(node="n1")


def test_a_default_file_is_read(tmp_path: Path) -> None:
    """Without --config."""
    (tmp_path / "npumond.yaml").write_text("node: here")
    assert load(None, {}, tmp_path / "npumond.yaml").node == "here"


def test_a_missing_named_file_is_a_mistake(tmp_path: Path) -> None:
    """Who names a file wants it read."""
    with pytest.raises(ConfigError, match=r"/none.yaml: no such file$"):
        load(tmp_path / "none.yaml", {})


def test_a_directory_is_not_read(tmp_path: Path) -> None:
    """The system's words are passed on."""
    with pytest.raises(ConfigError, match=r"cannot be read: Is a directory$"):
        load(tmp_path, {})


def test_a_file_that_is_not_utf8_is_named_with_the_line(tmp_path: Path) -> None:
    """And with the byte."""
    path = tmp_path / "latin1.yaml"
    path.write_bytes(b"log: {}\nnode: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin1.yaml:2: is not UTF-8 \(got byte 0xe9\)$"):
        load(path, {})


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """A path to something else must not fill the memory."""
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match=r"large.yaml: is larger than 1 MiB$"):
        load(path, {})


def test_a_file_from_windows_is_read() -> None:
    """Byte order mark and line ends."""
    assert parse("\ufeffnode: n1\r\nlog: {level: debug}\r\n", "").node == "n1"
    assert mistakes("\ufefflog: {level: loud}\r\n")[0].endswith("(got loud)")


@pytest.mark.parametrize(
    ("text", "environ", "node"),
    [
        ("node: said", {"NODE_NAME": "environ"}, "said"),
        ("node: null", {"NODE_NAME": "environ"}, "environ"),
        ("", {"NODE_NAME": " "}, socket.gethostname()),
        ("", {}, socket.gethostname()),
    ],
)
def test_the_node_is_the_setting_or_node_name_or_the_host(
    text: str, environ: dict[str, str], node: str, tmp_path: Path
) -> None:
    """In this order."""
    path = tmp_path / "f.yaml"
    path.write_text(text)
    assert load(path, environ).node == node


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "{a: " * 5000,
        "- " * 5000,
        "&a [*a]",
        "log: &a {<<: *a}",
        "log: {<<: {<<: {<<: {<<: {<<: {<<: {}}}}}}}",
    ],
)
def test_deep_and_endless_documents_are_mistakes(text: str) -> None:
    """Not a crash and not a wait."""
    assert mistakes(text)


def test_mistakes_come_in_the_order_of_the_file_and_have_an_end() -> None:
    """A file with thousands is the wrong file."""
    found = mistakes("\n".join(f"key{number}: 1" for number in range(1000)))
    assert found[1].startswith("f.yaml:2: key1: ")
    assert found[200:] == ("f.yaml: and 800 more mistakes",)


def test_a_mistake_is_one_short_printable_line() -> None:
    """Whatever the file holds."""
    [mistake] = mistakes(f'"a\\nb\\e": "{"x" * 500}"')
    assert mistake.startswith("f.yaml:1: 'a b\\u001b': unknown key")


def test_names_of_rules_are_checked_against_the_table() -> None:
    """It is known to the daemon alone."""
    found = check_rule_names(parse(RULE % ("NpuHot", "NpuHott"), ""), {"NpuHot", "NpuLost"})
    assert found == (
        "rules.overrides.NpuHott: there is no such default rule, did you mean 'NpuHot'?",
        "rules.extra[0].name: is a default rule, change it in rules.overrides (got NpuHot)",
    )


def test_good_names_of_rules_are_no_mistake() -> None:
    """An own rule has an own name, an override that of a default one."""
    assert check_rule_names(parse(RULE % ("Mine", "NpuHot"), ""), {"NpuHot"}) == ()


def test_secrets_are_not_shown() -> None:
    """The status page may be read by more people than the file."""
    text = "sinks: {alertmanager: {urls: ['http://me:hunter2@host:9093']}}"
    shown = describe(parse(text, "", not_yet={}))["sinks"]
    assert shown["alertmanager"]["urls"] == ["http://***@host:9093"]


def test_features_to_come_have_their_settings() -> None:
    """What is refused today is read once its row is gone from the table."""
    text = "sinks: {alertmanager: {urls: [http://h:9093]}, tensorboard: {logdir: runs}}\nhistory: {max_bytes: 1.5GiB}"
    config = parse(text, "", not_yet={})
    assert config.sinks != Sinks()
    assert config.history is not None
    assert config.history.max_bytes == 3 << 29


def test_rows_of_the_table_name_keys_that_exist() -> None:
    """A row with a typing mistake would let a key be ignored."""
    for path in NOT_YET:
        value: Any = Config()
        for key in path.split("."):
            value = getattr(value, key)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("300ms", 0.3), ("5s", 5), ("2m", 120), ("1h30m", 5400), ("7d", 604800), ("1.5s", 1.5), ("0", 0)],
)
def test_durations(text: str, seconds: float) -> None:
    """As Prometheus writes them, and with a decimal point."""
    assert notation.duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5", "5 s", "5S", "30m1h", "1e3s", "-5s", "٥s", "5s\n"])
def test_what_is_no_duration(text: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"unit|must be"):
        notation.duration(text)


@given(st.integers(0, 10**9))
def test_a_shown_duration_is_read_as_the_same(milliseconds: int) -> None:
    """For every whole millisecond."""
    seconds = milliseconds / 1000
    assert notation.duration(notation.show_duration(seconds)) == seconds


@given(st.integers(0, 1 << 44))
def test_a_shown_size_is_read_as_the_same(size: int) -> None:
    """For every byte."""
    assert notation.byte_size(notation.show_bytes(size)) == size


@pytest.mark.parametrize("text", ["0.0.0.0:9090", "[::]:9090", "localhost:0", "unix:/run/npumond/http.sock"])
def test_an_address_is_shown_as_it_is_written(text: str) -> None:
    """So that logs and settings can be compared."""
    assert str(notation.listen(text)) == text


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.binary(max_size=4)
    | st.sampled_from(["5s", "70%", "1GiB", "npu_power_watts", ">", "unix:/a", "h:1", "auto"])
)
keys = st.text(max_size=4) | st.sampled_from(
    [field.encode_name for kind in (Config, *(type(getattr(Config(), f)) for f in Config.__struct_fields__))
     if isinstance(kind, type) and issubclass(kind, msgspec.Struct) for field in msgspec.structs.fields(kind)]
    + ["name", "metric", "op", "threshold", "labels", "while", "for", "broker", "url", "urls", "interval"]
)  # fmt: skip
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys | st.integers(), inner, max_size=5)
)


@given(documents)
def test_any_data_gives_a_configuration_or_mistakes(data: object) -> None:
    """Never another exception, and each mistake is one printable line."""
    for mistake in mistakes(yaml.safe_dump(data, allow_unicode=True)):
        assert mistake.isprintable()


@given(st.text())
def test_any_text_gives_a_configuration_or_mistakes(text: str) -> None:
    """YAML or not."""
    for mistake in mistakes(text):
        assert mistake.isprintable()
