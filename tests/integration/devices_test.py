"""A run on several devices, through the command line, in real processes."""

CATCH = (
    "--gin_file=catch/vtrace",
    "--gin_param=Logs.metrics_interval_s=0.2",
    "--gin_param=Actors.envs_per_group=1",
    "--gin_param=Inference.max_batch_size=1",  # the only one to compile for
    "--gin_param=Experiment.batch_size=4",
)
FRAMES_PER_BATCH = 4 * 20
FOUR_DEVICES = (
    "Devices.logical_cpus = 4",
    "Devices.inference = ('CPU:0', 'CPU:1')",
    "Devices.training = ('CPU:2', 'CPU:3')",
)


def test_a_run_on_several_devices_continues_on_one(runs, rows, documented, tmp_path):
    logdir = f"--logdir={tmp_path}/run"
    many = runs.run(
        "train", *CATCH, logdir, f"--total_frames={4 * FRAMES_PER_BATCH}", *(f"--gin_param={b}" for b in FOUR_DEVICES)
    )
    assert many.returncode == 0, many.text()
    assert "training on CPU:2, CPU:3, acting on CPU:0, CPU:1" in many.text()
    assert " W " not in many.text(), "no warnings"
    before = rows(f"{tmp_path}/run")[-1]
    assert 0 <= before["inference_updates_behind"] < 1, "the copies are refreshed after every update"
    one = runs.run("train", *CATCH, logdir, f"--total_frames={6 * FRAMES_PER_BATCH}")
    assert one.returncode == 0, one.text()
    assert f"continuing from {tmp_path}/run/checkpoints/checkpoint-{int(before['learner_updates']):012d}" in one.text()
    after = rows(f"{tmp_path}/run")[-1]
    assert before["env_frames"] == 4 * FRAMES_PER_BATCH
    assert after["env_frames"] == 6 * FRAMES_PER_BATCH
    updates = [row["learner_updates"] for row in (before, after)]
    assert updates == [4, 6], "a batch has the same size on any number of devices"
    assert {"loss/policy", "inference_updates_behind"} <= documented(f"{tmp_path}/run")
