"""Entry points: what installed packages, the neighbours in `seed_rl.extras` among them, declare by name."""

import contextlib
import importlib.util
from importlib.metadata import EntryPoint, entry_points


def declarations(group: str) -> list[EntryPoint]:
    """Return the entry points of a group by name, without those whose module has been taken away."""
    found = []
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(entry.module):
                found.append(entry)
    return found
