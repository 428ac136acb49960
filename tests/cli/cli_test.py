"""The command line: mistakes, help, and missing packages."""

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import types

import pytest
from absl.flags import FlagValues

from seed_rl import __main__
from seed_rl.cli.commands import evaluation
from seed_rl.cli.flags import integer
from seed_rl.cli.main import COMMANDS, main
from seed_rl.evaluation import episodes
from seed_rl.experiment import config_files
from seed_rl.runs import run

ON_RAY = ["train", "--gin_file=catch/vtrace", "--launcher=ray"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["trian"], r"unknown command 'trian'; commands are train, learner, actor, .*\. Did you mean 'train'\?"),
        (["train", "--logdri=x"], "Unknown command line flag 'logdri'. Did you mean: logdir"),
        (
            ["train", "--num_actors=two", "--gin_file=catch/vtrace"],
            "flag --num_actors=two: expected a whole number such as",
        ),
        (["train", "--gin_file=catch/vtrace", "--target_return=much"], "flag --target_return=much: expected a finite"),
        (["train", "--gin_file=catch/vtrace", "--agent=ddpg"], "flag --agent=ddpg: value should be one of <ppo|pqn|"),
        (["train", "--gin_file=catch/vtrace", "more"], "unexpected argument 'more'"),
        (["train"], "--gin_file is required: a path, or one of atari/.*, atari/vtrace, "),
        (["train", "--gin_file=catch/vtracy"], "no gin file 'catch/vtracy'.*catch/vtrace"),
        (
            ["train", "--gin_file=catch/vtrace", "--gin_param=VTrace.discont=1"],
            r"doesn't have a parameter named 'discont'\. Did you mean 'discount'\?",
        ),
        (
            ["train", "--gin_file=catch/vtrace", "--gin_param=Vtrac.discount=1"],
            r"No configurable matching 'Vtrac'\. Did you mean 'VTrace'\?",
        ),
        (["train", "--gin_file=catch/vtrace", "--gin_param=Experiment.batch_size=lots"], "must be int, got 'lots'"),
        (["train", "--gin_file=catch/vtrace", "--gin_param=Optimizer.learning_rate=nan"], "must be float, got 'nan'"),
        (
            ["train", "--gin_file=atari/vtrace", "--gin_param=Atari.game=ALE/SpaceInvaders-v5"],
            r"one of \d+ ROMs \(`seed_rl envs atari`\), got 'ALE/SpaceInvaders-v5'. Did you mean 'space_invaders'\?",
        ),
        (["train", "--gin_file=catch/vtrace", "--gin_param=Optimizer.learning_rate=1e999"], "must be finite, got inf"),
        (["train", "--gin_file=catch/vtrace", "--gin_param=VTrace.hidden=100000000"], r"in \[0, 65536\], got 1"),
        (["train", "--gin_file=catch/vtrace", "--gin_param=VTrace.discount=2"], r"VTrace.discount must be in \[0, 1\]"),
        (["train", "--gin_file=catch/vtrace", "--gin_param=VTrace.torso=1"], "VTrace.torso must be str, got 1"),
        (
            ["train", "--gin_file=catch/vtrace", "--gin_param=VTrace.core=nets.mine:NotALayer"],
            "VTrace.core = 'nets.mine:NotALayer': there is no module nets; is its directory on PYTHONPATH",
        ),
        (["train", f"--gin_file={sys.executable}"], f"{sys.executable} is not a gin file: it is not UTF-8"),
        (["train", "--gin_file=catch/vtrace", "--logdir="], "flag --logdir=: must name a directory"),
        (["train", "--gin_file=catch/vtrace", "--total_frames=2.5"], "a whole number such as 300000, 300k, 10M or 1e6"),
        (["train", "--gin_file=catch/vtrace", "--total_frames=1e999999999"], "a whole number such as 300000"),
        (["train", "--gin_file=dmlab/small"], "DMLab needs deepmind_lab, which is not installed here: docs/dmlab.md"),
        (["envs", "atary"], "no environment suite named 'atary' is installed here"),
        (["train", "--gin_file=catch/vtrace", "--num_actors=0"], "Actors.num_actors must be at least 1, got 0"),
        (["train", "--gin_file=catch/vtrace", "--gin_param=oops"], "'oops': Couldn't parse statement"),
        (["train", "--gin_file=catch/vtrace", "--min_actors=1"], "--min_actors needs --launcher=ray"),
        (["train", "--gin_file=catch/vtrace", "--num_learners=2"], "--num_learners needs --launcher=ray"),
        ([*ON_RAY, "--num_learners=2"], "--num_learners=2 needs --trusted_network: learner hosts neither encrypt nor"),
        ([*ON_RAY, "--num_learners=2", "--learner_hosts=a:1,b:2"], "--num_learners starts all learner hosts, and"),
        ([*ON_RAY, "--min_actors=2"], "--min_actors=2 exceeds the maximum, Actors.num_actors = 1"),
        (
            [*ON_RAY, "--server_address=unix:/x"],
            "--server_address must be HOST:PORT to be reached from other nodes, got unix:/x",
        ),
        ([*ON_RAY, "--tls_key=x"], "--tls_cert is missing"),
        (["learner", "--gin_file=catch/vtrace", "--server_address=nowhere"], "nowhere"),
        (["learner", "--gin_file=catch/vtrace", "--server_address=0.0.0.0:1"], "--tls_cert.*--insecure"),
        (["learner", "--gin_file=catch/vtrace", "--tls_cert=x"], "--tls_key is missing"),
        (["actor", "--server_address=localhost"], "localhost"),
        (["eval", "--logdir=x", "--episodes=abc"], "flag --episodes=abc: expected a whole number such as"),
        (["eval", "--logdir=x", "--output=nowhere/x"], "--output nowhere/x can't be written: there is no directory"),
        (["plot", "x", "--output=nowhere/x.png"], "--output nowhere/x.png can't be written: there is no directory now"),
        (["plot", "x", f"--output={__file__}"], "exists already: choose another name, or --overwrite"),
        (["configs", "gym/nay"], "no gin file 'gym/nay'"),
        (["plot"], "expected at least one log directory"),
        (["plot", "/nowhere"], "/nowhere can't be read: "),
        (["actor", "--token_file=/nowhere"], "cannot read --token_file /nowhere"),
        (["train", "--gin_file=catch/vtrace", f"--logdir={__file__}"], "cli_test.py is a file, expected a directory"),
        (["eval"], "expected either --logdir, the log directory of a run, or --pretrained, a policy's name"),
        (["play", "--logdir=x", "--pretrained=pong"], "expected either --logdir, the log directory of a run, or --pre"),
        (["play", "--pretrained=pnog"], "no pretrained policy 'pnog'; known are .*catch.* Did you mean 'pong'?"),
        (["serve", "a", "--logdir=b"], "expected a single log directory"),
        (["serve", "a", "--server_address=0.0.0.0:1"], "--tls_cert.*--insecure"),
        (["play", "--logdir=x", "--output=x.avi"], "--output files must end in .mp4 or .gif, got x.avi"),
        (["export", "--batch_size=0"], "flag --batch_size=0: 0 is not a positive integer"),
        (["eval", "--logdir=nowhere"], "nowhere is not the log directory of a run: nowhere/config.json is missing"),
        (["eval", "a", "--logdir=b"], "give either log directories, possibly with --checkpoint=best, or --logdir"),
        (["eval", "a", "b", "--output=c"], "--output is for a single run; several runs write evaluation.json into"),
        (
            ["sweep", "--gin_file=catch/vtrace", "--seeds=0"],
            "--seeds must be a positive number of runs or a list of seeds, got 0",
        ),
        (["sweep", "--gin_file=catch/vtrace", "--seeds=a"], "--seeds must be whole numbers, got a"),
        (["sweep"], "--gin_file is required: a path, or one of "),
        (
            ["sweep", "--gin_file=catch/vtrace", "--logdir=gs://a/sweep"],
            "--logdir of a sweep must be a local directory, got gs://a/sweep; only `seed_rl train` supports object",
        ),
        (["sweep", "--gin_file=catch/vtrace", "--trials=3"], "--trials needs --search"),
        (
            ["sweep", "--gin_file=catch/vtrace", "--search=A.b=1..2", "--grid=A.b=1,2"],
            "--grid can't be combined with --search",
        ),
        (
            ["sweep", "--gin_file=catch/vtrace", "--search=Optimizer.lerning_rate=1e-4..1e-2"],
            r"doesn't have a parameter named 'lerning_rate'\. Did you mean 'learning_rate'\?",
        ),
        (
            ["sweep", "--gin_file=catch/vtrace", "--search=Optimizer.learning_rate=-1..1"],
            "Optimizer.learning_rate must be at least 0, got -1",
        ),
        (["train", "--gin_file=catch/vtrace", "--logdir=no://a/run"], "no://a/run can't be used here: .*no"),
        (["eval", "--logdir=no://a/run"], "no://a/run/config.json can't be used here: "),
        (["plot", "no://a/run"], "no://a/run can't be used here: "),
        (["plan"], "--gin_file is required: a path, or one of "),
        (["plan", "--gin_file=catch/vtrace", "--act_ms=0"], "flag --act_ms=0"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(arguments, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert re.search(sentence, err), err
    assert list(tmp_path.iterdir()) == [], "nothing was begun"


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--agent=sac", "SAC needs continuous actions, got .*2.*; VTrace and PPO accept any"),
        ("--gin_param=Gym.id=Nope-v1", "Nope-v1 can't be made: .*doesn't exist"),
    ],
)
def test_what_environments_rule_out_is_found_before_tensorflow_is_loaded(flag, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "load_tensorflow", lambda: pytest.fail("TensorFlow was loaded"))
    assert main(["train", "--gin_file=gym/any", flag, f"--logdir={tmp_path / 'run'}"]) == 2
    assert re.search(sentence, capsys.readouterr().err.splitlines()[-1])


