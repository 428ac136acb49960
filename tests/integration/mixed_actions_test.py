"""Actions of a choice and a number, with a mask for the choice: learned from both."""

from seed_rl.api import THREADS, Run, evaluate_run, load_experiment

TASK = ["Gym.id = 'tests.support.registered_envs:Workshop-v0'"]
SMALL = ["Actors.envs_per_group = 16", "Inference.max_batch_size = 16", "Experiment.batch_size = 8"]
VTRACE = ["VTrace.hidden = 32", "VTrace.unroll_length = 8", "Optimizer.learning_rate = 5e-3"]


def test_where_and_which_tool_are_learned(tmp_path):
    experiment = load_experiment(["gym/any"], [*TASK, *SMALL, *VTRACE, "Experiment.total_frames = 10_000"])
    with Run(experiment, str(tmp_path), actors=THREADS) as run:
        for _ in run.train():
            pass
    # The right tool in the middle earns 2, a perfect policy 8.
    assert evaluate_run(str(tmp_path), episodes=64, greedy=True).mean > 4
