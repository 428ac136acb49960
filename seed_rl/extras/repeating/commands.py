"""Commands that reproduce recorded runs, compare them, and bundle them for others."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from seed_rl.cli import flags
from seed_rl.cli.command import RunOption, UsageError, check_outputs, command
from seed_rl.foreign import printable, shortened
from seed_rl.inference.order import OrderFailed
from seed_rl.journal import file, segments
from seed_rl.journal.difference import difference
from seed_rl.journal.file import JournalError
from seed_rl.journal.segments import Differs
from seed_rl.reporting.text import duration
from seed_rl.runs import replay as replays
from seed_rl.runs.fleet import ActorFailed
from seed_rl.runs.run import Run
from seed_rl.settings import whole_number
from seed_rl.studies import bundle as bundles
from seed_rl.system.exit_codes import FAILURE
from seed_rl.system.files import explained
from seed_rl.weights.checkpoints import CheckpointError

_FAILURES = (JournalError, Differs, OrderFailed, ActorFailed, CheckpointError)
_UNTIL = flags.integer("until", None, "Number of updates to end after; default: all.", lower_bound=1)


@command(
    "seed_rl replay runs/pong --until=500",
    flags.string("from", "", "Checkpoint to begin at, from which a learner of the run continued."),
    _UNTIL,
    flags.boolean("check", True, "Compare the digests of all weights with the recorded ones."),
    flags.string("init_from", "", "Log directory or checkpoint whose weights the run began with, if it did."),
    flags.directory("logdir", "Where to keep checkpoints and metrics of the replay; default: nowhere."),
    flags.IMPORT_MODULE,
    arguments="the log directory of a recorded run.",
    failures=_FAILURES,
)
def replay(values: flags.FlagValues, *paths: str) -> int:
    """Executes a recorded run again and says whether it came out the same."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-replay-") as temporary:
        target = values.logdir or temporary
        if os.path.isdir(target) and os.listdir(target):
            raise UsageError(f"--logdir={target} is not empty")
        begin = str(values["from"].value)
        _show(replays.replay(_one(paths), target, begin, values.until, values.check, values.init_from), values.check)
    return 0


@command(
    "seed_rl verify pong.tar",
    _UNTIL,
    flags.boolean(
        "random_part", False, "Execute only one part of the run, drawn at random; see Logs.keep_every_frames."
    ),
    flags.IMPORT_MODULE,
    arguments="the bundle.",
    failures=_FAILURES,
)
def verify(values: flags.FlagValues, *paths: str) -> int:
    """Checks the hashes of a bundle, and executes its run again."""
    if values.random_part and values.until is not None:
        raise UsageError("--until and --random_part exclude each other")
    _show(bundles.verify(_one(paths), values.until, values.random_part), check=True)
    return 0


@command(
    "seed_rl bundle runs/pong --output=pong.tar",
    flags.string("output", "", "File to write; default: bundle.tar in the log directory."),
    flags.OVERWRITE,
    flags.IMPORT_MODULE,
    arguments="the log directory of a recorded run.",
    failures=_FAILURES,
)
def bundle(values: flags.FlagValues, *paths: str) -> int:
    """Writes all that others need to check a recorded run into one file."""
    logdir = _one(paths)
    output = values.output or os.path.join(logdir, "bundle.tar")
    check_outputs([output] if values.output else [], values.overwrite)
    try:
        size = bundles.write_bundle(logdir, output)
    except OSError as error:  # of any of the files, which it names
        raise UsageError(f"{output} can't be written: {error}") from error
    print(f"{output} has {size:,} bytes")
    return 0


@command(
    "seed_rl diff runs/one runs/other",
    arguments="the log directories of two recorded runs.",
    failures=_FAILURES,
)
def diff(values: flags.FlagValues, *paths: str) -> int:
    """Says where two recorded runs part; exit code 1 if they do."""
    if len(paths) != 2:
        raise UsageError(f"expected two log directories, got {len(paths)}")
    journals = [os.path.join(path, file.NAME) for path in paths]
    for journal in journals:
        segments.load(journal)  # checks it
    parted = difference(*map(file.Lines, journals))
    print(printable(parted or "they are equal"))
    return FAILURE if parted.startswith("after") else 0


@contextlib.contextmanager
def _repeatable(values: flags.FlagValues, run: Run) -> Iterator[None]:
    """Apply the flags of `OPTION` to a run."""
    run.record, run.synchronous = values.record, values.synchronous
    if values.fork and run.hosts.count > 1:
        raise UsageError("--fork needs a single learner host")
    if values.fork:
        _fork(values, run.logdir)
    yield


OPTION = RunOption(
    flags.group(
        "repeating",
        flags.boolean("record", False, "Write a journal, to replay the run bit for bit."),
        flags.boolean("synchronous", False, "Let acting and learning alternate: two runs are equal."),
        flags.string("fork", "", "Begin where a recorded run was: LOGDIR@UPDATE."),
    ),
    _repeatable,
)


def _fork(values: flags.FlagValues, logdir: str) -> None:
    """Prepare the log directory of a new run, which continues from where `--fork` says."""
    source, _, update = values.fork.rpartition("@")
    with explained(UsageError, f"--fork expects LOGDIR@UPDATE, got {shortened(values.fork)}", ValueError):
        number = whole_number(update if source else "")
    if "://" in logdir:
        raise UsageError(f"--fork needs a local --logdir, got {logdir}")
    _show(replays.fork(source, number, logdir, values.record, values.init_from or ""), check=True)


def _one(paths: Sequence[str]) -> str:
    if len(paths) != 1:
        raise UsageError(f"expected one path, got {len(paths)}")
    return paths[0]


def _show(progress: Iterator[replays.Progress], check: bool) -> None:
    """Execute a replay, show how far it is, and say at its end that it came out the same."""
    began, last = time.monotonic(), None
    for last in progress:
        checked = f", {last.checked} digests equal" if check else ""
        so_far = f"{last.updates} of {last.end} updates, {last.row['env_frames']:,.0f} frames{checked}"
        print(f"{duration(time.monotonic() - began)}: {so_far}", file=sys.stderr)
    if last is not None and check:
        print(f"the same: all {last.checked} digests of the weights in updates {last.begin} to {last.end} are equal")
