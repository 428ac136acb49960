"""The metrics of a run as gauges of Ray."""

from seed_rl.runs.ray import run as ray_run
from seed_rl.runs.run import Run


def test_each_metric_is_a_gauge_of_its_run(small_catch, monkeypatch):
    closed, values = [], {}

    def train(self, stop=None):
        try:
            yield {"env_frames": 1.0}
            yield {"env_frames": 2.0, "loss/total": 0.5}
        finally:
            closed.append(True)

    class Gauge:
        def __init__(self, name, description, tag_keys):
            assert tag_keys == ("run",)
            self.name = name

        def set_default_tags(self, tags):
            self.tags = tags

        def set(self, value):
            values.setdefault((self.name, self.tags["run"]), []).append(value)

    monkeypatch.setattr(Run, "train", train)
    monkeypatch.setattr(ray_run, "Gauge", Gauge)
    rows = ray_run.RayRun(small_catch, "runs/a").train()
    assert next(rows) == {"env_frames": 1.0}
    next(rows)
    assert values == {("seed_rl_env_frames", "runs/a"): [1.0, 2.0], ("seed_rl_loss_total", "runs/a"): [0.5]}
    rows.close()
    assert closed, "the learner has written its last checkpoint"
