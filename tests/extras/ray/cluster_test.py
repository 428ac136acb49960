"""How a cluster that can't be used is reported."""

import pytest
import ray

from seed_rl.extras.ray.cluster import NoCluster, connected


def test_a_node_that_does_not_start_gets_a_sentence(monkeypatch, caplog):
    def init(*_, **__):
        raise Exception("The current node timed out during startup.\nMore about it")

    monkeypatch.setattr(ray, "init", init)
    caplog.set_level("INFO")
    sentence = "^can't use a Ray cluster at this machine: The current node timed out during startup. More about it$"
    with pytest.raises(NoCluster, match=sentence), connected(""):
        pass
    assert "which may take a minute" in caplog.text, "before it is silent"
