"""What is published for the Hugging Face Hub."""

import hashlib
import json
import os

import numpy as np
import yaml

from seed_rl.cli.main import main
from seed_rl.evaluation.policy import load_policy
from seed_rl.extras.sharing import hub
from seed_rl.types import EnvOutput

FILES = {"README.md", "config.gin", "config.json", "model.safetensors", "policy.json", "replay.mp4"}


def acted(policy):
    rng = np.random.default_rng(1)
    policy.reset(8)
    nothing = np.zeros(8, np.float32), np.zeros(8, bool), np.zeros(8, bool)
    return [policy.act(EnvOutput(*nothing, rng.integers(0, 256, (8, 10, 5, 1), np.uint8))) for _ in range(20)]


def test_a_published_policy_is_complete_and_acts_as_before(saved_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(hub, "FILM_STEPS", 18)
    places = "Logs.wandb_project = 'my/secret'", "Experiment.init_from = '/my/secret'"
    scalars = "VTrace.value_norm = True"
    logdir, agent = saved_run("catch/vtrace", "Actors.greedy_evaluation = True", scalars, *places)
    directory = tmp_path / "ball"
    assert main(["export", "--format=hub", f"--logdir={logdir}", f"--output={directory}", "--episodes=4"]) == 0
    assert capsys.readouterr().out.endswith(f"hf upload ACCOUNT/NAME {directory}\n")
    assert set(os.listdir(directory)) == FILES
    assert not [path for path in directory.iterdir() if b"my/secret" in path.read_bytes()]

    before, after = load_policy(logdir), load_policy(str(directory))
    assert after.env_frames == 700
    for variable in before.agent.variables:
        if variable.name.endswith("kernel"):
            variable.assign(variable.numpy().astype(np.float16))
    np.testing.assert_array_equal(acted(after), acted(before))
    weights = (directory / "model.safetensors").read_bytes()
    assert len(weights) < 2.5 * agent.model.count_params() + 1_000, "float16"

    about = json.loads((directory / "policy.json").read_text())
    assert about["sha256"] == hashlib.sha256(weights).hexdigest()
    assert (about["low"] <= about["mean"] <= about["high"], about["greedy"], len(about["returns"])) == (True, True, 4)

    _, front, card = (directory / "README.md").read_text().split("---\n", 2)
    front = yaml.safe_load(front)
    ((name, (result,)),) = (model.values() for model in front["model-index"])
    assert (name, result["dataset"]["type"]) == ("ball", "catch")
    value = f"{about['mean']:.2f} +/- {np.std(about['returns'], ddof=1):.2f}"
    assert result["metrics"] == [{"name": "mean_reward", "type": "mean_reward", "value": value, "verified": False}]
    assert "over 4 greedy episodes with seed 1 |\n| trained for | 700 environment frames, by seed_rl " in card


def test_without_the_command_that_films_there_is_no_film(saved_run, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "commands", dict)
    hub.export(saved_run("catch/vtrace")[0], str(tmp_path / "ball"), episodes=2)
    assert set(os.listdir(tmp_path / "ball")) == FILES - {"replay.mp4"}


def test_nothing_in_a_text_of_the_settings_leads_out_of_its_place_on_the_card():
    heading = hub.plain("a\n# b <script>c</script> [d](e) | `f` & g\x1b", hub.MARKUP)
    assert heading == r"a # b \<script\>c\</script\> \[d\](e) \| \`f\` \& g\\x1b"
    assert hub.plain("a | b", "|") == r"a \| b"
    assert len(hub.plain("a" * 10**6, "|")) == 200
