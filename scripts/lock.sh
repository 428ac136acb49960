#!/usr/bin/env bash
# Pins every dependency of pyproject.toml, for Python 3.10 to 3.12 at once. Keeps the pins that still fit; pass
# --upgrade for the newest versions, or --upgrade-package NAME for one.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" dev)"
cd -- "$root"

# compile LOCK ARGUMENT...: of the requirements on standard input, and those of the files among the arguments.
compile() {
  "$venv/bin/uv" pip compile --quiet --universal --python-version 3.10 --custom-compile-command scripts/lock.sh \
    --output-file "$@" -
}
# setuptools is in both locks because it builds the editable install.
compile requirements.lock "$@" pyproject.toml <<<'setuptools>=77'
compile requirements-dev.lock --all-extras --constraint requirements.lock "$@" pyproject.toml <<<'setuptools>=77'
# The images' own: actors do without TensorFlow, and a learner on a GPU needs CUDA's libraries.
compile requirements-actor.lock --constraint requirements.lock "$@" <requirements-actor.in
compile requirements-gpu.lock --constraint requirements.lock "$@" pyproject.toml <<<'tensorflow[and-cuda]'
