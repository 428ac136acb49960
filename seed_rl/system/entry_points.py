"""Entry points: what installed packages, the neighbours in `seed_rl.extras` among them, declare by name."""

import contextlib
import importlib.util
from importlib.metadata import EntryPoint, entry_points


def declarations(group: str) -> list[EntryPoint]:
    """Return the entry points of a group by name, without those whose module has been taken away."""
    return sorted(filter(_is_there, entry_points(group=group)), key=lambda entry: entry.name)


def _is_there(entry: EntryPoint) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(entry.module) is not None
    return False
