"""A copy of the repository's sources."""

import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
_AT_THE_TOP = {"build", "dist", "docs", "logs", "runs"}


def copy_source(to, *more):
    """Copies the sources without caches, environments, results, and folders at the top that are named in addition."""
    caches = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")

    def ignored(folder, names):
        return caches(folder, names) | (_AT_THE_TOP | set(more) if pathlib.Path(folder) == ROOT else set())

    shutil.copytree(ROOT, to, symlinks=True, ignore=ignored, dirs_exist_ok=True)
