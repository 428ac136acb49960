"""Distributed reinforcement learning with central inference."""

from __future__ import annotations

_RELEASE = "0.1.0"


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _version()


def _version() -> str:
    """Return the version with its commit, `0.1.0+g0123abcde`, from git in a clone, otherwise as the build recorded it."""
    import pathlib
    import shutil
    import subprocess
    from importlib import metadata

    root = pathlib.Path(__file__).resolve().parents[1]
    if (root / ".git").exists() and shutil.which("git"):
        describe = ("git", "describe", "--always", "--tags", f"--match=v{_RELEASE}", "--abbrev=9", "--dirty=.changed")
        done = subprocess.run(describe, cwd=root, capture_output=True, text=True)
        commit = done.stdout.strip().rpartition("-g")[2]
        return f"{_RELEASE}+g{commit}" if commit not in ("", f"v{_RELEASE}") else _RELEASE
    for name in ("seed_rl", "seed_rl-actor"):
        for recorded in metadata.distributions(name=name, path=[str(root)]):
            return recorded.version
    return _RELEASE
