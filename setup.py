"""The locations of the packages; everything else is in pyproject.toml.

`agents/`, `envs/` and `configs/` are at the top of the repository and install inside `seed_rl`, as the links
`seed_rl/agents -> ../agents` and so on show it. An editable install puts `src/`, with a link to `seed_rl`, on Python's
path: a module finder, which setuptools would install otherwise, comes after a clone named `seed_rl` in the working
directory, and the whole repository would bring `agents` and `envs` in the place of a user's own.
"""

from typing import Any

from setuptools import find_packages, setup


def locations(root: str) -> dict[str, Any]:
    """Return the arguments of `setup` that locate the packages below `root`, relative to the working directory."""
    return {"packages": find_packages(f"{root}/src"), "package_dir": {"": f"{root}/src"}}


if __name__ == "__main__":
    setup(**locations("."))
