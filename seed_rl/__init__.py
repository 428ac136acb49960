"""Distributed reinforcement learning with central inference."""

_RELEASE = "0.1.0"


def __getattr__(name: str) -> str:
    """Return `__version__` with the commit, `0.1.0+g0123abcde`: git's in a clone, otherwise the one of the build."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pathlib
    import shutil
    import subprocess
    from importlib import metadata

    root = pathlib.Path(__file__).resolve().parents[1]
    if (root / ".git").exists() and shutil.which("git"):
        describe = ["git", "describe", "--always", "--exclude=*", "--abbrev=9", "--dirty=.changed"]
        commit = subprocess.run(describe, cwd=root, capture_output=True, text=True).stdout.strip()
        return f"{_RELEASE}+g{commit}" if commit else _RELEASE
    own = [*metadata.distributions(name="seed_rl", path=[str(root)])]
    own += metadata.distributions(name="seed_rl-actor", path=[str(root)])
    return own[0].version if own else _RELEASE
