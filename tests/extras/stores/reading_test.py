"""A run in an object store is read like one on this machine; no more is fetched than that takes."""

import os
import pathlib
import shutil

import pytest
from fsspec.implementations.local import LocalFileSystem

from seed_rl.api import open_run
from seed_rl.evaluation.recorded import runs_with_returns


@pytest.fixture
def fetched(monkeypatch):
    """Paths of what is fetched from `file://`, a store that needs no network."""
    paths = []
    get_file = LocalFileSystem.get_file

    def get_and_note(store, path, *arguments, **options):
        paths.append(path)
        return get_file(store, path, *arguments, **options)

    monkeypatch.setattr(LocalFileSystem, "get_file", get_and_note)
    return paths


def test_one_checkpoint_is_fetched(saved_run, fetched):
    run = pathlib.Path(saved_run("catch/vtrace", "VTrace.hidden = 8")[0])
    newest, chosen = "checkpoint-000000000008.npz", "checkpoint-000000000007.npz"
    for name in ("best.npz", newest):
        shutil.copy(run / "checkpoints" / chosen, run / "checkpoints" / name)
    (run / "checkpoints/replay-000000000009.npz").write_bytes(b"many gigabytes")
    (run / "learner.log").write_text("much")
    for checkpoint, name in ((None, newest), ("best", "best.npz"), ("7", chosen), (chosen, chosen)):
        fetched.clear()
        with open_run(f"file://{run}", checkpoint) as copy:
            assert os.listdir(f"{copy}/checkpoints") == [name]
        assert fetched == [f"{run}/config.json", f"{run}/checkpoints/{name}"]


def test_runs_in_a_store_are_found_from_metrics_and_settings_alone(tmp_path, fetched):
    for name in ("cheap", "dear"):
        (tmp_path / name / "checkpoints").mkdir(parents=True)
        (tmp_path / name / "metrics.jsonl").write_text('{"env_frames": 1, "episode_return": 2}\n')
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "checkpoints/checkpoint-000000000001.npz").write_bytes(b"much")
    url = f"file://{tmp_path}"
    assert [run.place for run in runs_with_returns([url])] == [f"{url}/cheap", f"{url}/dear"]
    files = ("cheap/config.json", "cheap/metrics.jsonl", "dear/config.json", "dear/metrics.jsonl")
    assert fetched == [f"{tmp_path}/{name}" for name in files]
