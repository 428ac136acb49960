"""Commands that reproduce recorded runs, compare them, and bundle them for others."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from seed_rl.cli import flags
from seed_rl.cli.flags import RunOption, check_outputs, command
from seed_rl.errors import Failure, UsageError
from seed_rl.extras.repeating import bundle as bundles
from seed_rl.extras.repeating import file, segments
from seed_rl.extras.repeating import replay as replays
from seed_rl.extras.repeating.recording import make_repeatable
from seed_rl.foreign import printable
from seed_rl.reporting.text import duration
from seed_rl.runs.run import Run

_RUN = "the log directory of a recorded run."
_UNTIL = flags.integer("until", None, "Number of updates to end after; default: all.", lower_bound=1)


@command(
    "seed_rl replay runs/pong --until=500",
    flags.string("from", "", "Checkpoint to begin at, from which a learner of the run continued."),
    _UNTIL,
    flags.string("init_from", "", "Log directory or checkpoint whose weights the run began with, if it did."),
    flags.string("logdir", None, "Where to keep checkpoints and metrics of the replay; default: nowhere."),
    flags.IMPORT_MODULE,
    arguments=_RUN,
)
def replay(values: flags.FlagValues, *paths: str) -> int:
    """Executes a recorded run again and says whether it came out the same."""
    with tempfile.TemporaryDirectory(prefix="seed_rl-replay-") as temporary:
        target = values.logdir or temporary
        if os.path.isdir(target) and os.listdir(target):
            raise UsageError(f"--logdir={target} is not empty")
        begin = str(values["from"].value)
        return _show(replays.replay(_one(paths), target, begin, values.until, values.init_from))


@command("seed_rl verify pong.tar", _UNTIL, flags.IMPORT_MODULE, arguments="the bundle of a run.")
def verify(values: flags.FlagValues, *paths: str) -> int:
    """Checks the hashes of a bundle, and executes its run again."""
    return _show(bundles.verify(_one(paths), values.until))


@command(
    "seed_rl bundle runs/pong --output=pong.tar",
    flags.string("output", "", "File to write; default: bundle.tar in the log directory."),
    flags.OVERWRITE,
    flags.IMPORT_MODULE,
    arguments=_RUN,
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


@command("seed_rl diff runs/one runs/other", arguments="the log directories of two recorded runs.")
def diff(values: flags.FlagValues, *paths: str) -> int:
    """Says where two recorded runs part; exit code 1 if they do."""
    if len(paths) != 2:
        raise UsageError(f"expected two log directories, got {len(paths)}")
    parted = segments.difference(*(segments.load(os.path.join(path, file.NAME)) for path in paths))
    print(printable(parted or "they are equal"))
    return Failure.exit_code if parted.startswith("after") else 0


def _apply(values: flags.FlagValues, run: Run) -> contextlib.AbstractContextManager[object]:
    if values.record or values.synchronous:
        make_repeatable(run, values.record, values.synchronous)
    return contextlib.nullcontext()


OPTION = RunOption(
    flags.group(
        "repeating",
        flags.boolean("record", False, "Write a journal, to replay the run bit for bit."),
        flags.boolean("synchronous", False, "Let acting and learning alternate: two runs are equal."),
    ),
    _apply,
)


def _one(paths: Sequence[str]) -> str:
    if len(paths) != 1:
        raise UsageError(f"expected one path, got {len(paths)}")
    return paths[0]


def _show(progress: Iterator[replays.Progress]) -> int:
    """Execute a replay, show how far it is, and say at its end that it came out the same."""
    began, at = time.monotonic(), replays.Progress(0, 0, 0, 0, {})
    for at in progress:
        so_far = f"{at.updates} of {at.end} updates, {at.row['env_frames']:,.0f} frames, {at.checked} digests equal"
        print(f"{duration(time.monotonic() - began)}: {so_far}", file=sys.stderr)
    print(f"the same: all {at.checked} digests of the weights in updates {at.begin} to {at.end} are equal")
    return 0
