"""Runs on a Ray cluster of several nodes that come and go, all of them on this machine."""

import contextlib
import logging
import os
import pathlib
import re
import secrets
import signal

import psutil
import pytest
import ray
from ray.cluster_utils import Cluster

from seed_rl.api import read_metrics
from seed_rl.runs.ray.cluster import connected, not_started
from seed_rl.runs.ray.fleet import ActorSpec, RayActors
from seed_rl.transport.credentials import ClientSecurity

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
ON_RAY = (
    "--gin_file=catch/vtrace",
    "--launcher=ray",
    "--gin_param=Logs.metrics_interval_s=0.2",
    "--gin_param=Actors.groups_per_actor=1",
    "--gin_param=Actors.envs_per_group=1",
    "--gin_param=Inference.max_batch_size=1",  # the only one to compile for
    "--gin_param=Experiment.batch_size=4",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """The directory in which learners on the nodes keep their copies of log directories."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def cluster(cache):
    """A head without CPUs, and a node with two CPUs and the resources of learners."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv("RAY_TMPDIR", "/tmp")  # the paths of its sockets have to be short
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_health_check_period_ms", "1000")
        patch.setenv("RAY_health_check_timeout_ms", "1000")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL})
        try:
            started.add_node(num_cpus=2, num_gpus=1, resources={"custom": 1}, **SMALL)
            yield started
        finally:
            started.shutdown()


def test_actors_follow_the_nodes_and_training_never_stops(cluster, runs, rows, wait_for, tmp_path):
    logdir = str(tmp_path / "catch")

    def wait_for_environments(number):
        """Until this many are connected and the learner has trained on their frames."""
        since = len(rows(logdir))
        found = wait_for(lambda: [row for row in rows(logdir)[since:] if row["environments"] == number], run)[0]
        wait_for(lambda: rows(logdir)[-1]["env_frames"] > found["env_frames"], run)

    first = cluster.add_node(num_cpus=1, **SMALL)
    token = secrets.token_hex(32)
    (tmp_path / "token").write_text(token)
    run = runs.start(
        "train",
        *ON_RAY,
        f"--ray_address={cluster.address}",
        f"--logdir={logdir}",
        f"--token_file={tmp_path}/token",
        "--ray_learner=here",
        "--num_actors=4",
        "--min_actors=2",
        "--total_frames=1000000000",
    )
    wait_for_environments(3)  # three of the four actors have room
    second = cluster.add_node(num_cpus=2, **SMALL)
    wait_for_environments(4)
    cluster.remove_node(first, allow_graceful=False)
    wait_for_environments(3)
    wait_for_environments(4)  # it has found room on the second node
    assert len(processes("ray::RayActor")) == 4
    assert not [p for p in psutil.process_iter(["cmdline"]) if token in " ".join(p.info["cmdline"] or [])]
    cluster.remove_node(second)
    wait_for_environments(2)

    run.process.send_signal(signal.SIGINT)
    assert run.wait(30) == 128 + signal.SIGINT, run.text()
    frames = [row["env_frames"] for row in rows(logdir)]
    assert frames == sorted(frames)
    assert len(os.listdir(f"{logdir}/checkpoints")) == 1
    assert not re.search("Traceback|raylet|@|retries", run.text()), run.text()
    logs = "".join((tmp_path / "catch" / "actors" / f"actor-{n}.log").read_text() for n in range(4))
    nodes = set(re.findall(r"\((\w{8})\) process \d+\] seed_rl.actor.loop: joined", logs))
    assert nodes >= {node.node_id[:8] for node in (first, second)}
    session = pathlib.Path(cluster.head_node.get_session_dir_path())
    logs = [path for place in (session, tmp_path / "catch") for path in place.rglob("*.log") if path.is_file()]
    assert len(logs) > 10
    assert not [path for path in logs if token in path.read_text(errors="replace")]
    wait_for(lambda: not processes("ray::RayActor"))
    assert len([node for node in cluster.list_all_nodes() if node.all_processes]) == 2


def test_a_learner_on_another_node_may_be_lost_and_its_directory_is_here(
    cluster, cache, runs, rows, wait_for, tmp_path
):
    logdir = tmp_path / "catch"
    arguments = ("train", *ON_RAY, f"--ray_address={cluster.address}", f"--logdir={logdir}", "--num_actors=2")
    arguments += ("--gin_param=Logs.checkpoint_interval_s=0.2", "--total_frames=1000000000")
    run = runs.start(*arguments)
    wait_for(lambda: list(logdir.glob("checkpoints/*")), run)
    for process in processes("ray::RayLearner"):
        process.kill()
    assert run.wait(30) == 1, run.text()
    assert run.text().splitlines()[-1].startswith("seed_rl train: the learner's process or node is lost; ")
    assert list(cache.glob("seed_rl/catch-*/checkpoints")), "left by the killed learner"

    before = max(row["env_frames"] for row in (*rows(logdir), {"env_frames": 0}))
    run = runs.start(*arguments)
    wait_for(lambda: any(row["env_frames"] > before for row in rows(logdir)), run)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(30) == 128 + signal.SIGINT, run.text()
    assert "continuing from" in run.text()
    end = rows(logdir)[-1]
    assert max(os.listdir(logdir / "checkpoints")) >= f"checkpoint-{int(end['learner_updates']):012d}", "one of the end"
    assert not re.search("Traceback|raylet", run.text()), run.text()
    names = {path.name for path in logdir.iterdir()}
    assert {"config.json", "config.gin", "metrics.jsonl", "learner.log", "native.log", "actors", "checkpoints"} <= names
    assert len(os.listdir(logdir / "actors")) == 2
    assert "the learner runs on " in (logdir / "learner.log").read_text()
    assert not list(cache.glob("seed_rl/catch-*/*")), "neither its own nor that of the killed learner"


