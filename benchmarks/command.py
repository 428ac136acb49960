"""`scripts/bench.sh NAME...`: the table of benchmarks, their flags, and how one runs."""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from benchmarks import report
from benchmarks.failures import BadArguments, MeasurementFailed
from seed_rl.launch.native_output import import_quietly

BENCHMARKS = {
    "env": "Environments alone: steps per second of each suite on 1 to all cores.",
    "transport": "The wire: messages through the real server, by streams and message size.",
    "act": "The act step by batch, network and dtype, beside its network alone.",
    "train": "The update by batch, network and dtype, and its share of the peak FLOP/s.",
    "replay": "The prioritized replay by size: insert, sample, read, update.",
    "streams": "What idle streams cost busy ones.",
    "end_to_end": "The whole product, and its share of the ceiling that its parts allow.",
    "latency": "From observations to actions: percentiles by load, with and without a network.",
    "fleet": "A thousand actors, imitated: where the learner saturates, and on what.",
    "network": "Actors across a network that is imitated: the rate by round trip and groups.",
    "scaling": "The whole product by actor processes and environments: rate, CPU, memory.",
    "memory": "The learner's memory: by the unrolls it keeps, and over a run.",
}
"""Name and summary of each; `NAME` is the module `benchmarks.NAME`, a `Benchmark`."""

ALL = "all"
EXAMPLE = "scripts/bench.sh transport --streams=1,64 --seconds=1"
DEFAULT_OUTPUT = os.path.join("runs", "bench")


class Benchmark(Protocol):
    """What a module of a benchmark has. Its docstring tells how it measures: `--help` shows it."""

    __doc__: str | None
    QUICK: Mapping[str, Any]
    """Defaults of its flags with `--quick`, which make it end within seconds."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its flags."""

    def measure(self, arguments: argparse.Namespace) -> dict[str, Any]:
        """Measures; returns what goes into JSON. Measured values are `timing.spread`s.

        Raises:
          BadArguments: flags that are good each, but can't be together.
          ConfigError: the experiment can't be run.
          MeasurementFailed: what is measured has failed.
        """

    def table(self, result: dict[str, Any]) -> str:
        """The result for people, at most 100 columns wide."""


def benchmark(name: str) -> Benchmark:
    """The module of a benchmark; imports TensorFlow, as most need it.

    Raises:
      BadArguments: there is none of that name.
    """
    if name not in BENCHMARKS:
        raise BadArguments(f"no benchmark {name!r}; there are: {', '.join(BENCHMARKS)}, and {ALL}")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return import_quietly(f"benchmarks.{name}")


def run(command_line: Sequence[str]) -> int:
    """Runs the benchmarks that a command line names; returns the exit code.

    One runs in this process; several run one after the other in a process each, so that none finds what another left
    in memory.

    Raises:
      BadArguments: the command line has a mistake. Nothing has been measured then.
    """
    first_flag = next((n for n, word in enumerate(command_line) if word.startswith("-")), len(command_line))
    names, flags = list(command_line[:first_flag]), command_line[first_flag:]
    asks_for_help = any(flag in ("-h", "--help") for flag in flags)
    if not names:
        if flags and not asks_for_help:
            raise BadArguments(f"name a benchmark before {flags[0]}; there are: {', '.join(BENCHMARKS)}, and {ALL}")
        print(overview())
        return 0
    if ALL in names:
        names = list(BENCHMARKS)
    if asks_for_help:
        print("\n\n".join(_parser(name, quick=False).format_help().rstrip() for name in names))
        return 0
    parsed = {name: parse(name, flags) for name in names}
    if len(parsed) > 1:
        return _run_apart(list(parsed), flags)
    name, arguments = parsed.popitem()
    return _run(name, ["bench", name, *flags], arguments)


def _run(name: str, command: Sequence[str], arguments: argparse.Namespace) -> int:
    module = benchmark(name)
    try:
        os.makedirs(arguments.output, exist_ok=True)
    except OSError as error:
        raise BadArguments(f"--output {arguments.output} can't be used: {error.strerror}") from error
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # it warns of programs for many batches, which are meant
    try:
        result = module.measure(arguments)
    except BadArguments as error:
        raise BadArguments(f"{name}: {error}") from error
    except MeasurementFailed as error:
        print(f"scripts/bench.sh: {name}: {error}", file=sys.stderr)
        return 1
    values = {key: value for key, value in vars(arguments).items() if key != "output"}
    content = report.report(name, command, values, result)
    path = os.path.join(arguments.output, f"{name}.json")
    report.write(path, content)
    print(module.table(content["result"]))
    print(path)
    return 0


def _run_apart(names: Sequence[str], flags: Sequence[str]) -> int:
    """Runs each in a process of its own, all of them whatever happens; the exit code is the first that is not 0."""
    codes = []
    for name in names:
        print(f"\n{name}: {BENCHMARKS[name]}", flush=True)
        codes.append(subprocess.run([sys.executable, "-m", "seed_rl", "bench", name, *flags], check=False).returncode)
    return next((code for code in codes if code), 0)


def parse(name: str, flags: Sequence[str]) -> argparse.Namespace:
    """The values of a benchmark's flags.

    Raises:
      BadArguments: a flag it doesn't have, or a value that can't be.
    """
    return _parser(name, quick="--quick" in flags).parse_args(flags)


class _Parser(argparse.ArgumentParser):
    """Raises what is wrong instead of ending the process."""

    def error(self, message: str) -> Any:
        raise BadArguments(f"{self.prog.rpartition(' ')[2]}: {message}")


def _parser(name: str, quick: bool) -> argparse.ArgumentParser:
    module = benchmark(name)
    parser = _Parser(
        prog=f"scripts/bench.sh {name}",
        description=module.__doc__,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="a smoke run of seconds; its numbers mean nothing")
    parser.add_argument("--output", default=DEFAULT_OUTPUT, help=f"directory that {name}.json goes to")
    if quick:
        parser.set_defaults(**module.QUICK)
    return parser


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the paragraphs of a docstring, and shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str:
        says_something = action.default not in (None, [], False, argparse.SUPPRESS)
        return f"{action.help} (default %(default)s)" if says_something else action.help or ""


def overview() -> str:
    """What there is, a line each."""
    width = max(map(len, BENCHMARKS))
    lines = [f"  {name:{width}} {summary}" for name, summary in BENCHMARKS.items()]
    return "\n".join(
        [
            "scripts/bench.sh NAME... runs benchmarks, one after the other; `all` runs all of them:",
            "",
            *lines,
            "",
            f"example: {EXAMPLE}",
            "",
            f"Each prints a table and writes {DEFAULT_OUTPUT}/NAME.json (--output=DIRECTORY: elsewhere).",
            "--quick makes a smoke run of seconds; scripts/bench.sh NAME --help shows a benchmark's flags.",
        ]
    )
