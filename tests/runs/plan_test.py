"""`seed_rl plan`, checked against worked examples."""

import json

import pytest

from seed_rl.cli.main import main
from seed_rl.experiment import Actors, ConfigError, config_files
from seed_rl.runs.plan import CORES, DEVICE, INFERENCE, LOCK, LOCKED_SHARE, SERVER, UPDATES, Rates, find_rates, plan

RATES = Rates(
    env_steps=1000,
    act_ms=2,
    act_batch=32,
    update_ms=40,
    server_us=160,
    host_us=10,
    learner_cores=4,
    accelerators=1,
)
UNROLL = 21 * (128 + 4 + 1 + 1 + 4 + 4 + 12 + 4)
"""Bytes of 21 steps of Catch: padded observation, reward, done, truncated, two actions, three logits and the value."""


def load(name, *bindings):
    """An experiment and its agent."""
    experiment = config_files.load([name], list(bindings))
    return experiment, experiment.build_agent()


@pytest.fixture(scope="module")
def catch():
    return load("catch/vtrace")  # batches of 16 unrolls of 20, groups of 16, 50 bytes, 3 actions


def test_a_learner_with_an_accelerator(catch):
    needs = plan(*catch, RATES, rtt_seconds=0.004)
    # 2 ms / 32 + 40 ms / 320: 62.5 and 125 µs per step.
    rate = 1 / 187.5e-6
    assert next(iter(needs.limits)) == DEVICE
    assert needs.rate == pytest.approx(rate)
    lock = 1 / (LOCKED_SHARE * 20e-6)
    limits = {DEVICE: rate, INFERENCE: 1 / 72.5e-6, LOCK: lock, SERVER: 1e5, CORES: 4 / 20e-6}
    assert needs.limits == pytest.approx(limits)
    assert needs.processes == 1
    # 4 ms of network and two act steps, twice as long each; a group steps for 16 ms.
    assert needs.latency_seconds == pytest.approx(0.012)
    assert needs.actors == Actors(6, 2, 16, 0)
    # A step is 4 + 1 + 50 bytes, and 3 for each message; an action 4 bytes, and 2.
    assert needs.up == pytest.approx(rate / 16 * (899 * 1538 / 1448 + 100))
    assert needs.down == pytest.approx(rate / 16 * (66 * 1538 / 1448 + 100))
    assert needs.kept_bytes == 16 * UNROLL
    # One in progress of each environment, 16 queued, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (192 + 16 + 32 + 1) * UNROLL


def test_without_an_accelerator_the_transport_uses_the_same_cores(catch):
    needs = plan(*catch, RATES._replace(accelerators=0), rtt_seconds=0.0)
    # 10 µs per step of the server (160 per message of 16) and 10 of batching, by four cores.
    assert needs.rate == pytest.approx(1 / (187.5e-6 + 20e-6 / 4))


def test_of_several_accelerators_some_act_and_some_train():
    needs = plan(*load("catch/vtrace", "Experiment.batch_size = 18"), RATES._replace(accelerators=8), 0.004)
    assert (len(needs.devices.inference), len(needs.devices.training)) == (2, 6)
    # An update for 360 steps takes 40 ms / 6, beside acting; two threads batch and act: 72.5 µs per step.
    assert needs.limits[UPDATES] == pytest.approx(54_000)
    assert needs.rate == pytest.approx(2 / 72.5e-6)
    assert needs.latency_seconds == pytest.approx(0.008)
    assert needs.actors == Actors(28, 2, 16, 0)
    assert needs.kept_bytes == 18 * UNROLL
    # On each of the two: half of the environments, half of the queue, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (448 + 9 + 32 + 1) * UNROLL


@pytest.mark.parametrize(
    ("server_us", "host_us", "limit", "processes"),
    [
        (160, 10, INFERENCE, 1),  # per step 10 and 10 µs; two act steps at a time, a step in 36 µs
        (800, 0, SERVER, 2),  # 50 µs against 31: two processes do a step in 25
        (1600, 0, SERVER, 4),  # 100 against 31: 3.2 processes, but eight accelerators make equal shares for 4
        (640, 60, LOCK, 2),  # 65 against 61 to batch and act
        (1e6, 0, SERVER, 8),  # an accelerator can't be shared
    ],
)
def test_a_host_of_eight_accelerators_has_as_many_learner_processes_as_its_messages_need(
    server_us, host_us, limit, processes
):
    rates = RATES._replace(accelerators=8, update_ms=1, server_us=server_us, host_us=host_us, learner_cores=64)
    needs = plan(*load("catch/vtrace", "Experiment.batch_size = 18"), rates, 0.0)
    assert (next(iter(needs.limits)), needs.processes) == (limit, processes)


