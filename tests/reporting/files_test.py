"""The files that a run leaves behind: `metrics.jsonl`, and event files read back with TensorBoard's own readers."""

import json
import shutil

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator as PluginAccumulator
from tensorboard.plugins.hparams import metadata as hparams

from seed_rl.experiment import config_files
from seed_rl.experiment.config_files import to_gin
from seed_rl.reporting import metrics
from seed_rl.reporting.catalogue import METRICS
from seed_rl.reporting.event_file import EventFile
from seed_rl.reporting.metrics import MetricsFile
from seed_rl.reporting.sinks import sinks_of
from tests.support.full_disk import largest_file

CATCH = config_files.load(["catch/vtrace"])
STARTS = iter(range(1, 100))


def write(logdir, resume, *frames, **scalars):
    """A start of a run that writes rows at these frames; one that continues does so from the end of a second."""
    resumed = None if resume is None else (resume, 1.0)
    files = (MetricsFile(str(logdir), resumed), EventFile(CATCH, str(logdir), resumed, started=float(next(STARTS))))
    for file in files:
        for n in frames:
            file.write({"env_frames": n, "loss/total": n / 10, **scalars}, wall_time=1000.0 + n)
        file.close()


def events(logdir, tag="loss/total"):
    return EventAccumulator(str(logdir), size_guidance={"scalars": 0}).Reload().Scalars(tag)


@pytest.mark.parametrize(
    ("starts", "frames"),
    [
        ([(None, 10, 20, 30)], [10, 20, 30]),
        ([(None, 10, 20, 30), (20, 25, 35)], [10, 20, 25, 35]),
        ([(None, 10, 20, 30), (20,)], [10, 20]),
        ([(None, 0, 10), (None, 0, 15)], [0, 15]),
    ],
    ids=["new", "resumed", "resumed without a row", "started over"],
)
def test_curves_continue_from_the_checkpoint_or_begin_anew(tmp_path, starts, frames):
    for start in starts:
        write(tmp_path, *start)
    assert [row["env_frames"] for row in metrics.read(str(tmp_path))] == frames
    assert [event.step for event in events(tmp_path)] == frames


def test_a_row_after_the_checkpoint_without_new_frames_is_removed(tmp_path):
    for resume, seconds in ((None, 0.5), (20, 1.0), (20, 1.5)):
        write(tmp_path, resume, 20, seconds=seconds)
    write(tmp_path, 20)
    assert [row["seconds"] for row in metrics.read(str(tmp_path))] == [0.5, 1.0]


def test_odd_lines_among_others_are_skipped_counted_and_removed_and_an_incomplete_last_one_is_skipped(tmp_path, caplog):
    odd = b'{"env_frames": 15\n{"loss": 15}\n{"env_frames": NaN}\n{"env_frames": 15, "loss": [1]}\n'
    odd += bytes(3_000_000) + b'\n{"env_frames": 90}\n'  # is read in three parts; with a wrong digit
    write(tmp_path, None, 10, 20, 30, 40)
    path = tmp_path / "metrics.jsonl"
    first, *others = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + odd + b"".join(others) + b'{"env_frames": 2')  # killed
    assert [row["env_frames"] for row in metrics.read(str(tmp_path))] == [10, 90, 20, 30, 40]
    assert f"{path}: skipped 7 damaged lines\n" in caplog.text
    write(tmp_path, 30, 35)
    caplog.clear()
    assert [row["env_frames"] for row in metrics.read(str(tmp_path))] == [10, 20, 30, 35]
    assert caplog.text == ""


def test_rows_are_scalars_in_groups_at_their_step_and_time(tmp_path):
    names = {metric.name for metric in METRICS.values()} - {"env_frames", "loss/total"}
    write(tmp_path, None, 10, 20, **dict.fromkeys(names, 0.0), **{"loss/mine": 1.0, "bare": 2.0})
    assert set(EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]) == {*METRICS, "loss/mine", "other/bare"}
    found = [(event.step, event.wall_time, event.value) for event in events(tmp_path)]
    assert found == [(10, 1010.0, 1.0), (20, 1020.0, 2.0)]


def test_every_start_leaves_hyperparameters_and_configuration_readable(tmp_path):
    for resume in (None, 20):
        write(tmp_path, resume, 25, 30)
    read = PluginAccumulator(str(tmp_path)).Reload()
    content = read.PluginTagToContent("hparams")
    assert set(content) == {hparams.SESSION_START_INFO_TAG}
    start = hparams.parse_session_start_info_plugin_data(content[hparams.SESSION_START_INFO_TAG])
    settings = {name: getattr(value, value.WhichOneof("kind")) for name, value in start.hparams.items()}
    assert set(settings) == set(CATCH.to_json())
    assert {"seed": 1.0, "replay": "None", "inference.stagger_unrolls": True, "devices.training": "[]"}.items() <= (
        settings.items()
    )
    assert start.group_name == "", "TensorBoard makes a row for each run"
    assert read.Tensors("config.gin")[-1].tensor_proto.string_val == [f"```\n{to_gin(CATCH)}\n```".encode()]


def test_a_full_disk_stops_nothing_leaves_no_partial_record_and_is_no_end(tmp_path, caplog):
    def write_rows(*frames):
        for n in frames:
            for sink in sinks:
                sink.write({"env_frames": n, "loss/total": 0.123456789, "time/cpu": 0.5}, wall_time=float(n))

    logdir = tmp_path / "run"
    with largest_file(9_001):
        sinks = sinks_of(CATCH, str(logdir), None)
        write_rows(*range(200))
    failing = ["metrics.jsonl", "events.out.tfevents"]
    error = "can't be written (File too large): training continues, without these rows"
    assert sorted(caplog.messages) == sorted(f"{name} {error}" for name in failing), "once, not for each row"
    caplog.clear()
    full = shutil.copytree(logdir, tmp_path / "full")
    frames = [json.loads(line)["env_frames"] for line in (full / "metrics.jsonl").open()]
    steps = [event.step for event in events(full)]
    assert (frames, steps) == (list(range(len(frames))), list(range(len(steps))))
    assert 10 < len(steps) < 200
    assert 100 < len(frames) < 200

    write_rows(*range(200, 210))
    for sink in sinks:
        sink.close()
    assert caplog.messages == [f"{name} can be written again" for name in failing]
    assert [row["env_frames"] for row in metrics.read(str(logdir))] == [*frames, *range(200, 210)]
    assert [event.step for event in events(logdir)] == [*steps, *range(200, 210)]
