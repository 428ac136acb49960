"""The metrics of a run in Weights & Biases: an option that needs the package wandb."""

from __future__ import annotations

import logging
import os
import queue
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from seed_rl.experiment import ConfigError, Logs
from seed_rl.files import complete_or_absent
from seed_rl.reporting.catalogue import tag

_log = logging.getLogger(__name__)

_ID_FILE = "wandb_id"
_INIT_SECONDS = 30.0  # for the server to answer
_FINISH_SECONDS = 60.0  # for what is left to be uploaded


def check_wandb(logs: Logs) -> None:
    """Looks whether Weights & Biases can be used, if a run is to be there.

    Raises:
      ConfigError: the package is missing, its settings can't be, or nobody is logged in.
    """
    if not logs.wandb_project:
        return
    try:
        import wandb
    except ImportError as error:
        raise ConfigError(
            f"Logs.wandb_project is {logs.wandb_project!r}, which needs a package that is missing here: "
            "pip install 'seed_rl[wandb]'"
        ) from error
    try:
        settings = wandb.setup(settings=_settings(wandb, logs.wandb_project)).settings
    except (wandb.Error, ValueError) as error:  # an environment variable or a name that it does not take
        raise ConfigError(f"Weights & Biases can't be set up: {' '.join(str(error).split())}") from error
    if settings.mode == "online" and not wandb.login(prompt=False, verify=False):
        raise ConfigError(
            f"Logs.wandb_project is {logs.wandb_project!r}, and nobody is logged in to Weights & Biases here: run "
            "`wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline to upload the run later"
        )


class WandbRun:
    """A run in Weights & Biases, as a sink (`reporting.sinks.Sink`).

    A thread of its own talks to wandb: neither a slow network nor none delays training. If the server does not answer,
    the run is kept in the log directory as an offline one, for `wandb sync` to upload.

    A resumed run continues the run whose id the log directory holds. Rows have no step of wandb's, which would have to
    grow and could not return to a checkpoint: `progress/env_frames` is the horizontal axis.
    """

    name = "Weights & Biases"

    def __init__(self, logdir: str, resume_frames: int | None, settings: Mapping[str, Any], project: str):
        """
        Args:
          logdir: the run's directory.
          resume_frames: `env_frames` of the checkpoint that the run continues from, None for a new run.
          settings: of the experiment, by dotted name.
          project: in which the run is.
        """
        self._logdir = logdir
        self._resumed = resume_frames is not None
        self._settings = settings
        self._project = project
        self._rows: queue.SimpleQueue[dict[str, float] | None] = queue.SimpleQueue()
        self._id = ""
        self._thread = threading.Thread(target=self._run, name="wandb", daemon=True)

    def open(self) -> None:
        """Begins the run."""
        self._id = _run_id(self._logdir, self._resumed)
        self._thread.start()

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Takes a row; after a failure they are of no use."""
        if self._thread.is_alive():
            self._rows.put(row)

    def close(self) -> None:
        """Ends the run; what can't be uploaded within a minute stays in the log directory."""
        self._rows.put(None)
        self._thread.join(_FINISH_SECONDS)
        if self._thread.is_alive():
            _log.warning("Weights & Biases has not taken everything; `wandb sync` in %s uploads the rest", self._logdir)

    def _run(self) -> None:
        try:
            self._report()
        except Exception as error:  # wandb raises all kinds
            _log.error("Weights & Biases has failed (%s); training goes on without it", error)

    def _report(self) -> None:
        import wandb

        run = self._begin(wandb)
        run.define_metric(tag("env_frames"))
        run.define_metric("*", step_metric=tag("env_frames"))
        while (row := self._rows.get()) is not None:
            run.log({tag(name): value for name, value in row.items()})
        run.finish()

    def _begin(self, wandb: Any) -> Any:
        begin = {
            "id": self._id,
            "name": os.path.basename(os.path.abspath(self._logdir)),
            "dir": self._logdir,
            "config": nested(self._settings),
            "allow_val_change": True,  # a resumed run may have other settings of speed and logs
            "settings": _settings(wandb, self._project),
        }
        try:
            return wandb.init(**begin, resume="allow")
        except wandb.errors.CommError as error:
            _log.warning(
                "nothing can be sent to Weights & Biases (%s); the run is kept in %s for `wandb sync`",
                str(error).partition("\n")[0],
                os.path.join(self._logdir, "wandb"),
            )
            wandb.teardown()  # it would not begin a run of the same id again
            return wandb.init(**begin, mode="offline")


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with dotted names as dicts in dicts."""
    root: dict[str, Any] = {}
    for name, value in settings.items():
        *path, last = name.split(".")
        inner = root
        for part in path:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return root


def _settings(wandb: Any, project: str) -> Any:
    """Nothing is printed or captured: the terminal is the live panel's."""
    return wandb.Settings(
        project=project,
        silent=True,
        console="off",
        init_timeout=_INIT_SECONDS,
        finish_timeout=_FINISH_SECONDS / 2,  # sooner than `WandbRun.close` ceases to wait
    )


def _run_id(logdir: str, resumed: bool) -> str:
    """Of the run that is continued, or a new one, which is stored."""
    path = os.path.join(logdir, _ID_FILE)
    if resumed and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    new = secrets.token_hex(4)
    with complete_or_absent(path) as file:
        file.write(f"{new}\n".encode())
    return new
