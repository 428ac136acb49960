"""The locations of the packages; everything else is in pyproject.toml.

`agents/`, `envs/` and `configs/` are at the top of the repository and install inside `seed_rl`. The links
`seed_rl/agents -> ../agents` and so on show the same to tools that read the source tree without installing it.
"""

from setuptools import find_packages, setup

MOVED = ("agents", "envs", "configs")

setup(
    packages=[
        *find_packages(
            include=["seed_rl", "seed_rl.*"], exclude=[f"seed_rl.{name}{end}" for name in MOVED for end in ("", ".*")]
        ),
        *(
            f"seed_rl.{name}"
            for name in find_packages(include=[f"{name}{end}" for name in MOVED for end in ("", ".*")])
        ),
    ],
    package_dir={f"seed_rl.{name}": name for name in MOVED},
)
