"""Every setting of an experiment, its files and its sizes."""

from seed_rl.experiment.experiment import Actors, ConfigError, Devices, Experiment, Inference, Logs, Replay

__all__ = ["Actors", "ConfigError", "Devices", "Experiment", "Inference", "Logs", "Replay"]
