"""The log directory of a run: one configuration, one learner at a time, and its log."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.experiment.config_files import differences_from_saved
from seed_rl.foreign import printable
from seed_rl.system.files import locked, reason


class CannotUse(Exception):
    """A log directory that can't be used; one sentence."""


@contextlib.contextmanager
def run_directory(logdir: str, experiment: Experiment, name: str) -> Iterator[None]:
    """Makes a log directory and locks it against other learners; meanwhile the log goes to its `learner.log` too.

    Args:
      logdir: the directory.
      experiment: runs in it.
      name: of the directory in messages.

    Raises:
      ConfigError: it holds a run of another configuration.
      CannotUse: it can't be written, or another learner is running in it.
    """
    found = differences_from_saved(experiment, logdir)
    if found:
        raise ConfigError(
            f"{name} holds a run of another configuration: {'; '.join(found)}. "
            "Choose another --logdir, or the configuration of that run to continue it"
        )
    _refuse_links(logdir)
    with contextlib.ExitStack() as cleanup:
        try:
            os.makedirs(logdir, exist_ok=True)
            cleanup.enter_context(locked(os.path.join(logdir, "lock")))
        except BlockingIOError:
            raise CannotUse(f"another learner is running in {name}") from None
        except OSError as error:
            raise CannotUse(f"--logdir {logdir} can't be used: {error.strerror}") from error
        handler = cleanup.enter_context(contextlib.closing(LogFile(os.path.join(logdir, "learner.log"))))
        ours = logging.getLogger("seed_rl")
        cleanup.callback(ours.setLevel, ours.level)
        if ours.getEffectiveLevel() > logging.INFO:  # as in a program that has not configured logging
            ours.setLevel(logging.INFO)
        logging.getLogger().addHandler(handler)
        cleanup.callback(logging.getLogger().removeHandler, handler)
        yield


def _refuse_links(logdir: str) -> None:
    """Refuses a log directory in which a run would write to files elsewhere, or wait for the reader of a pipe.

    Raises:
      CannotUse: it holds a link out of it, or something else than files and directories.
    """
    root = os.path.realpath(logdir)
    for directory, names, files in os.walk(logdir):
        for path in (os.path.join(directory, name) for name in (*names, *files)):
            leads_out = os.path.commonpath([root, os.path.realpath(path)]) != root
            if leads_out or not (os.path.isfile(path) or os.path.isdir(path) or not os.path.exists(path)):
                raise CannotUse(f"{path} is a link out of the log directory, or no file: a run writes to its own files")
        if "wandb" in names:  # which makes such links
            names.remove("wandb")


class PrintableFormatter(logging.Formatter):
    """Escapes control characters in all that is logged: much of it was written by others."""

    def format(self, record: logging.LogRecord) -> str:
        """See `foreign.printable`."""
        return printable(super().format(record))


class LogFile(logging.FileHandler):
    """A log file on a disk that may be full.

    It reports once on standard error that it can't be written, where logging's own handlers print a traceback each
    time. Lines that don't fit are written once there is room again, as far as the file's buffer holds them.
    """

    def __init__(self, path: str, line: str = "%(asctime)s %(levelname).1s %(name)s: %(message)s"):
        """
        Args:
          path: lines are appended to it.
          line: format of a line.
        """
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(PrintableFormatter(line))
        self._reported = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by `emit` while the error is handled."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._reported:
            self._reported = True
            with contextlib.suppress(OSError):  # standard error may be on the same disk
                print(f"seed_rl: {self.baseFilename} can't be written: {reason(error)}", file=sys.stderr)

    def close(self) -> None:
        """Closes the file; lines that don't fit on the disk are lost."""
        with contextlib.suppress(OSError):
            super().close()
