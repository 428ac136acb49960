"""`seed_rl plan`, against numbers worked out by hand."""

import json

import pytest

from seed_rl import experiment as experiments
from seed_rl.capacity import DEVICE, Accelerator, Training
from seed_rl.launch.cli import main
from seed_rl.launch.plan import Machine, plan
from seed_rl.launch.rates import Given, NoRate, rates

ALL_GIVEN = Given(
    env_steps=1000,
    act_ms=2,
    act_batch=32,
    update_ms=40,
    server_us=160,
    host_us=10,
    learner_cores=4,
    accelerator=True,
)
ALL_FLAGS = [
    "--env_steps=1000",
    "--act_ms=2",
    "--act_batch=32",
    "--update_ms=40",
    "--server_us=160",
    "--host_us=10",
    "--learner_cores=4",
]


@pytest.fixture
def catch():
    return experiments.load(["catch/vtrace"])  # batches of 16 unrolls of 20, groups of 16, 50 bytes, 3 actions


def test_a_learner_with_an_accelerator(catch, tmp_path):
    needs = plan(catch, rates(catch, ALL_GIVEN, str(tmp_path)), Machine(rtt_seconds=0.004, actor_cores=4))
    # 2 ms / 32 + 40 ms / 320: 62.5 and 125 µs per step.
    rate = 1 / 187.5e-6
    assert needs.learner.limit == DEVICE
    assert needs.learner.observations_per_second == pytest.approx(rate)
    # 4 ms of network and two act steps, twice as long each; a group steps 16 ms.
    assert needs.latency_seconds == pytest.approx(0.012)
    assert needs.actors == (6, 2, 192)
    assert needs.machines == 2
    # A step is 4 + 1 + 50 bytes, and 3 for each message; an action 4 bytes, and 2.
    assert needs.traffic.up == pytest.approx(rate / 16 * (883 * 1538 / 1448 + 100))
    assert needs.traffic.down == pytest.approx(rate / 16 * (66 * 1538 / 1448 + 100))
    # 21 steps of observation, reward, done, action, the one before and three logits.
    unroll = 21 * (50 + 4 + 1 + 4 + 4 + 12)
    assert needs.kept_bytes == 16 * unroll
    # One in progress of each environment, 16 queued, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (192 + 16 + 32 + 1) * unroll


def test_without_an_accelerator_the_wire_takes_from_the_same_cores(catch, tmp_path):
    given = Given(**{**ALL_GIVEN.__dict__, "accelerator": False})
    needs = plan(catch, rates(catch, given, str(tmp_path)), Machine(0.0, 16))
    # 10 µs per step of the server (160 per message of 16) and 10 of batching, by four cores.
    assert needs.learner.observations_per_second == pytest.approx(1 / (187.5e-6 + 20e-6 / 4))


def test_a_replay_is_memory_and_more_updates_per_step(tmp_path):
    experiment = experiments.load(["catch/r2d2"], ["Replay.ratio = 2.0", "Replay.capacity = 5000"])
    found = rates(experiment, ALL_GIVEN, str(tmp_path))
    assert found.training.steps == experiment.batch_size * experiment.agent.unroll_length / 2
    needs = plan(experiment, found, Machine(0.0, 16))
    assert needs.kept_bytes % 5000 == 0
    assert needs.kept_bytes > 5000 * experiment.agent.unroll_length * 50


@pytest.fixture
def measured(tmp_path):
    """A directory with files of `seed_rl bench`, as far as a plan reads them."""

    def median(value):
        return {"median": value, "repeats": [value]}

    def write(name, result, **more):
        (tmp_path / f"{name}.json").write_text(json.dumps({"result": result, **more}))

    def suite(name, rate):
        return {"suite": name, "rates": [{"threads": 2, "agent_steps": median(rate)}]}

    def act(network, dtype, batch, ms):
        return {"network": network, "dtype": dtype, "batch": batch, "milliseconds": {"act": median(ms)}}

    def update(network, batch, ms):
        return {"network": network, "dtype": "float32", "batch": batch, "milliseconds": median(ms)}

    def fleet(size):
        names = ("server_per_message", "transport_per_observation", "host_per_observation")
        names += ("act_serial_per_observation", "act_parallel_per_observation")
        return {"group_size": size, "costs": {"group_size": size, **dict.fromkeys(names, size * 1e-6)}}

    missing = {"suite": "football", "missing": "not here", "rates": []}
    write("env", {"suites": [missing, suite("pong", 7000), suite("breakout", 6000)]})
    cells = [act("shallow", "float32", n, ms) for n, ms in ((1, 1.0), (32, 3.0), (256, 20.0))]
    write(
        "act",
        {"act": [*cells, act("shallow", "mixed_bfloat16", 32, 2.0), act("r2d2", "float32", 32, 6.0)]},
        hardware={"cores": 8, "accelerators": ["GPU"]},
    )
    updates = [update("shallow", 8, 40.0), update("shallow", 32, 130.0), update("r2d2", 32, 360.0)]
    write("train", {"unroll_length": 20, "updates": updates})
    write("fleet", {"groups": [fleet(1), fleet(4), fleet(16), {"group_size": 8, "hosts": []}]})
    return str(tmp_path)


