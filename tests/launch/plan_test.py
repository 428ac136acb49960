"""`seed_rl plan`, against numbers worked out by hand."""

import dataclasses
import json
import pathlib
import re

import pytest

from seed_rl import config_files
from seed_rl.capacity import DEVICE, UPDATES, Accelerator, Training
from seed_rl.launch.cli import main
from seed_rl.launch.plan import LIMITS, Machine, plan
from seed_rl.launch.rates import Given, NoRate, rates

ALL_GIVEN = Given(
    env_steps=1000,
    act_ms=2,
    act_batch=32,
    update_ms=40,
    server_us=160,
    host_us=10,
    learner_cores=4,
    accelerators=1,
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
    return config_files.load(["catch/vtrace"])  # batches of 16 unrolls of 20, groups of 16, 50 bytes, 3 actions


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
    given = Given(**{**ALL_GIVEN.__dict__, "accelerators": 0})
    needs = plan(catch, rates(catch, given, str(tmp_path)), Machine(0.0, 16))
    # 10 µs per step of the server (160 per message of 16) and 10 of batching, by four cores.
    assert needs.learner.observations_per_second == pytest.approx(1 / (187.5e-6 + 20e-6 / 4))


def test_of_several_accelerators_some_act_and_some_train(tmp_path):
    experiment = config_files.load(["catch/vtrace"], ["Experiment.batch_size = 18"])
    found = rates(experiment, dataclasses.replace(ALL_GIVEN, accelerators=8), str(tmp_path))
    needs = plan(experiment, found, Machine(0.004, 4))
    assert (len(needs.devices.inference), len(needs.devices.training)) == (2, 6)
    # An update for 360 steps takes 40 ms / 6; nobody waits for one, and two threads batch and act: 72.5 µs per step.
    assert needs.learner.limits[UPDATES] == pytest.approx(54_000)
    assert needs.learner.observations_per_second == pytest.approx(min(4 / 20e-6, 2 / 72.5e-6))
    assert needs.latency_seconds == pytest.approx(0.008)
    assert needs.actors == (28, 2, 28 * 2 * 16)
    unroll = 21 * (50 + 4 + 1 + 4 + 4 + 12)
    assert needs.kept_bytes == 18 * unroll
    # On each of the two: half of the environments, half of the queue, 32 of one more batch, and a spare one.
    assert needs.unroll_bytes == (448 + 9 + 32 + 1) * unroll


def test_devices_that_both_act_and_train_take_turns(tmp_path):
    bindings = ["Devices.training = ('TPU:0', 'TPU:1')", "Devices.inference = ('TPU:0',)"]
    experiment = config_files.load(["catch/vtrace"], bindings)
    found = rates(experiment, dataclasses.replace(ALL_GIVEN, accelerators=2), str(tmp_path))
    needs = plan(experiment, found, Machine(0.004, 4))
    assert needs.learner.limits[DEVICE] == pytest.approx(1 / (62.5e-6 + 62.5e-6))


def test_a_replay_is_memory_and_more_updates_per_step(tmp_path):
    experiment = config_files.load(["catch/r2d2"], ["Replay.ratio = 2.0", "Replay.capacity = 5000"])
    found = rates(experiment, ALL_GIVEN, str(tmp_path))
    assert found.training.steps == experiment.batch_size * experiment.agent.unroll_length / 2
    needs = plan(experiment, found, Machine(0.0, 16))
    assert needs.kept_bytes % 5000 == 0
    assert needs.kept_bytes > 5000 * experiment.agent.unroll_length * 50


@pytest.fixture
def measured(tmp_path):
    """A directory with files of `scripts/bench.sh`, as far as a plan reads them."""

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


def test_the_table_of_the_papers_experiments_is_what_the_calculator_says():
    """The page's rounded numbers, from the measurements that are committed beside it."""
    docs = pathlib.Path(__file__).parents[2] / "docs"
    rows = re.findall(
        r"^\| `(\S+)` \| (\d+) \| ([\d,]+) \| ([a-z ]+) \| (\d+) \| ([\d,]+)[^|]*\| ([\d.]+) \|$",
        (docs / "scaling.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 5
    of_suites = {
        "atari": {"update_ms": 21},
        "football": {"update_ms": 14},
        "dmlab": {"update_ms": 34, "env_steps": 970},
    }
    for name, group_size, frames, limit, cores, environments, gbit in rows:
        experiment = config_files.load([name], [f"Actors.envs_per_group = {group_size}"])
        own = of_suites[name.partition("/")[0]]
        given = Given(**own, accelerators=1, learner_cores=32, act_ms=1, act_batch=256)
        needs = plan(experiment, rates(experiment, given, str(docs / "results/performance")), Machine(0.001, 16))
        rate = needs.learner.observations_per_second * experiment.env.action_repeat
        assert float(f"{rate:.3g}") == float(frames.replace(",", ""))
        assert limit in LIMITS[needs.learner.limit]
        assert (needs.actors.cores, needs.actors.environments) == (int(cores), int(environments.replace(",", "")))
        assert float(f"{needs.traffic.up * 8e-9:.2g}") == float(gbit)


def test_rates_are_those_of_the_nearest_measurement(measured):
    experiment = config_files.load(
        ["atari/vtrace"],
        ["Atari.game = 'breakout'", "Actors.envs_per_group = 12", "Inference.max_batch_size = 48"],
    )
    found = rates(experiment, Given(), measured)
    assert (found.env_steps, found.sources["environment"]) == (3000, "env.json: breakout")
    assert found.device == Accelerator(32, 0.003)
    steps = experiment.batch_size * experiment.agent.unroll_length
    assert found.training == pytest.approx(Training(steps, 0.130 * steps / (32 * 20)))
    assert found.costs.group_size == 4, "the largest that isn't larger than 12"
    assert (found.cores, found.accelerators) == (8, 1)


def test_an_update_of_r2d2_takes_its_burn_in_into_account(measured):
    experiment = config_files.load(["atari/r2d2"])
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
    found = rates(config_files.load(["atari/vtrace"], ["Actors.envs_per_group = 8"]), Given(), measured)
    assert (found.costs.group_size, found.costs.server_per_message) == (8, pytest.approx(16e-6))
    assert found.costs.transport_per_observation == pytest.approx(32e-6)
    assert found.costs.host_per_observation == pytest.approx(32e-6)


def test_what_is_given_wins(measured):
    experiment = config_files.load(["atari/vtrace"])
    found = rates(experiment, Given(act_ms=1, act_batch=256, learner_cores=96, server_us=30, accelerators=0), measured)
    assert found.device == Accelerator(256, 0.001)
    assert found.costs.server_per_message == pytest.approx(30e-6)
    assert found.costs.group_size == experiment.actors.envs_per_group
    assert (found.cores, found.accelerators) == (96, 0)
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
        rates(config_files.load(names, bindings), Given(**given), measured)


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--rtt_ms=nan", "--rtt_ms must be a finite number"),
        ("--env_steps=inf", "--env_steps must be a finite number"),
        ("--accelerators=-1", "flag --accelerators=-1"),
        ("--gin_param=Devices.training=('GPU:0', 'GPU:1')", "no device 'GPU:1': there are GPU:0 (--accelerators"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(capsys, tmp_path, flag, sentence):
    flags = [*ALL_FLAGS, "--accelerators=1", f"--measured={tmp_path}", flag]
    assert main(["plan", "--gin_file=catch/vtrace", *flags]) == 2
    assert sentence in capsys.readouterr().err


def test_the_command_says_it_in_words(capsys, tmp_path):
    flags = [*ALL_FLAGS, "--accelerators=1", "--rtt_ms=4", "--machine_cores=4", f"--measured={tmp_path}"]
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
