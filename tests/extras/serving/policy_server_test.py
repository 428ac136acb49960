"""A policy server with real clients, against the same policy in this process."""

import contextlib
import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seed_rl.evaluation.policy import load_policy
from seed_rl.extras.serving.policy_client import PolicyClient
from seed_rl.extras.serving.policy_server import PolicyServer
from seed_rl.transport.client import Disconnected, LearnerClient, Rejected
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.types import EnvOutput
from seed_rl.weights import checkpoints
from tests.transport import peers

RECURRENT = ("VTrace.core = 'lstm'", "VTrace.core_units = 16", "VTrace.frame_stack = 3")
FAST = "Logs.metrics_interval_s = 0.1"


def played(client, seed):
    """The actions that a client of two environments got in random steps, and those steps."""
    rng, actions, outputs = np.random.default_rng(seed), [], []
    for step in range(12):
        output = EnvOutput(
            rng.normal(size=2).astype(np.float32) * (0 < step != 7),
            np.full(2, step in (0, 4, 7)),
            np.full(2, step == 6),
            rng.integers(0, 256, (2, 10, 5, 1), np.uint8),
        )
        outputs.append(output)
        began = (output.observation, output.reward, output.done, output.last)
        actions.append(client.act(*began) if step else client.reset(output.observation))
    return np.array(actions), outputs


@contextlib.contextmanager
def served(server, address):
    """Serve in a thread; yield a function that waits for a row of which a condition holds."""
    stop, rows, changed = threading.Event(), [], threading.Condition()

    def run():
        for row in server.serve(address, ServerSecurity(), stop):
            with changed:
                rows.append(row)
                changed.notify()

    def wait(condition):
        with changed:
            assert changed.wait_for(lambda: rows and condition(rows[-1]), 60), rows[-1:]
            return rows[-1]

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run)
        try:
            yield wait
        finally:
            stop.set()
            running.result()


def test_clients_get_the_actions_of_the_newest_checkpoint(saved_run, wait_for, tmp_path, caplog):
    logdir, agent = saved_run("catch/vtrace", *RECURRENT, FAST)
    folder = f"{logdir}/checkpoints"
    server = PolicyServer(logdir, "newest", greedy=True, max_envs=4)
    address = f"unix:{tmp_path}/s"
    with served(server, address) as wait, ThreadPoolExecutor(2) as threads:
        wait(lambda row: row["env_frames"] == 700)
        for episodes in (8, 16):
            policy = load_policy(logdir, greedy=True)
            with PolicyClient(address, 2) as one, PolicyClient(address, 2) as other:
                assert one.env_spec == agent.env_spec
                with pytest.raises(Disconnected, match="there is room for 4 environments and 4 are taken"):
                    PolicyClient(address)
                refused = pytest.raises(Rejected, match="^the agent acts in environments with")
                with contextlib.closing(LearnerClient(address, ClientSecurity())) as stranger, refused:
                    stranger.join("run", peers.SPEC, [2], timeout=5.0)
                for playing in [threads.submit(played, one, 1), threads.submit(played, other, 2)]:
                    actions, outputs = playing.result()
                    policy.reset(2)
                    np.testing.assert_array_equal(actions, [policy.act(output) for output in outputs])
            wait(lambda row, ended=episodes: (row["episodes"], row["environments"]) == (ended, 0))
            if episodes == 8:
                (half := pathlib.Path(f"{folder}/checkpoint-000000000008.npz")).write_bytes(b"half of a file")
                wait_for(lambda: "checkpoint-000000000008.npz is damaged: " in caplog.text)
                half.unlink()
                save_other_weights(agent, folder)
                wait(lambda row: row["env_frames"] == 900)
    assert len([r for r in caplog.records if "is damaged" in r.message]) == 1, "it is read once"


def save_other_weights(agent, folder):
    rng = np.random.default_rng(9)
    variables = checkpoints.name_variables("agent", agent.variables)
    arrays = {name: rng.normal(0, 0.3, variable.shape).astype(np.float32) for name, variable in variables.items()}
    checkpoints.save(folder, 9, arrays, {"counters": {"env_frames": 900}}, keep=3)


def test_a_client_need_not_know_what_only_the_critic_reads(run_with_critic_keys, tmp_path):
    logdir = run_with_critic_keys(("mode", "camera/left", "pair/0", "pair/1"), FAST)
    address = f"unix:{tmp_path}/socket"
    with served(PolicyServer(logdir, None), address), PolicyClient(address, 2) as client:
        assert [name for name, _ in client.env_spec.observation_tensors()] == ["camera/right"]
        assert client.reset({"camera/right": np.zeros((2, 2, 3, 1), np.uint8)}).shape == (2,)
