"""What TensorBoard shows of a run: scalars, charts of several curves, hyperparameters and the configuration."""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import metadata as custom_scalar
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text import metadata as text_plugin
from tensorboard.summary.writer.record_writer import RecordWriter
from tensorboard.util.tensor_util import make_tensor_proto

from seed_rl.reporting.appended import AppendedFile
from seed_rl.reporting.catalogue import CHARTS, tag


class EventFile:
    """An event file in the run's directory, as a sink (`reporting.sinks.Sink`).

    Each start of a run writes its own; TensorBoard reads them one after the other. A resumed run tells it to forget
    what lies behind the checkpoint. TensorBoard's `EventFileWriter` is not used: on a full disk its thread ends for
    good, and what it leaves of a record hides all that would follow.
    """

    def __init__(self, logdir: str, resume_frames: int | None, settings: Mapping[str, Any], config: str):
        """
        Args:
          logdir: the run's directory.
          resume_frames: `env_frames` of the checkpoint that the run continues from, None for a new run.
          settings: of the experiment, by name: the hyperparameters.
          config: text of the gin configuration.
        """
        now = time.time()
        self.name = f"events.out.tfevents.{now:017.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = AppendedFile(os.path.join(logdir, self.name))
        step = 0 if resume_frames is None else resume_frames + 1
        source = SourceMetadata(writer="seed_rl")
        self._head = [
            Event(wall_time=now, file_version="brain.Event:2", source_metadata=source),
            Event(wall_time=now, step=step, session_log=SessionLog(status=SessionLog.START)),
            # By every start: TensorBoard goes by the first, and another one does no harm.
            Event(wall_time=now, summary=_hyperparameters(settings, now)),
            Event(wall_time=now, summary=_layout()),
            Event(wall_time=now, summary=_text("config.gin", config)),
        ]

    def open(self) -> None:
        """Writes what comes before the first row."""
        self._file.append(b"".join(_record(event) for event in self._head))

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Writes a row as scalars at step `env_frames`."""
        values = [Summary.Value(tag=tag(name), simple_value=value) for name, value in row.items()]
        self._file.append(
            _record(Event(wall_time=wall_time, step=int(row["env_frames"]), summary=Summary(value=values)))
        )

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _record(event: Event) -> bytes:
    """An event with its length and checksums, as it stands in the file."""
    framed = io.BytesIO()
    RecordWriter(framed).write(event.SerializeToString())
    return framed.getvalue()


def _hyperparameters(settings: Mapping[str, Any], now: float) -> Summary:
    """For the HPARAMS tab, each run as a row of its own (and not together with those of the same settings)."""
    simple = {
        name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in settings.items()
    }
    return hparams_pb(simple, trial_id="", start_time_secs=now)


def _layout() -> Summary:
    categories = [
        layout_pb2.Category(
            title=title,
            chart=[
                layout_pb2.Chart(title=chart.title, multiline=layout_pb2.MultilineChartContent(tag=chart.tags))
                for chart in charts
            ],
        )
        for title, charts in CHARTS.items()
    ]
    layout = layout_pb2.Layout(category=categories)
    value = Summary.Value(
        tag=custom_scalar.CONFIG_SUMMARY_TAG,
        metadata=custom_scalar.create_summary_metadata(),
        tensor=make_tensor_proto(layout.SerializeToString()),
    )
    return Summary(value=[value])


def _text(name: str, text: str) -> Summary:
    value = Summary.Value(
        tag=name,
        metadata=text_plugin.create_summary_metadata(display_name=name, description=""),
        tensor=make_tensor_proto(f"```\n{text}\n```".encode()),
    )
    return Summary(value=[value])
