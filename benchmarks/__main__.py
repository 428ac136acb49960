"""`scripts/bench.sh NAME...` or `python -m benchmarks NAME...`: runs benchmarks.

A benchmark is a module of this package with

- a docstring that says how it measures, shown by `--help`;
- `QUICK`, the defaults of its flags with `--quick`, which make it finish within seconds;
- `add_arguments(parser)`, which adds its flags;
- `measure(arguments)`, which returns JSON values, where each measured value is a `report.spread`;
- `table(result)`, which formats them in at most 100 columns.
"""

import argparse
import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from benchmarks import BenchmarkError, report
from seed_rl.errors import Failure, UsageError
from seed_rl.system.native_output import load_tensorflow

BENCHMARKS = {
    "env": "Environments: steps per second of each suite, by number of threads.",
    "transport": "The transport: messages through the real server, by streams and message size.",
    "act": "The act step by network, dtype and batch, beside its network alone.",
    "load": "A learner under load: its rate and response latency, by number of actors.",
    "end_to_end": "A whole run, and its share of the ceiling that its components allow.",
    "comparison": "Whole runs of V-trace on Pong, in turns with other programs.",
    "compile_for": "Act and optimizer steps compiled for TPUs and GPUs, without the devices: minutes.",
    "time_to_score": "Frames and minutes until experiments reach returns, over several seeds: hours.",
    "atari": "Scores in all Atari games, with the protocol of published tables: a night.",
}
"""Module and summary of each benchmark."""
ALL = "all"
APART = ("comparison", "compile_for", "time_to_score", "atari")  # not in `ALL`: they take hours, or need other software
DEFAULT_OUTPUT = os.path.join("runs", "bench")


def main(command_line: Sequence[str]) -> int:
    """Run the named benchmarks and return the exit code.

    A single benchmark runs in this process; several run sequentially in separate processes, so that none inherits
    the memory of another, even after a failure.

    Raises:
      SystemExit: the command line is wrong; raised before anything is measured.
    """
    first_flag = next((n for n, word in enumerate(command_line) if word.startswith("-")), len(command_line))
    names, flags = list(command_line[:first_flag]), list(command_line[first_flag:])
    if not names:
        print(overview())
        return 0 if flags in ([], ["-h"], ["--help"]) else 2
    if ALL in names:
        names = [name for name in BENCHMARKS if name not in APART]
    for name in set(names).difference(BENCHMARKS):
        known = ", ".join(BENCHMARKS)
        print(f"bench: unknown benchmark {name!r}; benchmarks are {known} and {ALL}", file=sys.stderr)
        return 2
    parsed = {name: parse(name, flags) for name in names}
    if len(parsed) > 1:
        each = [[sys.executable, "-m", "benchmarks", name, *flags] for name in names]
        codes = [subprocess.run(command, check=False).returncode for command in each]
        return next(filter(None, codes), 0)
    try:
        _run(names[0], flags, parsed[names[0]])
    except (Failure, UsageError) as error:
        print(f"bench: {names[0]}: {error}", file=sys.stderr)
        return 1
    return 0


def _run(name: str, flags: Sequence[str], arguments: argparse.Namespace) -> None:
    module = _module(name)
    try:
        os.makedirs(arguments.output, exist_ok=True)
    except OSError as error:
        raise BenchmarkError(f"--output {arguments.output} can't be used: {error.strerror}") from error
    logging.getLogger("tensorflow").setLevel(logging.ERROR)  # silences warnings about retracing, which is intended here
    values = {key: value for key, value in vars(arguments).items() if key != "output"}
    content = report.report(name, flags, values, module.measure(arguments))
    path = os.path.join(arguments.output, f"{name}.json")
    report.write(path, content)
    print(f"{module.table(content['result'])}\n{path}")


def _module(name: str) -> Any:
    load_tensorflow()
    return importlib.import_module(f"benchmarks.{name}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parse(name: str, flags: Sequence[str]) -> argparse.Namespace:
    """Parse the flags of a benchmark.

    Raises:
      SystemExit: a flag is unknown or has a bad value, reported on standard error; or `--help` was given.
    """
    module = _module(name)
    own: Any = {"description": module.__doc__, "formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = _Parser(prog=f"scripts/bench.sh {name}", allow_abbrev=False, **own)
    module.add_arguments(parser)
    parser.add_argument("--quick", action="store_true", help="smoke test of a few seconds; its numbers are meaningless")
    parser.add_argument("--output", default=DEFAULT_OUTPUT, help=f"directory of {name}.json")
    if "--quick" in flags:
        parser.set_defaults(**module.QUICK)
    return parser.parse_args(flags)


def overview() -> str:
    lines = "\n".join(f"  {name:{max(map(len, BENCHMARKS))}} {summary}" for name, summary in BENCHMARKS.items())
    return f"""scripts/bench.sh NAME... [FLAGS] runs benchmarks sequentially; `all` runs the speed benchmarks:

{lines}

Each prints a table and writes {DEFAULT_OUTPUT}/NAME.json (--output=DIRECTORY: elsewhere).
--quick makes a smoke test of a few seconds; scripts/bench.sh NAME --help shows the flags of a benchmark."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
