"""The command line: mistakes, help, and missing packages."""

import inspect
import os
import re
import signal
import sys
import types

import pytest

from seed_rl import __main__, api
from seed_rl.cli.commands import evaluation, policies
from seed_rl.cli.main import commands, main
from seed_rl.errors import Failure, UsageError
from seed_rl.evaluation import episodes
from seed_rl.experiment import config_files
from seed_rl.runs import run

CATCH = "--gin_file=catch/vtrace"


def test_every_error_for_users_is_one_of_two_kinds():
    public = {name: getattr(api, name) for name in api.__all__}
    errors = {name: kind for name, kind in public.items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {"AddressError", "CheckpointError", "ConfigError", "EnvironmentFailed", "NoPolicy"} < errors.keys()
    assert {name for name, kind in errors.items() if issubclass(kind, UsageError) == issubclass(kind, Failure)} == set()


MISTAKES = {
    "trian": "trian",
    "doctor more": "unexpected argument 'more'",
    "train": "--gin_file",
    "train --logdir=nowhere": "nowhere",
    "train --logdri=x": "logdri",
    f"train {CATCH} --max_minutes=-1": "--max_minutes=-1",
    f"train {CATCH} --max_minutes=inf": "--max_minutes=inf: expected a finite number",
    f"train {CATCH} --agent=ddpg": "--agent=ddpg",
    f"train {CATCH} --gin_param=VTrace.hiden=1": "VTrace.hidden",
    f"train {CATCH} --logdir={__file__}": "cli_test.py",
    f"train --gin_file={sys.executable}": "not UTF-8",
    f"learner {CATCH} --server_address=0.0.0.0:1": "--insecure",
    f"train {CATCH} --tls_client_ca=nowhere": "--tls_client_ca nowhere",
    "actor --server_address=localhost": "localhost",
    "configs catch": "catch/vtrace",
    "envs xyz": "xyz",
    'envs check catch --options={"a":1}': "--options",
    "eval": "--logdir",
    "eval --logdir=nowhere": "there is no nowhere",
    "eval --logdir=x --output=nowhere/x": "nowhere/x",
    "eval a --logdir=b": "--logdir",
    "eval a b --output=c": "--output",
    "plot": "log directory",
    "plot x --output=curve": "curve",
}
"""Wrong command lines, and what their sentences name."""


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_gets_one_sentence_and_exit_code_2(line, refused):
    refused(line, re.escape(MISTAKES[line]))


@pytest.mark.parametrize(
    "command",
    [c for c in ("bundle nowhere", "eval", "export", "play", "plot nowhere") if c.split()[0] in commands()],
)
def test_what_output_names_is_kept_unless_overwrite_is_given(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.gif").mkdir()
    made = tmp_path / "folder.gif" / "file.gif"
    made.touch()
    place = made.parent if command == "export" else made
    words = [*command.split(), *([] if "nowhere" in command else ["--logdir=nowhere"]), f"--output={place}"]
    assert main(words) == 2
    assert f": --output {place} exists already: choose another name, or --overwrite\n" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) in (1, 2)
    assert re.search("(: |journal |there is no )nowhere", capsys.readouterr().err), "the next mistake"
    made.unlink()
    assert main(words) in (1, 2)
    assert "exists already" not in capsys.readouterr().err, "an empty folder is nothing to keep"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("train --gin_file=gym/any --agent=sac", "SAC needs continuous actions"),
        ("train --gin_file=gym/any --gin_param=Gym.id=Nope-v1", "Nope-v1 can't be made"),
        ("eval --checkpoint=7", "000000000007.npz can't be read"),
        ("eval", "no checkpoint yet"),
    ],
)
def test_some_mistakes_are_found_in_files_and_environments_before_tensorflow_is_loaded(
    line, word, capsys, tmp_path, monkeypatch
):
    for module in (run, policies):
        monkeypatch.setattr(module, "load_tensorflow", lambda: pytest.fail("TensorFlow was loaded"))
    if line.startswith("eval"):
        (tmp_path / "config.json").write_text("{}")
    assert main([*line.split(), f"--logdir={tmp_path}"]) == 2
    assert word in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("command", commands())
def test_help_shows_commands_and_their_arguments_flags_and_an_example(command, capsys):
    assert main(["--help"]) == 0
    assert f"  {command}" in capsys.readouterr().out
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    takes_any = inspect.getfullargspec(commands()[command].load().run).varargs is not None
    assert takes_any == ("\narguments: " in out)
    assert f"example: seed_rl {command}" in out
    assert "--log_level" in out
    assert len(out.splitlines()) <= 44, "it fits a screen"
    assert max(map(len, out.splitlines())) <= 80


def test_a_reader_that_leaves_is_no_error_and_a_full_disk_a_sentence(monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    sentence = "seed_rl: the output can't be written: No space left on device\n"
    for place, code, error in ((writing, 128 + signal.SIGPIPE, ""), ("/dev/full", 1, sentence)):
        with open(place, "w") as stdout, monkeypatch.context() as patch:  # what is left is flushed at its end
            patch.setattr(sys, "stdout", stdout)
            assert main(["configs"]) == code
        assert capsys.readouterr().err == error


def test_ctrl_c_ends_a_command_with_a_line(monkeypatch, capsys):

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(config_files, "summary", interrupted)
    monkeypatch.setattr(sys, "argv", ["seed_rl", "configs"])
    assert __main__.main() == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "seed_rl: interrupted\n")


def test_the_suites_and_their_tasks_are_listed(capsys):
    assert main(["envs"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^atari +A game; .*Atari.game: 10\d known\.$", out, re.MULTILINE)
    assert main(["envs", "atari", "football"]) == 0
    assert {"breakout", "academy_run_to_score"} < set(capsys.readouterr().out.splitlines())
    assert main(["envs", "catch"]) == 0
    assert "no tasks to choose from, only settings:\n\n# Height of the board; " in capsys.readouterr().out


def test_every_setting_of_an_experiment_is_shown_with_its_documentation_as_a_gin_file(capsys, tmp_path):
    assert main(["configs", "gym/any", "--agent=ppo", "--gin_param=PPO.hidden=7"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^# Units of each dense layer, .*(\n# .*)*\nPPO.hidden = 7$", shown, re.MULTILINE)
    settings = len(re.findall(r"^\w+\.\w+ =", shown, re.MULTILINE))
    assert settings > 70
    assert shown.count("\n# ") >= settings
    (tmp_path / "mine.gin").write_text(shown)
    assert config_files.load(str(tmp_path / "mine.gin")) == config_files.load("gym/any", "PPO.hidden = 7", "ppo")


@pytest.mark.parametrize(("means", "code"), [((1.0,), 0), ((1.5, 0.9), 1), ((float("nan"),), 1)])
def test_an_evaluation_below_the_required_mean_return_fails_with_a_sentence(means, code, monkeypatch, capsys):
    found = iter(types.SimpleNamespace(logdir=f"runs/{n}", mean=mean) for n, mean in enumerate(means))
    monkeypatch.setattr(evaluation, "_evaluate", lambda *arguments: next(found))
    monkeypatch.setattr(episodes, "text_over_runs", lambda evaluations: "")
    assert main(["eval", *(f"runs/{n}" for n in range(len(means))), "--at_least=1"]) == code
    worst = f"the mean return of runs/{len(means) - 1} is {means[-1]:g}, below --at_least=1"
    assert capsys.readouterr().err == (f"seed_rl eval: {worst}\n" if code else "")
