"""The command line. Heavy modules are imported by the command that needs them, so that each starts fast."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

import npumond
from npumond.config import load
from npumond.config.notation import Listen, listen
from npumond.config.settings import Config, Target
from npumond.errors import ConfigError, DriverError, ListenError, NpumondError
from npumond.worker.client import worker_options
from npumond.worker.protocol import WorkerOptions

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_TAKEN = 3
EXIT_BAD_CONFIG = 78
"""As in sysexits.h; service managers are told not to restart on it."""

DEFAULT_SCENARIO = "mixed"
SCENARIOS = ("busy", "idle", "oom", "fault", "mixed")
SIMULATED_DEVICES = 8
"""Chips that the simulated driver makes up when nobody says how many."""

WATCH_S = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 well, 1 failed, 2 usage, 3 address taken, 78 bad configuration)."""
    options = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except ConfigError as error:
        print("\n".join(error.mistakes), file=sys.stderr)
        return EXIT_BAD_CONFIG
    except ListenError as error:
        print(f"npumond: {error}", file=sys.stderr)
        return EXIT_TAKEN
    except DriverError as error:
        print("\n  ".join((f"npumond: {error}", *error.searched)), file=sys.stderr)
        return EXIT_FAILED
    except NpumondError as error:
        print(f"npumond: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (BrokenPipeError, KeyboardInterrupt):
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npumond", description="Observe Huawei Ascend NPUs.")
    parser.add_argument("--version", action="version", version=f"npumond {npumond.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = _command(commands, "run", _run, "the daemon: sample, judge and serve until SIGTERM")
    run.add_argument(
        "--listen",
        action="append",
        type=_address,
        metavar="ADDR",
        help="host:port, [ipv6]:port or unix:/path instead of server.listen; may be given again",
    )
    _driver_options(run)

    check = _command(commands, "check", _check, "validate a configuration; every mistake at once")
    check.add_argument("file", type=Path, metavar="FILE")

    once = _command(commands, "once", _once, "one round: devices, readings, rule states")
    form = once.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything as one JSON object")
    form.add_argument("--explain", action="store_true", help="every vendor call with its code, time and readings")
    _driver_options(once)

    devices = _command(commands, "devices", _devices, "a table like npu-smi's")
    devices.add_argument("--watch", action="store_true", help="every second, until Ctrl-C")
    _driver_options(devices)

    doctor = _command(commands, "doctor", _doctor, "what was found here, and why something is missing")
    doctor.add_argument("--json", action="store_true")
    _driver_options(doctor)

    metrics = _command(commands, "metrics", _metrics, "the catalogue of metrics")
    metrics.add_argument("--markdown", action="store_true", help="as a Markdown table")

    artifacts = _command(commands, "artifacts", _artifacts, "rewrite the files made from catalogue and rules")
    artifacts.add_argument("--check", action="store_true", help="change nothing; exit 1 if one of them is not fresh")
    artifacts.add_argument("--root", type=Path, default=Path(), metavar="DIR", help="the source tree (default: here)")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    function: Callable[[argparse.Namespace], int],
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=function)
    return parser


def _driver_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="default: /etc/npumond/npumond.yaml, where it exists"
    )
    parser.add_argument(
        "--simulate",
        nargs="?",
        const=DEFAULT_SCENARIO,
        choices=SCENARIOS,
        metavar="SCENARIO",
        help=f"a simulated driver instead of a real one: {', '.join(SCENARIOS)} (default: {DEFAULT_SCENARIO})",
    )


