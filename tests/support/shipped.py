"""Which shipped experiments a test of all of them needs to try."""

from seed_rl import config_files

_ALIKE = ("dmlab/rooms", "dmlab/lasertag", "football/vtrace_checkpoints", "football/vtrace_scoring")

DISTINCT = [name for name in config_files.shipped_configs() if not name.startswith(_ALIKE)]
"""Without those whose agents are like another's but for costs and rewards."""
