"""Optional reporting to Weights & Biases; only this module needs the package wandb."""

import functools
import logging
import os
import queue
import re
import secrets
import threading
from collections.abc import Mapping
from typing import Any

from seed_rl.experiment import ConfigError, Experiment, Logs
from seed_rl.reporting.catalogue import tag
from seed_rl.reporting.metrics import Sink
from seed_rl.system.files import complete_or_absent, explaining

_log = logging.getLogger(__name__)

_FILM = "film"
_MAX_ID = 64  # characters
_INIT_SECONDS = "30"  # timeout for the server's answer
_FINISH_SECONDS = 60.0  # timeout for uploading the last rows


def check_wandb(logs: Logs) -> None:
    """Raise ConfigError if a project is set, but wandb is missing, has invalid settings, or no user is logged in."""
    if not logs.wandb_project:
        return
    project = f"Logs.wandb_project = {logs.wandb_project!r}"
    try:
        import wandb
    except ImportError as error:
        raise ConfigError(f"{project} needs another package: pip install wandb") from error
    with explaining(ConfigError, "Weights & Biases can't be set up", wandb.Error, ValueError):
        settings = wandb.setup(settings=_settings(wandb, logs.wandb_project)).settings
        is_ready = settings.mode != "online" or wandb.login(prompt=False, verify=False)
    if not is_ready:
        ways = "run `wandb login`, set WANDB_API_KEY, or set WANDB_MODE=offline to upload the run later"
        raise ConfigError(f"{project} needs a login to Weights & Biases: {ways}")


class WandbRun(Sink):
    """A sink that reports to Weights & Biases, in a separate thread, because a network may be slow or missing.

    A resumed run continues the run whose id is in the log directory. Rows have no wandb step, because steps must
    increase even when a run resumes from a checkpoint: `progress/env_frames` is the horizontal axis.
    """

    def __init__(self, experiment: Experiment, logdir: str, resumed: tuple[int, float] | None):
        """Start the run; see `reporting.sinks.sinks_of`."""
        self._experiment, self._logdir, self._id = experiment, logdir, run_id(logdir, resumed is not None)
        self._rows: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="wandb", daemon=True)
        self._thread.start()

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Take a row, which is dropped if wandb has failed."""
        if self._thread.is_alive():
            self._rows.put({tag(name): value for name, value in row.items()})

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Take a film, which is dropped if wandb has failed."""
        if self._thread.is_alive():
            self._rows.put({tag("env_frames"): env_frames, _FILM: mp4})

    def close(self) -> None:
        """End the run; rows not uploaded within a minute stay in the log directory."""
        self._rows.put(None)
        self._thread.join(_FINISH_SECONDS)
        if self._thread.is_alive():
            _log.warning("Weights & Biases lacks the last rows: `wandb sync` in %s uploads them", self._logdir)

    def _run(self) -> None:
        try:
            import wandb

            run = wandb.init(
                id=self._id,
                name=os.path.basename(os.path.abspath(self._logdir)),
                dir=self._logdir,
                config=_nest(self._experiment.to_json()),
                allow_val_change=True,  # a resumed run may change settings of speed and logs
                settings=_settings(wandb, self._experiment.logs.wandb_project),
                resume="allow",
            )
            run.define_metric(tag("env_frames"))
            run.define_metric("*", step_metric=tag("env_frames"))
            while (row := self._rows.get()) is not None:
                run.log(row | {_FILM: wandb.Video(row[_FILM])} if _FILM in row else row)
            run.finish()
        except Exception as error:  # wandb raises errors of many types
            _log.error("Weights & Biases failed (%s); training continues without it", " ".join(str(error).split()))


def _nest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nest settings with dotted names into dicts, by which Weights & Biases can filter runs."""
    root: dict[str, Any] = {}
    for name, value in settings.items():
        *path, last = name.split(".")
        functools.reduce(lambda inner, part: inner.setdefault(part, {}), path, root)[last] = value
    return root


def _settings(wandb: Any, project: str) -> Any:
    """Build settings with which wandb neither prints nor captures output, so as not to disturb the live panel."""
    return wandb.Settings(
        project=project,
        silent=True,
        console="off",
        init_timeout=float(os.environ.get("WANDB_INIT_TIMEOUT", _INIT_SECONDS)),
        finish_timeout=_FINISH_SECONDS / 2,  # shorter than `WandbRun.close` waits
    )


def run_id(logdir: str, resumed: bool) -> str:
    """Return the stored id of a resumed run, or store a new one: that of a sweep's agent, or a random one."""
    path, new_id = os.path.join(logdir, "wandb_id"), os.environ.get("WANDB_RUN_ID") or secrets.token_hex(4)
    if resumed and os.path.isfile(path):
        with open(path, "rb") as stored:
            found = stored.read(_MAX_ID + 1).strip()
        if re.fullmatch(rb"[\w-]{1,%d}" % _MAX_ID, found):
            return found.decode()
        _log.warning("%s must hold an id of Weights & Biases, got %s: starting a new run there", path, found[:20])
    with complete_or_absent(path) as new:
        new.write(f"{new_id}\n".encode())
    return new_id
