"""Distributed reinforcement learning with central inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

_RELEASE = "0.1.0"
__version__: str
"""The release and the commit, `0.1.0+g0123abcde`: git's in a clone, otherwise the one that the build recorded."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import pathlib
        import shutil
        import subprocess
        from importlib import metadata

        root = pathlib.Path(__file__).resolve().parents[1]
        if (root / ".git").exists() and shutil.which("git"):
            describe = ("describe", "--always", "--tags", f"--match=v{_RELEASE}", "--abbrev=9", "--dirty=.changed")
            done = subprocess.run(["git", *describe], cwd=root, capture_output=True, text=True)
            commit = done.stdout.strip().rpartition("-g")[2]
            return f"{_RELEASE}+g{commit}" if commit not in ("", f"v{_RELEASE}") else _RELEASE
        names = ("seed_rl", "seed_rl-actor")
        built = [own for name in names for own in metadata.distributions(name=name, path=[str(root)])]
        return built[0].version if built else _RELEASE
