"""A recorded run of real processes is reproduced bit for bit."""

import importlib.util
import os
import shutil
import signal

from seed_rl.cli.main import main
from seed_rl.experiment.saved_config import load_saved
from seed_rl.extras.repeating import bundle as bundles
from seed_rl.extras.repeating import file, segments
from seed_rl.extras.repeating.replay import Progress, updates_behind
from seed_rl.weights import checkpoints

SETTINGS = (
    "Experiment.total_frames=1000000000",
    "Experiment.batch_size=8",
    "Experiment.minibatches=2",  # which are drawn
    "Actors.envs_per_group=2",
    "Actors.num_eval_envs=0",
    "Inference.max_batch_size=4",  # a group, or both
    "R2D2.hidden=16",
    "R2D2.core_units=16",
    "R2D2.head_hidden=16",
    "Replay.min_size=20",
    "Logs.digest_updates=2",
    "Logs.checkpoint_interval_s=0.1",
)
LEAGUE = (
    "import seed_rl.envs.pettingzoo",
    "import seed_rl.extras.league.settings",
    "Experiment.env=@PettingZoo()",
    "Experiment.league=@League()",
    "League.every_updates=1",
    "League.sets=1",
)
HAS_LEAGUE = importlib.util.find_spec("seed_rl.extras.league") is not None


def test_a_run_with_a_league_that_was_killed_and_continued_is_replayed_and_verified(
    runs, rows, wait_for, actors_of, gone, tmp_path, capsys, monkeypatch
):
    logdir = tmp_path / "run"
    newest = lambda: checkpoints.paths(str(logdir / "checkpoints"))[-1]  # noqa: E731
    settings = (f"--gin_param={setting}" for setting in (*(LEAGUE if HAS_LEAGUE else ()), *SETTINGS))
    train = ("train", "--gin_file=catch/r2d2", "--record", *settings)
    first = runs.start(*train, f"--logdir={logdir}")
    wait_for(lambda: [*logdir.glob("checkpoints/checkpoint-*[1-9]*.npz")], first)
    actors = actors_of(first.pid)
    first.process.kill()
    first.wait()
    wait_for(lambda: gone(actors))
    kept = shutil.copytree(logdir, tmp_path / "kept") / "checkpoints" / os.path.basename(newest())
    second = runs.start(*train, f"--logdir={logdir}")
    for starts_of_actor in (1, 2):
        wait_for(lambda count=starts_of_actor: second.text().count(" joined from ") == count, second)
        before = newest()
        wait_for(lambda before=before: newest() != before, second)
        if starts_of_actor == 1:
            (actor,) = actors_of(second.pid)
            actor.kill()
    second.process.send_signal(signal.SIGINT)
    assert second.wait() == 128 + signal.SIGINT, second.text()
    recorded = segments.load(str(logdir / file.NAME))
    acts = [line.split()[2:] for line in file.read(str(logdir / file.NAME)) if line.startswith("act ")]
    assert 2 in map(len, acts), "two groups shared a batch"
    assert any(len(part.needed_after) == 2 for part in recorded), "both acted"
    before_kill, last = recorded
    begin = updates_behind(kept)
    assert before_kill.end[0] == last.begin == begin > 0
    assert last.start["machine"]["environment"] == {"XLA_FLAGS": os.environ["XLA_FLAGS"]}
    if HAS_LEAGUE:
        assert rows(logdir)[-1]["league/members"] > 1

    bundle, place, end = tmp_path / "run.tar", tmp_path / "replayed", last.end[0]
    assert main(["bundle", str(logdir), f"--output={bundle}"]) == 0
    assert f"in updates 0 to {end} are equal" in runs.run("verify", bundle).text()
    part = (f"--from=checkpoints/{kept.name}", f"--until={begin + 2}", f"--logdir={place}")
    replayed = runs.run("replay", logdir, *part, cwd=kept.parent.parent)
    assert f"in updates {begin} to {begin + 2} are equal" in replayed.text()
    assert updates_behind(checkpoints.find(str(place), None)) == begin + 2
    assert load_saved(str(place)).logs == load_saved(str(logdir)).logs, "it can be continued as it was"

    def other(folder, directory, until):
        """Ends with the weights of the learner that was killed."""
        shutil.copytree(tmp_path / "kept", directory, dirs_exist_ok=True)
        yield Progress(0, end, end, 9, {"env_frames": 1.0})

    monkeypatch.setattr(bundles, "replay", other)
    assert main(["verify", str(bundle)]) == 1
    assert f"the policy in {bundle} isn't what the run ends with" in capsys.readouterr().err
