"""Gin belongs to the whole program: what another library has there stays, and threads may load at once."""

import copy
import threading

import gin
import pytest

from seed_rl.experiment import ConfigError, config_files, saved_config

STATE = {
    *("_CONFIG", "_CONFIG_IS_LOCKED", "_FILE_READERS", "_FINALIZE_HOOKS", "_IMPORTS"),
    *("_INTERACTIVE_MODE", "_LOCATION_PREFIXES", "_OPERATIVE_CONFIG", "_PARSE_CONTEXTS", "_SINGLETONS"),
}


def state():
    return {name: copy.copy(getattr(gin.config, name)) for name in STATE}


@gin.configurable(module="another_library")
def _another(size=1, of=None):
    return size, of


@pytest.fixture
def another_library():
    """A configuration of another library, locked and in a scope, with a binding of our settings and a hook."""

    before = state()
    gin.config.register_finalize_hook(lambda config: pytest.fail("asked about the configuration of others"))
    gin.add_config_file_search_path("/elsewhere")
    gin.parse_config("import json\nsizes = 3\n_another.size = %sizes\nscope/_another.of = 'x'\nOptimizer.decay = 0.5")
    gin.config._set_config_is_locked(True)
    with gin.config_scope("scope"):
        yield
    vars(gin.config).update(before)


def test_a_program_keeps_its_own_configuration_whether_ours_loads_or_not(another_library):
    assert _another() == (3, "x")
    before = state()
    loaded = config_files.load("catch/vtrace", ["Catch.rows = 7"])
    assert state() == before
    assert (loaded.env.rows, loaded.optimizer.decay) == (7, 0.99), "the binding of the program is not ours"
    for wrong in (["Catch.rowz = 7"], ["Catch.rows = %nothing"], ["Catch.rows = 0"]):
        with pytest.raises(ConfigError):
            config_files.load("catch/vtrace", wrong)
        assert state() == before
    settings = loaded.to_json()
    del settings["optimizer.decay"]
    assert saved_config.rebuild(settings, "here") == loaded
    assert state() == before
    assert _another() == (3, "x")


def test_threads_may_load_at_once():
    names, found, together = ["catch/vtrace", "catch/r2d2", "gym/any", "atari/vtrace_fast"], {}, threading.Barrier(4)

    def load(name):
        together.wait()
        found[name] = [config_files.load(name, ["Experiment.seed = 3"]) for _ in range(10)]

    threads = [threading.Thread(target=load, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: [config_files.load(name, ["Experiment.seed = 3"])] * 10 for name in names}
