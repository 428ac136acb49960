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
# The images' own: actors do without TensorFlow; learners may keep their runs in a bucket.
compile requirements-actor.lock --constraint requirements.lock "$@" <requirements-actor.in
# Google Cloud's: what s3fs needs doesn't fit the pins of the others.
store='gcsfs>=2024.2'
compile requirements-cpu.lock --constraint requirements.lock "$@" pyproject.toml <<<"$store"
compile requirements-gpu.lock --constraint requirements.lock "$@" pyproject.toml <<<"tensorflow[and-cuda]"$'\n'"$store"
# TensorFlow for TPUs is a package of its own, which takes the place of `tensorflow` and wants a TensorBoard of its age.
compile requirements-tpu.lock --constraint <(grep -vE '^(tensorflow|tensorboard)==' requirements.lock) \
  --no-annotate --override <(printf 'tensorflow ; python_version < "3"\n') "$@" pyproject.toml requirements-tpu.in <<<"$store"
