"""Configurations of earlier versions, as recorded runs have them."""

import gzip
import json
import pathlib
import tarfile

import pytest

from seed_rl.experiment import ConfigError, config_files
from seed_rl.experiment.gone import GONE, without_gone
from seed_rl.experiment.saved_config import rebuild

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def settings_in(value):
    """Yield all settings of runs in a record."""
    if isinstance(value, dict) and "env.kind" in value:
        yield value
    else:
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from settings_in(part)


def settings_recorded(path):
    """All settings of runs in a file."""
    if path.suffix == ".json":
        return [*settings_in(json.loads(path.read_text()))]
    if path.suffix != ".tar":
        return []
    with tarfile.open(path) as bundle:
        lines = gzip.decompress(bundle.extractfile("journal.gz").read()).splitlines()
        starts = [json.loads(line.removeprefix(b"run ")) for line in lines if line.startswith(b"run ")]
        assert starts
        return [*settings_in([json.load(bundle.extractfile("config.json")), *starts])]


def test_every_recorded_configuration_is_read():
    found = {config_files.load(str(path)) for path in DOCS.rglob("*.gin")}
    records = [(str(path), each) for path in sorted(DOCS.rglob("*")) for each in settings_recorded(path)]
    different = {repr({**each, "env.game": "", "seed": 0}): (each, path) for path, each in records}
    found |= {rebuild(*each) for each in different.values()}
    assert len(found) > 30


@pytest.mark.parametrize("setting", [setting for setting, gone in GONE.items() if gone.without_effect])
def test_a_setting_that_had_an_effect_is_refused_by_its_name(setting):
    kind, _, name = setting.partition(".")
    group = {"Inference": "inference", "Logs": "logs"}.get(kind, "agent")
    for value in GONE[setting].without_effect:
        assert without_gone({f"{group}.kind": kind, f"{group}.{name}": value}, "here") == {f"{group}.kind": kind}
    with pytest.raises(ConfigError, match=f"^{setting} = 0.123 in here is gone since 2026-"):
        without_gone({f"{group}.kind": kind, f"{group}.{name}": 0.123}, "here")


def test_what_is_left_out_or_renamed_is_said_once(tmp_path, caplog):
    caplog.set_level("INFO")
    before = config_files.load("memory/r2d2", ["R2D2.layer_norm = 'all'"])
    settings = json.loads(json.dumps(before.to_json())) | {
        "agent.lstm_units": 32,
        "agent.layer_norm": True,
        "agent.reward_norm": False,
    }
    del settings["agent.core"], settings["agent.core_units"]
    for _ in range(2):
        assert config_files.differences(before, settings, str(tmp_path)) == []
        assert rebuild(settings, str(tmp_path)) == before
    names = "R2D2.layer_norm, R2D2.lstm_units, R2D2.reward_norm"
    said = f"settings of an earlier version are left out or renamed: {names}"
    assert [message for message in caplog.messages if names in message] == [said]
    assert without_gone({"agent.kind": "R2D2", "agent.lstm_units": 0}, "here")["agent.core"] == "none"
    assert without_gone({"agent.kind": "Mine", "agent.reward_norm": 3}, "here")["agent.reward_norm"] == 3


def test_a_gin_file_may_name_them_too_and_mistakes_after_them_have_their_line(tmp_path):
    (tmp_path / "old.gin").write_text(
        "import seed_rl.testing.memory as other\ninclude 'memory/r2d2.gin'\n"
        "  R2D2.lstm_units=8  # units\nLogs.film_interval_min = (\n  1,\n)\nR2D2.layer_norm = 'all'\n"
    )
    loaded = config_files.load(str(tmp_path / "old.gin"), ["R2D2.reward_norm = False", "Logs.film_interval_min = %x"])
    assert (loaded.agent.core, loaded.agent.core_units, loaded.agent.layer_norm) == ("lstm", 8, "all")
    (tmp_path / "wrong.gin").write_text("import seed_rl.agents.vtrace\n\nVTrace.gae = False\nVTrace.discont = 1\n")
    with pytest.raises(ConfigError, match=r"'discont'.* \(.*wrong.gin, line 4\)$"):
        config_files.load(str(tmp_path / "wrong.gin"))
    (tmp_path / "wrong.gin").write_text("import seed_rl.agents.vtrace\nVTrace.gae = True\n")
    with pytest.raises(ConfigError, match=f"^VTrace.gae = True in {tmp_path}/wrong.gin is gone since 20"):
        config_files.load(str(tmp_path / "wrong.gin"))
    with pytest.raises(ConfigError, match="VTrace.gae = '%gae' in gin_params is gone"):
        config_files.load("catch/vtrace", ["VTrace.gae = %gae"])
