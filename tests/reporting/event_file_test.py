"""Event files, read back with TensorBoard's own readers."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginAccumulator
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import metadata as hparams

from seed_rl.reporting.catalogue import CHARTS, METRICS
from seed_rl.reporting.event_file import EventFile

SETTINGS = {"seed": 3, "optimizer.name": "adam", "replay": None, "deep": True, "sizes": [1, 2]}


def write(logdir, resume, *frames, settings=SETTINGS, **scalars):
    file = EventFile(str(logdir), resume, settings, "Experiment.seed = 3")
    file.open()
    for n in frames:
        file.write({"env_frames": n, "loss/total": n / 10, **scalars}, wall_time=1000.0 + n)
    file.close()


def read(logdir):
    return EventAccumulator(str(logdir)).Reload()


def test_rows_are_scalars_in_groups(tmp_path):
    custom = {"loss/mine": 1.0, "bare": 2.0}
    write(tmp_path, None, 10, 20, **dict.fromkeys([metric.name for metric in METRICS], 0.0), **custom)
    tags = read(tmp_path).Tags()["scalars"]
    assert sorted(tags) == sorted([metric.tag for metric in METRICS] + ["loss/mine", "other/bare"])


def test_scalars_have_the_step_time_and_value_of_their_row(tmp_path):
    write(tmp_path, None, 10, 20)
    scalars = read(tmp_path).Scalars("loss/total")
    assert [(e.step, e.wall_time, e.value) for e in scalars] == [(10, 1010.0, 1.0), (20, 1020.0, 2.0)]


def test_a_resumed_run_continues_the_curves_from_its_checkpoint(tmp_path):
    write(tmp_path, None, 10, 20, 30)
    write(tmp_path, 20, 25, 35)
    assert [e.step for e in read(tmp_path).Scalars("loss/total")] == [10, 20, 25, 35]


def test_a_run_without_a_checkpoint_begins_its_curves_anew(tmp_path):
    write(tmp_path, None, 0, 10)
    write(tmp_path, None, 0, 15)
    assert [e.step for e in read(tmp_path).Scalars("loss/total")] == [0, 15]


@pytest.mark.parametrize("starts", [(None,), (None, 20), (None, None)], ids=["new", "resumed", "anew"])
def test_every_start_leaves_hyperparameters_layout_and_configuration_readable(tmp_path, starts):
    for resume in starts:
        write(tmp_path, resume, 25, 30)
    events = PluginAccumulator(str(tmp_path)).Reload()
    content = events.PluginTagToContent("hparams")
    assert set(content) == {hparams.SESSION_START_INFO_TAG}
    start = hparams.parse_session_start_info_plugin_data(content[hparams.SESSION_START_INFO_TAG])
    assert {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()} == {
        "seed": 3.0,
        "optimizer.name": "adam",
        "replay": "None",
        "deep": True,
        "sizes": "[1, 2]",
    }
    assert start.group_name == "", "TensorBoard makes a row for each run"
    layout = layout_pb2.Layout.FromString(events.Tensors("custom_scalars__config__")[-1].tensor_proto.string_val[0])
    assert [category.title for category in layout.category] == list(CHARTS)
    assert events.Tensors("config.gin")[-1].tensor_proto.string_val == [b"```\nExperiment.seed = 3\n```"]
