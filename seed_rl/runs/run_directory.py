"""The log directory of a run, which belongs to one configuration and one learner at a time, and the log in it."""

import contextlib
import dataclasses
import logging
import os
import stat
import sys
from collections.abc import Iterator

from seed_rl.errors import Failure, UsageError
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.experiment.config_files import differences_from_saved, save_config
from seed_rl.foreign import enumeration, printable
from seed_rl.system.files import explaining, locking, reason


class CannotUse(UsageError):
    """The log directory can't be used; the message is one line."""


@contextlib.contextmanager
def run_directory(logdir: str, experiment: Experiment, name: str) -> Iterator[None]:
    """Create and lock a log directory, called `name` in messages, and log to its `learner.log` while it is open."""
    if found := differences_from_saved(experiment, logdir):
        remedy = "Choose another --logdir, or use that configuration to continue the run"
        raise ConfigError(f"{name} holds a run with another configuration: {enumeration(found)}. {remedy}")
    _refuse_links(logdir)
    with contextlib.ExitStack() as cleanup:
        try:
            os.makedirs(logdir, exist_ok=True)
            cleanup.enter_context(locking(os.path.join(logdir, "lock")))
        except BlockingIOError:
            raise Failure(f"another learner is running in {name}") from None
        except FileExistsError:
            raise CannotUse(f"--logdir {logdir} is a file, expected a directory") from None
        except OSError as error:
            raise CannotUse(f"--logdir {logdir} can't be used: {error.strerror}") from error
        path = os.path.join(logdir, "learner.log")
        with explaining(CannotUse, f"{path} can't be written"):
            handler = cleanup.enter_context(contextlib.closing(LogFile(path)))
        ours = logging.getLogger("seed_rl")
        cleanup.callback(ours.setLevel, ours.level)
        if ours.getEffectiveLevel() > logging.INFO:  # e.g. in a program that hasn't configured logging
            ours.setLevel(logging.INFO)
        logging.getLogger().addHandler(handler)
        cleanup.callback(logging.getLogger().removeHandler, handler)
        yield


def record_configuration(experiment: Experiment, logdir: str) -> None:
    """Write the configuration of a run into its directory, once it can begin. Imports TensorFlow."""
    here, settings = dataclasses.replace(experiment, agent=experiment.agent.for_device()), experiment.to_json()
    chosen = {name: value for name, value in here.to_json().items() if value != settings[name]}
    with explaining(CannotUse, f"the configuration can't be written into {logdir}"):
        save_config(experiment, logdir, chosen)


def _refuse_links(logdir: str) -> None:
    """Refuse a log directory in which a run might write to files elsewhere or block on a pipe."""
    root = os.path.realpath(logdir)
    for directory, names, files in os.walk(logdir):
        for path in (os.path.join(directory, name) for name in (*names, *files)):
            leads_out = os.path.commonpath([root, os.path.realpath(path)]) != root
            is_known = os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)
            if leads_out or not (is_known or stat.S_ISSOCK(os.stat(path).st_mode)):
                raise CannotUse(f"{path} is not a regular file, or links out of the log directory")
        if "wandb" in names:  # Weights & Biases creates such links
            names.remove("wandb")


class PrintableFormatter(logging.Formatter):
    """Escapes control characters in log messages, which may contain untrusted text."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record; see `foreign.printable`."""
        return printable(super().format(record))


class LogFile(logging.FileHandler):
    """A log file that reports once on standard error if the disk is full, and writes what its buffer holds later."""

    def __init__(self, path: str):
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(PrintableFormatter("%(asctime)s %(levelname).1s %(name)s: %(message)s"))
        self._reported = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Report a failed write; called by `emit`."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._reported:
            self._reported = True
            with contextlib.suppress(OSError):  # standard error may be on the same disk
                print(f"seed_rl: {self.baseFilename} can't be written: {reason(error)}", file=sys.stderr)

    def close(self) -> None:
        """Close the file; lines that don't fit on the disk are lost."""
        with contextlib.suppress(OSError):
            super().close()
