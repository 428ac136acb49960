"""Runs that are recorded in a journal, or whose acting and learning alternate: both can be reproduced bit for bit."""

import functools
import os
from typing import Any

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.extras.repeating import file
from seed_rl.extras.repeating.file import JournalError
from seed_rl.extras.repeating.recorded import Recorded
from seed_rl.extras.repeating.synchronous import Synchronous
from seed_rl.inference.order import FREE, Order
from seed_rl.runs.run import Run
from seed_rl.settings import without_places
from seed_rl.system.files import explained
from seed_rl.system.machine import instructions, processor, uses_onednn, versions

_ENVIRONMENT = (
    *("XLA_FLAGS", "TF_XLA_FLAGS", "TF_NUM_INTRAOP_THREADS", "NVIDIA_TF32_OVERRIDE"),
    *("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"),
)
"""Environment variables with which TensorFlow computes differently."""


def make_repeatable(run: Run, record: bool, synchronous: bool = False) -> None:
    """Let a run, before it is opened, be recorded in a journal of its log directory, or be synchronous, or both.

    Raises:
      ConfigError: it can't be repeated.
    """
    if run.hosts.count > 1:
        what = f"a run of {run.hosts.count} learner hosts can't be recorded or synchronous"
        raise ConfigError(f"{what}, only one of a single host")
    if not run.experiment.env.repeatable:
        raise ConfigError(f"{run.experiment.env.title} does not repeat an episode for the same seed and actions")
    run.order = functools.partial(repeatable, record=record, synchronous=synchronous)


def repeatable(experiment: Experiment, logdir: str, record: bool, synchronous: bool) -> Order:
    """Make the computations of this process repeatable, and return the order of a run, which may `record` it.

    Raises:
      ConfigError: the journal can't be continued, or TensorFlow has been used before.
    """
    machine = deterministic(len(os.sched_getaffinity(0)))  # cores of this process
    order = Synchronous() if synchronous else FREE
    if not record:
        return order
    settings = {**without_places(experiment).to_json(), "init_from": experiment.init_from}  # it may be bundled
    start = {"settings": settings, "versions": versions(), "machine": machine}
    with explained(ConfigError, "the journal can't be continued", JournalError, OSError):
        journal = file.Writer(os.path.join(logdir, file.NAME))
    logs = experiment.logs
    return Recorded(journal, start, logs.digest_updates, logs.keep_every_frames, order)


def deterministic(threads: int) -> dict[str, Any]:
    """Make TensorFlow's computations repeatable for the rest of this process; return the machine that they depend on.

    Both an operation and the operations at a time get this number of threads.

    Raises:
      ConfigError: TensorFlow has been used with another number of threads.
    """
    import tensorflow as tf

    from seed_rl.system import devices

    config = tf.config.threading
    if (config.get_intra_op_parallelism_threads(), config.get_inter_op_parallelism_threads()) != (threads, threads):
        what = f"TensorFlow was used before with another number of threads than {threads}"
        with explained(ConfigError, what, RuntimeError):
            config.set_intra_op_parallelism_threads(threads)
            config.set_inter_op_parallelism_threads(threads)
    tf.config.experimental.enable_op_determinism()
    accelerators = [tf.config.experimental.get_device_details(device) for device in devices.accelerators()]
    names = [str(details.get("device_name", "TPU")) for details in accelerators]
    environment = {name: os.environ[name] for name in _ENVIRONMENT if os.environ.get(name)}
    return {
        "processor": processor(),
        "instructions": instructions(),
        "onednn": uses_onednn(),
        "dtype": devices.native_dtype()[0],  # what `auto` stands for
        "threads": threads,
        "accelerators": names,
        "environment": environment,
    }
