"""A program that uses the library, and says which of its own settings the library has changed.

The library loads TensorFlow and Keras; the program has imported matplotlib and others before it goes on.
"""

import logging
import os
import random
import signal
import sys
import tempfile

import gin
import numpy as np

OURS = ("$GRPC_VERBOSITY", "$GRPC_EXPERIMENTS", "$KERAS_BACKEND", "$TF_ENABLE_ONEDNN_OPTS", "$TF_CPP_MIN_LOG_LEVEL")
"""Variables by which the library could be tempted to have it its way."""


@gin.configurable
def speed_of_the_host(metres_per_second):
    """A function of this program, which configures it by gin."""
    return metres_per_second


def settings():
    """All that a library must leave alone, by name; of packages only if they are imported."""
    found = {
        **{f"${name}": value for name, value in os.environ.items()},
        "random": repr(random.getstate()),
        "numpy.random": repr(np.random.get_state()),  # noqa: NPY002 - this is the state in question
        "gin's bindings": gin.config_str(),
        "gin's readers": [*gin.config._FILE_READERS],
        "gin's places": [*gin.config._LOCATION_PREFIXES],
        "signal handlers": {number: signal.getsignal(number) for number in signal.Signals},
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "log handlers": [*logging.getLogger().handlers],
        "log level": logging.getLogger().level,
    }
    if tensorflow := sys.modules.get("tensorflow"):
        from tensorflow.python.eager import context

        generator = tensorflow.random.get_global_generator()
        found["tensorflow.random"] = context.global_seed(), generator.state.numpy().tolist()
    if keras := sys.modules.get("keras"):
        names = "floatx", "epsilon", "image_data_format", "is_traceback_filtering_enabled", "dtype_policy"
        found["keras"] = {name: str(getattr(keras.config, name)()) for name in names}
        found["keras.random"] = keras.src.utils.rng_utils.get_random_seed()
    if matplotlib := sys.modules.get("matplotlib"):
        found["matplotlib"] = dict(matplotlib.rcParams.copy())  # without choosing a backend
    return found


def use(logdir):
    """Use the library, and yield the name of each use after it."""
    from seed_rl import api

    yield "import seed_rl.api"
    from tests.runs.conftest import BINDINGS

    experiment = api.load_experiment(["catch/vtrace"], [*BINDINGS, "Experiment.total_frames=160"])
    yield "load_experiment"
    with api.Run(experiment, logdir) as run:
        (*_, last) = run.train()
    assert last["learner_updates"] == 2, last
    yield "a run of two updates"
    api.load_policy(logdir)
    yield "load_policy"
    from seed_rl.evaluation import plot

    with plot._picture([os.path.join(logdir, "curve.png")], 1):
        pass
    yield "a plot"


def tell(step, before, after, names):
    """Print which of some settings a step has changed, and return whether any."""
    changed = [name for name in names if before.get(name) != after.get(name)]
    for name in changed:
        print(f"{step} changes {name}: {before.get(name)} -> {after.get(name)}"[:500])
    return bool(changed)


def main():
    """Use the library; print what changes, and return whether anything does."""
    gin.bind_parameter("speed_of_the_host.metres_per_second", 3)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    before = settings()
    from seed_rl.system.native_output import load_tensorflow

    load_tensorflow()  # which sets variables of its own
    changed = tell("load_tensorflow", before, settings(), [*OURS, *(name for name in before if name[0] != "$")])
    import cv2  # noqa: F401
    import gymnasium  # noqa: F401
    import keras
    import matplotlib  # noqa: F401

    keras.utils.set_random_seed(8)
    before = settings()
    with tempfile.TemporaryDirectory() as logdir:
        for step in use(logdir):
            after = settings()
            changed |= tell(step, before, after, before.keys() | after.keys())
            before = after
    return changed


if __name__ == "__main__":
    sys.exit(main())
