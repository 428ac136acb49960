"""A program that uses the library, and says which of its own settings the library has changed.

With `loaded` as its argument, it has imported TensorFlow, Keras, matplotlib and others itself before.
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
    small = (
        "Experiment.total_frames=20",
        "Experiment.batch_size=2",
        "VTrace.unroll_length=5",
        "Actors.num_actors=1",
        "Actors.groups_per_actor=1",
        "Actors.envs_per_group=2",
        "Inference.max_batch_size=2",
    )
    experiment = api.load_experiment(["catch/vtrace"], [*small, "Actors.num_eval_envs=0"])
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


def main():
    """Use the library; print what changes, and return whether anything does."""
    gin.bind_parameter("speed_of_the_host.metres_per_second", 3)
    random.seed(7)
    np.random.seed(7)  # noqa: NPY002
    is_loaded = sys.argv[1:] == ["loaded"]
    if is_loaded:
        import cv2  # noqa: F401
        import gymnasium  # noqa: F401
        import keras
        import matplotlib  # noqa: F401

        keras.utils.set_random_seed(8)
    before, changed = settings(), False
    with tempfile.TemporaryDirectory() as logdir:
        for step in use(logdir):
            after = settings()
            for name in before.keys() | after.keys():
                is_new = name not in before and not name.startswith("$")  # of a package that was not loaded before
                if is_new or (name.startswith("$") and not is_loaded and name not in OURS):
                    continue  # other packages set variables when they are imported
                if before.get(name) != after.get(name):
                    changed = True
                    print(f"{step} changes {name}: {before.get(name)} -> {after.get(name)}"[:500])
            before = after
    return changed


if __name__ == "__main__":
    sys.exit(main())