@pytest.mark.parametrize("command", ["eval", "play", "export", "serve"])
def test_a_checkpoint_that_does_not_exist_is_found_before_tensorflow_is_loaded(command, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "load_tensorflow", lambda: pytest.fail("TensorFlow was loaded"))
    (tmp_path / "config.json").write_text("{}")
    for checkpoint, sentence in (
        ("7", f"{tmp_path}/checkpoints/checkpoint-000000000007.npz can't be read: No such file or directory"),
        ("best", f"{tmp_path} has no best checkpoint: "),
    ):
        assert main([command, f"--logdir={tmp_path}", f"--checkpoint={checkpoint}"]) == 2
        assert capsys.readouterr().err.startswith(f"seed_rl {command}: {sentence}")
    assert main([command, f"--logdir={tmp_path}"]) == 2
    assert f"{tmp_path} has no checkpoint yet" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["", "file://"])
def test_a_log_directory_of_another_configuration_is_refused(kind, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    logdir = str(tmp_path / "run")
    config_files.save_config(config_files.load(["catch/vtrace"], ["Optimizer.learning_rate = 0.1"]), logdir)
    assert main(["train", "--gin_file=catch/vtrace", f"--logdir={kind}{logdir}"]) == 2
    sentence = (
        f"{kind}{logdir} holds a run with another configuration: optimizer.learning_rate was 0.1 and is now 0.001."
    )
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_flag_and_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"example: seed_rl {command}" in out
    assert len(out.splitlines()) < 44, "it fits a screen"
    assert "--log_level" in out
    assert max(map(len, out.splitlines())) <= 80


def test_overview(capsys):
    assert main([]) == 2
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {command}" in out for command in COMMANDS)


def test_a_reader_that_leaves_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        command = [sys.executable, "-m", "seed_rl", "configs"]
        done = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("command", "entered"), [("eval", "load_tensorflow"), ("play", "load_tensorflow"), ("configs", "summary")]
)
def test_ctrl_c_ends_a_command_with_a_line(command, entered, monkeypatch, capsys, tmp_path):
    """Where the process spends its time: in loading TensorFlow, say."""

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation.checkpoints, "find", lambda *arguments: "")
    monkeypatch.setattr(evaluation, "load_tensorflow", interrupted)
    monkeypatch.setattr(config_files, "summary", interrupted)
    monkeypatch.setattr(sys, "argv", ["seed_rl", command, *([] if command == "configs" else [f"--logdir={tmp_path}"])])
    assert __main__.main() == 128 + signal.SIGINT
    assert capsys.readouterr() == ("", "seed_rl: interrupted\n")


