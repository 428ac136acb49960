"""The metrics of a run as gauges of its cluster."""

from seed_rl.extras.ray import cluster


def test_each_metric_is_a_gauge_of_its_run(monkeypatch):
    values = []
    monkeypatch.setattr(cluster.Gauge, "set", lambda gauge, *given: values.append((gauge.info["name"], *given)))
    sink = cluster.Gauges("runs/a")
    for row in ({"env_frames": 1.0}, {"env_frames": 2.0, "loss/total": 0.5}):
        sink.write(row, 0.0)
    expected = [("seed_rl_env_frames", 1.0), ("seed_rl_env_frames", 2.0), ("seed_rl_loss_total", 0.5)]
    assert values == [(*each, {"run": "runs/a"}) for each in expected]
