"""Which shipped experiments a test of all of them needs to try."""

from seed_rl.experiment import config_files

_ALIKE = (
    "atari/r2d2_pong",
    "atari/smoke",
    "dmlab/lasertag",
    "dmlab/rooms",
    "football/run_to_score",
    "football/self_play",
    "football/vtrace_checkpoints",
    "football/vtrace_medium",
    "football/vtrace_scoring",
    "gym/memory",
    "mujoco/sac_hopper",
    "mujoco/sac_walker",
    "pettingzoo/tic_tac_toe",
)

DISTINCT = [name for name in config_files.shipped_configs() if not name.startswith(_ALIKE)]
"""Shipped experiments, without those that differ from another only in sizes, costs and rewards."""