def test_counts_may_be_written_as_people_write_them():
    for text, expected in (
        ("300000", 300_000),
        ("300k", 300_000),
        ("1.5M", 1_500_000),
        ("1e6", 10**6),
        ("1_000", 1000),
    ):
        values = FlagValues()
        integer("frames", None, "")(values)
        values(["program", f"--frames={text}"])
        assert values.frames == expected


def test_the_suites_and_their_tasks_are_listed(capsys):
    assert main(["envs"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^atari +A game; .*Atari.game: 10\d known\.$", out, re.MULTILINE)
    assert main(["envs", "atari", "football"]) == 0
    assert {"breakout", "academy_run_to_score"} < set(capsys.readouterr().out.splitlines())


def test_every_setting_of_an_experiment_is_shown_with_its_documentation_as_a_gin_file(capsys, tmp_path):
    assert main(["configs", "gym/any", "--agent=ppo", "--gin_param=PPO.hidden=7"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^# Units of each dense layer, .*(\n# .*)*\nPPO.hidden = 7$", shown, re.MULTILINE)
    settings = len(re.findall(r"^\w+\.\w+ =", shown, re.MULTILINE))
    assert settings > 70
    assert shown.count("\n# ") >= settings
    (tmp_path / "mine.gin").write_text(shown)
    assert config_files.load(str(tmp_path / "mine.gin")) == config_files.load("gym/any", "PPO.hidden = 7", "ppo")


def test_a_suite_without_tasks_shows_its_settings(capsys):
    assert main(["envs", "catch"]) == 0
    assert "no tasks to choose from, only settings:\n\n# Height of the board; " in capsys.readouterr().out


def test_a_missing_import_is_named(tmp_path):
    """The process has imported nothing else yet."""
    (tmp_path / "mine.gin").write_text("Experiment.env = @Atari()")
    command = [sys.executable, "-m", "seed_rl", "configs", "mine.gin"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Add the line `import seed_rl.envs.atari` to the file." in done.stderr


@pytest.mark.parametrize(("means", "code"), [((1.0,), 0), ((1.5, 0.9), 1), ((float("nan"),), 1)])
def test_an_evaluation_below_the_required_mean_return_fails_with_a_sentence(means, code, monkeypatch, capsys):
    found = iter(types.SimpleNamespace(logdir=f"runs/{n}", mean=mean) for n, mean in enumerate(means))
    monkeypatch.setattr(evaluation, "_evaluated", lambda *arguments: next(found))
    monkeypatch.setattr(episodes, "text_over_runs", lambda evaluations: "")
    assert main(["eval", *(f"runs/{n}" for n in range(len(means))), "--at_least=1"]) == code
    worst = f"the mean return of runs/{len(means) - 1} is {means[-1]:g}, below --at_least=1"
    assert capsys.readouterr().err == (f"seed_rl eval: {worst}\n" if code else "")


def test_without_ray_its_launcher_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for name in [name for name in sys.modules if name.startswith("seed_rl.runs.ray")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(ON_RAY) == 2
    assert (
        capsys.readouterr().err == "seed_rl train: --launcher=ray needs Ray: pip install 'ray[default]' cryptography\n"
    )


def test_without_optuna_a_search_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    for name in [name for name in sys.modules if name.startswith("seed_rl.studies.search")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["sweep", "--gin_file=catch/vtrace", "--search=Catch.rows=5,7"]) == 2
    assert capsys.readouterr().err == "seed_rl sweep: --search needs Optuna: pip install optuna\n"


def test_an_unreachable_cluster_is_reported_in_a_sentence(capsys):
    for flag, sentence in (
        ("--ray_address=ray://head:10001", "(from elsewhere, use `ray job submit -- seed_rl train"),
        ("--ray_address=127.0.0.1:1", "seed_rl train: can't reach a Ray cluster at 127.0.0.1:1: Connection refused"),
        ("--address=http://head:8265", "--ray_address or RAY_ADDRESS must be the HOST:PORT of the cluster's head"),
    ):
        assert main([*ON_RAY, flag]) == 1
        assert sentence in capsys.readouterr().err


def test_the_port_of_another_server_is_reported_at_once(capsys):
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as dashboard:
        threading.Thread(target=dashboard.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{dashboard.server_port}"
        assert main([*ON_RAY, f"--ray_address={address}"]) == 1
        dashboard.shutdown()
    assert f"the server at {address} is not the head of a Ray cluster" in capsys.readouterr().err