def test_devices_that_both_act_and_train_take_turns():
    experiment = load("catch/vtrace", "Devices.training = ('TPU:0', 'TPU:1')", "Devices.inference = ('TPU:0',)")
    needs = plan(*experiment, RATES._replace(accelerators=2), 0.004)
    assert needs.limits[DEVICE] == pytest.approx(1 / (62.5e-6 + 62.5e-6))


def test_a_replay_is_memory_and_more_updates_per_step():
    experiment, agent = load("catch/r2d2", "Replay.ratio = 2.0", "Replay.capacity = 5000")
    needs = plan(experiment, agent, RATES, 0.0)
    new_steps = experiment.batch_size * agent.unroll_length / 2
    assert needs.limits[DEVICE] == pytest.approx(1 / (62.5e-6 + 0.04 / new_steps))
    assert needs.kept_bytes % 5000 == 0
    assert needs.kept_bytes > 5000 * agent.unroll_length * 50


@pytest.mark.parametrize(
    ("changes", "rtt", "needed"),
    [
        ({}, 0.0, (10, 1)),  # no latency: one group per core
        ({}, 0.016, (10, 2)),  # a group steps for 16 ms: another one hides exactly as much
        ({}, 0.017, (10, 3)),
        ({"server_us": 1599}, 0.016, (11, 2)),
        ({"server_us": 32_000, "act_batch": 64}, 0.0, (1, 4)),  # one core, but batches of 64
    ],
)
def test_actors_keep_all_cores_stepping(catch, changes, rtt, needed):
    rates = RATES._replace(act_ms=1e-9, update_ms=1e-6, server_us=1600, act_batch=1)._replace(**changes)
    needs = plan(*catch, rates, rtt)
    assert needs.actors == Actors(*needed, 16, 0)


@pytest.fixture
def measured(tmp_path):
    """A directory with the fields of `scripts/bench.sh`'s files that a plan reads."""

    def median(value):
        return {"median": value, "repeats": [value]}

    def suite(name, rate, options):
        rates = [{"threads": 2, "agent_steps": median(rate)}]
        return {"suite": name, "description": {"suite": "atari", "options": options}, "rates": rates}

    def act(dtype, batch, ms):
        cell = {"network": "shallow", "dtype": dtype, "weights": 1_687_719, "batch": batch}
        return {**cell, "milliseconds": {"act": median(ms)}}

    def update(network, weights, length, batch, ms):
        cell = {"network": network, "dtype": "float32", "weights": weights, "length": length, "batch": batch}
        return {**cell, "milliseconds": median(ms)}

    def messages(size, streams, rate, us):
        row = {"group_size": size, "streams": streams, "through": "wire", "messages": median(rate)}
        return {**row, "server_thread_us": median(us), "inference_thread_us": median(us / 10)}

    missing = {"suite": "football", "description": {"suite": "football", "options": {}}, "rates": []}
    results = {
        "env": {
            "suites": [missing, suite("pong", 7000, {"game": "pong"}), suite("breakout", 6000, {"game": "breakout"})]
        },
        "act": {
            "act": [
                *(act("float32", batch, ms) for batch, ms in ((1, 1.0), (32, 3.0), (256, 20.0))),
                act("mixed_bfloat16", 32, 2.0),
            ]
        },
        "train": {
            "updates": [
                update("shallow", 1_687_719, 21, 8, 40.0),
                update("shallow", 1_687_719, 21, 32, 130.0),
                update("r2d2", 4_357_281, 41, 32, 360.0),
            ]
        },
        "transport": {
            "server": [messages(4, 1, 1000, 90.0), messages(4, 64, 9000, 40.0), messages(16, 64, 5000, 50.0)]
        },
    }
    for name, result in results.items():
        content = {"result": result, "hardware": {"cores": 8, "accelerators": ["GPU"]}}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return str(tmp_path)


