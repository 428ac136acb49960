"""The metrics of a run as gauges of its cluster."""

from seed_rl.extras.ray import cluster


def test_each_metric_is_a_gauge_of_its_run(monkeypatch):
    values = {}

    class Gauge:
        def __init__(self, name, description, tag_keys):
            assert tag_keys == ("run",)
            self.name = name

        def set_default_tags(self, tags):
            self.tags = tags

        def set(self, value):
            values.setdefault((self.name, self.tags["run"]), []).append(value)

    monkeypatch.setattr(cluster, "Gauge", Gauge)
    sink = cluster.Gauges("runs/a")
    sink.write({"env_frames": 1.0}, 0.0)
    sink.write({"env_frames": 2.0, "loss/total": 0.5}, 1.0)
    assert values == {("seed_rl_env_frames", "runs/a"): [1.0, 2.0], ("seed_rl_loss_total", "runs/a"): [0.5]}