def test_rates_are_those_of_the_nearest_measurement(measured):
    experiment = experiments.load(
        ["atari/vtrace"],
        ["Atari.game = 'breakout'", "Actors.envs_per_group = 12", "Inference.max_batch_size = 48"],
    )
    found = rates(experiment, Given(), measured)
    assert (found.env_steps, found.sources["environment"]) == (3000, "env.json: breakout")
    assert found.device == Accelerator(32, 0.003)
    steps = experiment.batch_size * experiment.agent.unroll_length
    assert found.training == pytest.approx(Training(steps, 0.130 * steps / (32 * 20)))
    assert found.costs.group_size == 4, "the largest that isn't larger than 12"
    assert (found.cores, found.on_cores) == (8, False)


def test_an_update_of_r2d2_takes_its_burn_in_into_account(measured):
    experiment = experiments.load(["atari/r2d2"])
    found = rates(experiment, Given(), measured)
    assert found.sources["environment"] == "env.json: pong", "the game nearest to it"
    # 64 sequences of 40 + 80 steps, measured were 32 of 20 + 20; 64 / 0.75 of them are new.
    assert found.training == pytest.approx(Training(64 / 0.75 * 80, 0.360 * 6))


def test_messages_smaller_than_all_that_were_measured_cost_as_much_as_those(measured):
    path = f"{measured}/fleet.json"
    with open(path, encoding="utf-8") as file:
        groups = json.load(file)["result"]["groups"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"result": {"groups": [group for group in groups if group["group_size"] == 16]}}, file)
    found = rates(experiments.load(["atari/vtrace"], ["Actors.envs_per_group = 8"]), Given(), measured)
    assert (found.costs.group_size, found.costs.server_per_message) == (8, pytest.approx(16e-6))
    assert found.costs.transport_per_observation == pytest.approx(32e-6)
    assert found.costs.host_per_observation == pytest.approx(32e-6)


def test_what_is_given_wins(measured):
    experiment = experiments.load(["atari/vtrace"])
    found = rates(
        experiment, Given(act_ms=1, act_batch=256, learner_cores=96, server_us=30, accelerator=False), measured
    )
    assert found.device == Accelerator(256, 0.001)
    assert found.costs.server_per_message == pytest.approx(30e-6)
    assert found.costs.group_size == experiment.actors.envs_per_group
    assert (found.cores, found.on_cores) == (96, True)
    assert (found.sources["act step"], found.sources["server"]) == ("given", "given")


@pytest.mark.parametrize(
    ("names", "bindings", "given", "sentence"),
    [
        (["catch/vtrace"], [], {}, "no benchmark has measured environments of suite 'catch': give --env_steps"),
        (["catch/vtrace"], [], {"env_steps": 1.0}, "no benchmark has measured this network .* give --act_ms"),
        (["dmlab/small"], [], {"env_steps": 1.0, "act_ms": 1.0}, "this network .* give --update_ms"),
        (["atari/vtrace"], ["VTrace.lstm_units = 256"], {}, "act.json has no shallow_lstm network in float32"),
        (["atari/vtrace"], ["VTrace.dtype = 'mixed_bfloat16'"], {}, "train.json has no shallow network in mixed"),
        (["atari/vtrace"], [], {"act_ms": 1.0}, "where --act_ms is given, --learner_cores must be too"),
    ],
)
def test_what_is_not_known_is_asked_for(measured, names, bindings, given, sentence):
    with pytest.raises(NoRate, match=sentence):
        rates(experiments.load(names, bindings), Given(**given), measured)


def test_the_command_says_it_in_words(capsys, tmp_path):
    flags = [*ALL_FLAGS, "--accelerator", "--rtt_ms=4", "--machine_cores=4", f"--measured={tmp_path}"]
    assert main(["plan", "--gin_file=catch/vtrace", *flags]) == 0
    out = capsys.readouterr().out
    for words in (
        "5,333 frames/s",
        "limited by  act steps and updates",
        "13,793 steps/s  would be the limit of the inference thread",
        "6 cores",
        "2 machines of 4 cores",
        "2 groups per core",
        "192 environments",
        "2.77 Mbit/s",
        "0.454 Mbit/s",
        "0.380 MB",
        "--num_actors=6 --gin_param=Actors.groups_per_actor=2",
    ):
        assert words in out, out
    assert max(map(len, out.splitlines())) <= 100
