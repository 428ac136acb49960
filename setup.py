"""The locations of the packages; everything else is in pyproject.toml.

`agents/`, `envs/` and `configs/` are at the top of the repository and install inside `seed_rl`. The links
`seed_rl/agents -> ../agents` and so on show the same to tools that read the source tree without installing it.
"""

from typing import Any

from setuptools import find_packages, setup

MOVED = ("agents", "envs", "configs")


def locations(root: str) -> dict[str, Any]:
    """Return the arguments of `setup` that locate the packages below `root`, relative to the working directory."""
    links = [f"seed_rl.{name}{end}" for name in MOVED for end in ("", ".*")]
    moved = find_packages(root, include=[f"{name}{end}" for name in MOVED for end in ("", ".*")])
    return {
        "packages": [
            *find_packages(root, include=["seed_rl", "seed_rl.*"], exclude=links),
            *(f"seed_rl.{name}" for name in moved),
        ],
        "package_dir": {"seed_rl": f"{root}/seed_rl", **{f"seed_rl.{name}": f"{root}/{name}" for name in MOVED}},
    }


if __name__ == "__main__":
    setup(**locations("."))