def test_rates_are_those_of_the_nearest_measurement(measured):
    experiment, agent = load(
        "atari/vtrace", "Atari.game = 'breakout'", "Actors.envs_per_group = 12", "Inference.max_batch_size = 48"
    )
    rates, sources = find_rates(experiment, agent, {}, measured)
    assert rates == Rates(
        env_steps=3000,
        act_ms=3.0,
        act_batch=32,
        update_ms=pytest.approx(130.0 * experiment.batch_size / 32),
        server_us=40.0,
        host_us=4.0,
        learner_cores=8,
        accelerators=1,
    )
    assert sources["env_steps"] == "env.json: breakout"
    assert sources["act_ms"] == "act.json: shallow, float32, batch 32"
    assert sources["server_us"] == "transport.json: 4 environments per message"


def test_an_update_scales_with_the_steps_of_its_sequences(measured):
    experiment, agent = load("atari/r2d2")
    rates, sources = find_rates(experiment, agent, {**RATES._asdict(), "update_ms": None, "env_steps": None}, measured)
    assert rates.update_ms == pytest.approx(360.0 * 64 * 121 / (32 * 41))
    assert sources["env_steps"] == "env.json: pong", "the game nearest to it"


def test_messages_smaller_than_the_smallest_measured_ones_cost_as_much(measured):
    experiment, agent = load("atari/vtrace", "Actors.envs_per_group = 2")
    rates, _ = find_rates(experiment, agent, {}, measured)
    assert (rates.server_us, rates.host_us) == (40.0, 8.0)


def test_given_rates_take_precedence(measured):
    given = {"act_ms": 1, "act_batch": 256, "learner_cores": 96, "server_us": 30, "host_us": None}
    rates, sources = find_rates(*load("atari/vtrace"), given, measured)
    assert (rates.act_ms, rates.act_batch, rates.learner_cores, rates.accelerators) == (1, 256, 96, 0)
    assert (rates.server_us, rates.host_us) == (30, 5.0)
    assert (sources["act_ms"], sources["server_us"]) == ("given", "given")


@pytest.mark.parametrize(
    ("name", "bindings", "given", "sentence"),
    [
        ("catch/vtrace", [], {}, "no benchmark has measured environments of suite 'catch': give --env_steps"),
        ("catch/vtrace", [], {"env_steps": 1.0}, "act.json has no network of 3,524 weights in float32.* give --act_ms"),
        ("catch/vtrace", [], {"env_steps": 1.0, "act_ms": 1.0}, "train.json has no network of .* give --update_ms"),
        ("atari/vtrace", ["VTrace.dtype = 'mixed_bfloat16'"], {}, "train.json has no network of .* in mixed_bfloat16"),
        ("atari/vtrace", [], {"act_ms": 1.0}, "--act_ms requires --learner_cores"),
    ],
)
def test_an_unknown_rate_is_asked_for(measured, name, bindings, given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        find_rates(*load(name, *bindings), given, measured)


FLAGS = [f"--{name}={value}" for name, value in RATES._asdict().items()]


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--rtt_ms=nan", "--rtt_ms must be a finite number"),
        ("--env_steps=inf", "--env_steps must be a finite number"),
        ("--accelerators=-1", "flag --accelerators=-1"),
        ("--gin_param=Devices.training=('GPU:0', 'GPU:1')", "no device 'GPU:1', only GPU:0 (set by --accelerators"),
    ],
)
def test_the_impossible_is_refused_in_a_sentence(capsys, flag, sentence):
    assert main(["plan", "--gin_file=catch/vtrace", *FLAGS, flag]) == 2
    assert sentence in capsys.readouterr().err


def test_the_command_prints_the_plan(capsys):
    assert main(["plan", "--gin_file=catch/vtrace", *FLAGS, "--rtt_ms=4", "--machine_cores=4"]) == 0
    out = capsys.readouterr().out
    for words in (
        "5,333 frames/s",
        "limited by  act steps and updates",
        "13,793 steps/s  limit of the inference thread",
        "6 cores  to step environments; number of 4-core machines: 2",
        "2 groups per core",
        "192 environments",
        "2.81 Mbit/s",
        "0.454 Mbit/s",
        "0.8 MB",
        "--num_actors=6 --gin_param=Actors.groups_per_actor=2",
    ):
        assert words in out, out
    assert max(map(len, out.splitlines())) <= 100
