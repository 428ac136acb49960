"""Log directories that are not on this machine."""

import pytest

from seed_rl.api import CannotUse, ConfigError, open_run
from seed_rl.runs import run
from seed_rl.weights import policy_sources


def test_without_a_neighbour_that_knows_it_a_url_is_refused(small_catch, monkeypatch):
    for module in (run, policy_sources):
        monkeypatch.setattr(module, "declarations", lambda group: [])
    with pytest.raises(CannotUse, match="gs://a/run is a URL"):
        run.Run(small_catch, "gs://a/run").__enter__()
    with pytest.raises(ConfigError, match="gs://a/run is a URL"):
        open_run("gs://a/run").__enter__()
    with run.Run(small_catch, "runs/a").directory() as directory, open_run("runs/a") as found:
        assert directory == found == "runs/a"
