"""Runs on a Ray cluster of several nodes that come and go, all of them on this machine."""

import contextlib
import logging
import os
import pathlib
import re
import secrets
import signal
import threading

import psutil
import pytest
from ray.cluster_utils import Cluster

from seed_rl.errors import Failure
from seed_rl.extras.ray import fleet, hosts
from seed_rl.extras.ray.cluster import NoCluster, connecting
from seed_rl.extras.ray.fleet import RayActors
from seed_rl.transport.client import LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity
from tests.support.deadlines import within

SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
ON_RAY = (
    "--launcher=ray",
    "--insecure",
    "--gin_param=Logs.metrics_interval_s=0.2",
    "--gin_param=Actors.groups_per_actor=1",
    "--gin_param=Actors.envs_per_group=1",
    "--gin_param=Inference.max_batch_size=1",  # the only one to compile for
    "--gin_param=Experiment.batch_size=4",
)


def patient(start):
    """Starts nodes. Ray gives each of them 30 s, whatever else the machine does."""
    for _ in range(5):
        try:
            return start()
        except Exception as error:
            if "timed out during startup" not in str(error):
                raise
    raise AssertionError("no node of Ray has started within 30 s, five times")


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs, and a node with two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", "/tmp")  # the paths of its sockets have to be short
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_health_check_period_ms", "1000")
        patch.setenv("RAY_health_check_timeout_ms", f"{1000 * within(1):.0f}")
        patch.setenv("RAY_health_check_failure_threshold", "3")
        started = patient(lambda: Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SMALL}))
        try:
            patient(lambda: started.add_node(num_cpus=2, **SMALL))
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

    first = patient(lambda: cluster.add_node(num_cpus=1, **SMALL))
    token = secrets.token_hex(32)
    (tmp_path / "token").write_text(token)
    flags = (f"--ray_address={cluster.address}", f"--logdir={logdir}", f"--token_file={tmp_path}/token")
    flags += ("--num_actors=4", "--min_actors=2", "--total_frames=1000000000")
    (shadow := tmp_path / "shadow").mkdir()
    (shadow / "gin.py").write_text("raise ImportError('a module of the working directory')")
    run = runs.start("train", "--gin_file=catch/vtrace", *ON_RAY, *flags, cwd=shadow)
    wait_for_environments(3)  # three of the four actors have room
    cluster.remove_node(first, allow_graceful=False)
    wait_for_environments(2)
    second = patient(lambda: cluster.add_node(num_cpus=2, **SMALL))
    wait_for_environments(4)  # the lost one runs on the second node, and so does the one that waited
    actors = processes("ray::RayActor")
    assert len(actors) == 4
    actors[0].kill()
    wait_for(lambda: len(processes("ray::RayActor")) == 4 and actors[0] not in processes("ray::RayActor"), run)
    wait_for_environments(4)
    assert not [p for p in psutil.process_iter(["cmdline"]) if token in " ".join(p.info["cmdline"] or [])]

    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 128 + signal.SIGINT, run.text()
    assert os.listdir(f"{logdir}/checkpoints")
    assert "Traceback" not in run.text(), run.text()
    logs = "".join((tmp_path / "catch" / "actors" / f"actor-{n}.log").read_text() for n in range(4))
    nodes = set(re.findall(r"\((\w{8})\) process \d+\] seed_rl.actor.loop: joined", logs))
    assert nodes >= {node.node_id[:8] for node in (first, second)}
    session = pathlib.Path(cluster.head_node.get_session_dir_path())
    logs = [path for place in (session, tmp_path / "catch") for path in place.rglob("*.log") if path.is_file()]
    assert len(logs) > 10
    assert not [path for path in logs if token in path.read_text(errors="replace")]
    wait_for(lambda: not processes("ray::RayActor"))
    cluster.remove_node(second)


def test_learner_hosts_are_placed_on_nodes_of_their_own(cluster, runs, rows, wait_for, tmp_path):
    place = (f"--ray_address={cluster.address}", f"--logdir={tmp_path}/run", "--num_actors=1", "--actor_cpus=0.5")
    several = ("--num_learners=2", "--trusted_network", "--total_frames=1000000000")
    run = runs.start("train", "--gin_file=catch/vtrace", *ON_RAY, *place, *several)
    for directory in ("run", "run/host-1"):
        wait_for(lambda directory=directory: rows(tmp_path / directory), run, timeout=120)
    (other,) = [p for p in processes("--learner_host=1") if "ray::" not in p.cmdline()[0]]
    stranger = LearnerClient(re.search(r"serving actors at (\S+)", run.text())[1], ClientSecurity(insecure=True))
    with contextlib.closing(stranger), pytest.raises(Rejected, match="the learner asks for a token"):
        stranger.describe(within(10))
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 128 + signal.SIGINT, run.text()
    assert re.search(r"learner host 1 \([0-9.]+:\d+\) ended with exit code 75.* interrupted", run.text())
    assert "Traceback" not in run.text(), run.text()
    assert not other.is_running()


@pytest.fixture(scope="module")
def driver(cluster):
    """This process, connected to the cluster."""
    with connecting(cluster.address):
        yield


@pytest.mark.usefixtures("driver")
def test_learner_hosts_that_cannot_run_end_the_run(monkeypatch, wait_for):
    with hosts.other_hosts(2, ["train", "--nonsense"]) as others:
        sentence = r"learner host 1 \([0-9.]+:\d+\) ended with exit code 2: seed_rl train: .*nonsense"
        with pytest.raises(Failure, match=sentence):
            wait_for(lambda: others.watched(lambda stop: stop.is_set())(threading.Event()))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    monkeypatch.setattr(hosts, "SLOW_SECONDS", 0.1)
    monkeypatch.setattr(hosts, "PATIENCE_SECONDS", 0.1)
    with pytest.raises(NoCluster, match="5 learner hosts need as many nodes, with 2 GPU on each but this one, and"):
        hosts.other_hosts(5, []).__enter__()


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    ("module", "num_cpus", "sentence"),
    [
        ("nowhere.game", 1, "actor-[01] can't run: nowhere.game can't be imported"),
        ("seed_rl.envs.catch", 64, "only 0 actors have been running for 2 s, and --min_actors requires 1"),
    ],
)
def test_actors_that_can_never_run_end_the_run(module, num_cpus, sentence, caplog, monkeypatch, wait_for, tmp_path):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(fleet, "SLOW_SECONDS", 1.0 if num_cpus == 64 else 20.0)
    monkeypatch.setattr(fleet, "PATIENCE_SECONDS", 2.0 if num_cpus == 64 else within(60))
    actors = RayActors(2, str(tmp_path), 1, num_cpus, ClientSecurity(insecure=True), (module,))
    actors.start("127.0.0.1:1")
    wait_for(lambda: actors.failed)
    actors.stop()
    assert re.match(sentence, str(actors.failed))
    assert (num_cpus == 64) == ("the others are waiting for 64 CPUs each" in caplog.text)


def processes(name):
    """Those of this cluster, whose nodes are children of this process."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if name in " ".join(process.cmdline()):
                found.append(process)
    return found