def test_a_learner_elsewhere_uses_a_log_directory_in_a_store_and_nothing_is_written_here(cluster, runs, tmp_path):
    bucket, here = tmp_path / "bucket/run", tmp_path / "here"
    here.mkdir()
    arguments = ("train", *ON_RAY, f"--ray_address={cluster.address}", f"--logdir=file://{bucket}", "--num_actors=1")
    run = runs.start(*arguments, "--ray_learner=custom", "--total_frames=2000", cwd=here)
    assert run.wait(120) == 0, run.text()
    assert f"checkpoints and metrics in file://{bucket}" in run.text()
    assert read_metrics(f"file://{bucket}")[-1]["env_frames"] >= 2000
    assert "joined" in (bucket / "actors/actor-0.log").read_text()
    assert "serving actors at" in (bucket / "learner.log").read_text()
    assert list(here.iterdir()) == []


def test_a_failing_environment_ends_the_run_with_its_error(cluster, runs, tmp_path):
    gin_file = tmp_path / "failing.gin"
    gin_file.write_text("include 'catch/vtrace.gin'\nimport tests.support.failing_env\nExperiment.env = @Failing()\n")
    logdir = tmp_path / "run"
    place = (f"--ray_address={cluster.address}", "--ray_learner=here", f"--logdir={logdir}", "--num_actors=1")
    run = runs.run("train", *ON_RAY, f"--gin_file={gin_file}", *place)
    assert run.returncode == 1, run.text()
    sentence = (
        "actor 0 ended 3 times in a row: an environment of suite 'failing' failed in step: OSError: the game crashed"
    )
    assert run.text().splitlines()[-1].startswith(f"seed_rl train: {sentence}")
    assert "Traceback" not in run.text()
    assert "failing_env.py" in (logdir / "actors" / "actor-0.log").read_text(), "where it failed"


def test_environments_that_can_never_be_built_end_the_run_at_once(cluster, runs, tmp_path):
    gin_file = tmp_path / "unbuildable.gin"
    gin_file.write_text(
        "include 'catch/vtrace.gin'\nimport tests.support.failing_env\nExperiment.env = @Unbuildable()\n"
    )
    place = (f"--ray_address={cluster.address}", "--ray_learner=here", f"--logdir={tmp_path}/run", "--num_actors=1")
    run = runs.run("train", *ON_RAY, f"--gin_file={gin_file}", *place)
    assert run.returncode == 1, run.text()
    assert run.text().splitlines()[-1].startswith("seed_rl train: actor 0 can't run: no such thing here (its log: ")


def test_errors_of_the_learners_node_are_reported_here(cluster, runs, tmp_path):
    arguments = ("train", *ON_RAY, f"--ray_address={cluster.address}", f"--logdir={tmp_path}/run")
    run = runs.run(*arguments, "--gin_param=Devices.training=('GPU:0', 'GPU:1')")
    assert run.returncode == 1
    assert run.text().startswith("seed_rl train: no node of the cluster has 2 of the resource 'GPU' that the learner")
    run = runs.run(*arguments, "--server_address=203.0.113.1:1")
    assert run.returncode == 2
    assert run.text().splitlines()[-1].startswith("seed_rl train: cannot listen on 203.0.113.1:1: ")
    assert "Traceback" not in run.text()


def test_a_learner_waits_for_the_resource_until_ctrl_c(cluster, runs, wait_for, tmp_path):
    with connected(cluster.address):
        first = ray.remote(list).options(num_cpus=0, num_gpus=1).remote()
        ray.get(first.__ray_ready__.remote())
        run = runs.start("train", *ON_RAY, f"--ray_address={cluster.address}", f"--logdir={tmp_path}/run")
        wait_for(lambda: "the learner waits for a node with 1 GPU free" in run.text(), run)
        run.process.send_signal(signal.SIGINT)
        assert run.wait(30) == 128 + signal.SIGINT, run.text()


def test_too_few_actors_end_the_run(cluster, caplog, wait_for, tmp_path):
    caplog.set_level(logging.INFO)
    spec = ActorSpec(ClientSecurity(insecure=True), ("seed_rl.envs.catch",), logging.INFO)
    with connected(cluster.address):
        actors = RayActors(2, str(tmp_path), 1, 64.0, spec, patience=2.0)
        actors.start("127.0.0.1:1")
        wait_for(lambda: actors.failed)
        actors.stop()
    assert "0 of 2 actors run; the others wait for 64 CPUs each" in caplog.text
    sentence = (
        "0 actors run and --min_actors asks for 1: the cluster has had no room for them for 2 s (each takes 64 CPUs)"
    )
    assert str(actors.failed) == sentence


def test_a_process_that_cannot_start_says_why(cluster):
    class Lacking:
        def __init__(self):
            raise ModuleNotFoundError("No module named 'game'")

    with connected(cluster.address):
        lacking = ray.remote(Lacking).options(num_cpus=0).remote()
        with pytest.raises(ray.exceptions.RayActorError) as raised:
            ray.get(lacking.__ray_ready__.remote())
    assert not_started(raised.value).startswith("ModuleNotFoundError: No module named 'game' on ")


def processes(name):
    """Those of this cluster, whose nodes are children of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if name in " ".join(process.cmdline()):
                found.append(process)
    return found
