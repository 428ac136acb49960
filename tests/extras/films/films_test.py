"""Films that a run makes of its policy."""

import contextlib
import itertools
import os
import pathlib
import signal
import subprocess
import tempfile
from unittest.mock import Mock

from absl import flags
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seed_rl.cli.main import main
from seed_rl.experiment import config_files
from seed_rl.extras.films import commands, during_training, film
from seed_rl.extras.films.during_training import Films, film_every
from seed_rl.extras.films.film import add_caption
from seed_rl.runs.assembly import Assembly, Parts
from seed_rl.runs.run import Run
from seed_rl.system import children


def rows(sinks, *frames):
    """A row for each minute of a run that makes 10 frames in it."""
    for n in frames:
        for sink in sinks:
            sink.write({"env_frames": n}, wall_time=6.0 * n)


def sinks_with_films(experiment, logdir, minutes):
    run = Run(experiment, logdir)
    film_every(minutes, run)
    (change,) = run.changes
    with contextlib.ExitStack() as cleanup:
        return change(Assembly()).sinks(Parts(experiment, logdir, cleanup), None)


def test_a_film_of_the_newest_checkpoint_reaches_tensorboard(saved_run, wait_for):
    logdir, _ = saved_run("catch/vtrace")
    sinks = sinks_with_films(config_files.load(["catch/vtrace"]), logdir, 2)
    rows(sinks, 0, 10, 20)
    wait_for(lambda: sinks[0].idle)
    rows(sinks, 30)
    for sink in sinks:
        sink.close()
    gif, mp4 = sorted(pathlib.Path(logdir, "films").glob("0*"))
    assert (gif.name, mp4.name) == ("000000000020.gif", "000000000020.mp4")
    (image,) = EventAccumulator(logdir).Reload().Images("film")
    assert (image.step, image.encoded_image_string) == (20, gif.read_bytes())


def add_checkpoint(logdir):
    (logdir / "checkpoints").mkdir(parents=True)
    (logdir / "checkpoints" / "checkpoint-1.npz").touch()


def test_a_film_may_import_the_modules_of_the_experiment_and_its_directory_has_a_comma(tmp_path, monkeypatch):
    begun, logdir = [], tmp_path / "one, two"
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: begun.append(command) or Mock())
    bindings = ["Gym.id = 'tests.support.registered_envs:Echo-v0'"]
    sinks = sinks_with_films(config_files.load(["gym/any"], bindings), str(logdir), 1)
    add_checkpoint(logdir)
    rows(sinks, 0, 10)
    assert {"--exit_with_parent", "--import_module=tests.support.registered_envs"} <= set(begun[0])
    (outputs,) = (word.partition("=")[2] for word in begun[0] if word.startswith("--output="))
    assert [path.partition("/films/")[0] for path in flags.ListParser().parse(outputs)] == [str(logdir)] * 2


def test_a_film_ends_when_it_takes_too_long_and_with_its_run(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(during_training, "MAX_SECONDS", 50.0)
    monkeypatch.setattr(children, "seed_rl", lambda *arguments: ["sleep", "1000"])
    add_checkpoint(tmp_path)
    films = Films(str(tmp_path), 0.0, [None])  # which can't be shown a film
    rows([films], 0)
    first = films.process
    rows([films], 5)
    assert films.process is first
    assert not films.idle
    rows([films], 10)
    assert first.returncode
    assert films.process is not first
    assert caplog.messages == ["no film at 0 frames: killed by SIGTERM"]
    (tmp_path / "films" / "000000000010.mp4.partial").touch()
    films.close()
    assert films.idle
    assert os.listdir(tmp_path / "films") == ["play.log"]


def test_a_film_whose_parent_has_ended_leaves_nothing(saved_run, tmp_path, monkeypatch):
    logdir, _ = saved_run("catch/vtrace")
    flags, pictures = [], itertools.count(1)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(commands, "stop_with_parent", flags.append)  # which then sends the signal

    def drawn(picture, text):
        if flags[0].raises and next(pictures) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return add_caption(picture, text)

    monkeypatch.setattr(film, "add_caption", drawn)
    output = f"--output={tmp_path}/play.mp4,{tmp_path}/play.gif"
    assert main(["play", f"--logdir={logdir}", output, "--exit_with_parent"]) == 128 + signal.SIGTERM
    assert next(pictures) == 4
    assert not list(tmp_path.glob("play.*"))
    assert os.listdir(temporary) == []