def _address(text: str) -> Listen:
    try:
        return listen(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def _configuration(options: argparse.Namespace) -> Config:
    config = load(options.config, os.environ)
    if options.simulate:
        config = replace(config, driver=replace(config.driver, backend="simulated"))
    if getattr(options, "listen", None):
        config = replace(config, server=replace(config.server, listen=tuple(options.listen)))
    return config


def _worker(config: Config, options: argparse.Namespace) -> WorkerOptions:
    return worker_options(config.driver, options.simulate or DEFAULT_SCENARIO)


def _run(options: argparse.Namespace) -> int:
    import uvloop

    from npumond.daemon import Daemon
    from npumond.log import configure

    config = _configuration(options)
    configure(config.log.level, config.log.format)

    async def serve() -> None:
        async with _simulated_targets(options.simulate) as targets:
            await Daemon(
                _with_targets(config, targets),
                lambda: _with_targets(_configuration(options), targets),
                path=options.config,
                scenario=options.simulate or DEFAULT_SCENARIO,
                environ=os.environ,
            ).run()

    uvloop.run(serve())
    return EXIT_OK


@contextlib.asynccontextmanager
async def _simulated_targets(scenario: str | None) -> AsyncIterator[tuple[Target, ...]]:
    """Inference servers beside simulated chips, for as long as the context lasts; none beside real ones."""
    if scenario is None:
        yield ()
        return
    from npumond.demo.servers import InferenceServers

    servers = InferenceServers(SIMULATED_DEVICES)
    await servers.start()
    try:
        yield tuple(
            Target(url=each.url, name=f"sim-{each.server}", server=each.server, device_ids=each.device_ids)
            for each in servers.targets
        )
    finally:
        await servers.stop()


def _with_targets(config: Config, targets: tuple[Target, ...]) -> Config:
    inference = config.inference
    return replace(config, inference=replace(inference, targets=(*inference.targets, *targets)))


def _check(options: argparse.Namespace) -> int:
    from npumond.ruleset import rules_of

    rules_of(load(options.file, os.environ))
    print(f"{options.file}: well")
    return EXIT_OK


def _once(options: argparse.Namespace) -> int:
    from npumond import api, terminal
    from npumond.oneshot import Look, Once, once_settings
    from npumond.ruleset import rules_of

    config = _configuration(options)

    async def take() -> Once:
        async with Look(_worker(config, options), os.environ, once_settings(config)) as look:
            return await look.take(rules_of(config))

    once = asyncio.run(take())
    if options.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(once.as_json())) + b"\n")
        return EXIT_OK
    out = terminal.console()
    out.print(terminal.driver_line(once.facts), "")
    if options.explain:
        out.print(terminal.calls_table(once.facts.devices, once.outcomes))
        return EXIT_OK
    out.print(terminal.devices_table(api.devices_json(once.snapshot)), "")
    out.print(terminal.alerts_table(once.alerts), "")
    out.print(terminal.samples_table(once.snapshot))
    return EXIT_OK


def _devices(options: argparse.Namespace) -> int:
    from npumond import api, terminal
    from npumond.oneshot import Look, once_settings

    config = _configuration(options)

    async def show() -> None:
        worker = _worker(config, options)
        async with Look(worker, os.environ, once_settings(config)) as look:
            with terminal.Screen() as screen:
                while True:
                    started_at = time.monotonic()
                    once = await look.take((), ("fast", "normal"))
                    screen.show(terminal.devices_table(api.devices_json(once.snapshot)))
                    if not options.watch:
                        return
                    await asyncio.sleep(max(0.0, WATCH_S - (time.monotonic() - started_at)))

    with contextlib.suppress(KeyboardInterrupt):  # how a person ends --watch
        asyncio.run(show())
    return EXIT_OK


def _doctor(options: argparse.Namespace) -> int:
    from npumond import doctor, terminal

    config = _configuration(options)
    found = doctor.run(config, _worker(config, options))
    if options.json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    else:
        terminal.console().print(terminal.findings(found))
    return EXIT_FAILED if any(finding.verdict in ("missing", "problem") for finding in found) else EXIT_OK


def _metrics(options: argparse.Namespace) -> int:
    from npumond.artifacts import metrics_markdown

    if options.markdown:
        print(metrics_markdown(), end="")
        return EXIT_OK
    from npumond import terminal

    terminal.console().print(terminal.catalogue_table())
    return EXIT_OK


def _artifacts(options: argparse.Namespace) -> int:
    from npumond.artifacts import stale

    paths = stale(options.root, write=not options.check)
    for path in paths:
        print(f"{path}: {'not fresh; run npumond artifacts' if options.check else 'rewritten'}")
    return EXIT_FAILED if paths and options.check else EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
