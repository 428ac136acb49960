"""TensorBoard's view of a run: scalars, hyperparameters and the configuration."""

import io
import os
import socket

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from seed_rl.experiment import Experiment
from seed_rl.experiment.config_files import to_gin
from seed_rl.reporting.catalogue import tag
from seed_rl.reporting.metrics import RecordFile, Sink

PREFIX = "events.out.tfevents"  # TensorBoard finds event files by it


class EventFile(RecordFile, Sink):
    """A sink that writes an event file into the run's directory.

    Each start of a run adds a file, and TensorBoard reads them in order. The file of a resumed run makes TensorBoard
    drop the points after the checkpoint. TensorBoard's `EventFileWriter` and `tf.summary` don't recover from a full
    disk: they leave a partial record, which hides all later records from TensorBoard.
    """

    def __init__(self, experiment: Experiment, logdir: str, resumed: tuple[int, float] | None, started: float):
        """Open the file; see `reporting.sinks.sinks_of`. Its name contains `started`, seconds since the epoch."""
        name = f"{PREFIX}.{started:017.6f}.{socket.gethostname()}.{os.getpid()}"
        super().__init__(os.path.join(logdir, name))
        simple = bool | int | float | str
        settings = {k: v if isinstance(v, simple) else str(v) for k, v in experiment.to_json().items()}
        step = resumed[0] + 1 if resumed else 0
        self._append(
            started,
            Event(file_version="brain.Event:2", source_metadata=SourceMetadata(writer="seed_rl")),
            Event(step=step, session_log=SessionLog(status=SessionLog.START)),
            # Every file has these: TensorBoard uses the first, and repetitions do no harm. No trial: one row per run.
            Event(summary=hparams_pb(settings, trial_id="", start_time_secs=started)),
            Event(summary=text_pb("config.gin", f"```\n{to_gin(experiment)}\n```")),
        )

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Write a row as scalars at step `env_frames`."""
        scalars = [Summary.Value(tag=tag(name), simple_value=value) for name, value in row.items()]
        self._append(wall_time, Event(step=int(row["env_frames"]), summary=Summary(value=scalars)))

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Write the GIF as an image, which browsers play: TensorBoard has no videos."""
        with open(gif, "rb") as file:
            film = Summary.Value(tag="film", image=Summary.Image(encoded_image_string=file.read()))
        self._append(wall_time, Event(step=env_frames, summary=Summary(value=[film])))

    def _append(self, wall_time: float, *events: Event) -> None:
        records = io.BytesIO()
        for event in events:
            event.wall_time = wall_time
            RecordWriter(records).write(event.SerializeToString())
        self.append(records.getvalue())
