#!/usr/bin/env bash
# Pins every dependency of pyproject.toml in requirements/, with the hashes of its files, for Python 3.11 to 3.13 at once.
# Keeps the pins that still fit; pass --upgrade for the newest versions, or --upgrade-package NAME for one.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" quick)"
cd -- "$root"

# compile NAME ARGUMENT...: writes requirements/NAME.lock from the requirements on standard input and in the files among
# the arguments.
compile() {
  "$venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --custom-compile-command scripts/lock.sh --output-file "requirements/$1.lock" "${@:2}" -
}
# extra NAME: the requirements of an extra of pyproject.toml.
extra() {
  "$venv/bin/python" -c '
import importlib.metadata, sys
for requirement in importlib.metadata.requires("seed_rl"):
    if f"extra == \"{sys.argv[1]}\"" in requirement: print(requirement.partition(";")[0])' "$1"
}
pins=(--constraint requirements/runtime.lock)
# setuptools is in both locks because it builds the editable install; s3fs needs botocore, which needs an older dateutil.
compile runtime "$@" pyproject.toml <<<$'setuptools>=77\npython-dateutil<3'
compile dev --all-extras "${pins[@]}" "$@" pyproject.toml requirements/docs.in <<<'setuptools>=77'
compile docs --constraint requirements/dev.lock --no-annotate "$@" <requirements/docs.in
# The compiler for GPUs is a part of JAX, of the same version.
jax="$(sed -n 's/^jax==\([0-9.]*\).*/\1/p' requirements/dev.lock)"
compile accelerators --constraint requirements/dev.lock "$@" <<<"jax-cuda13-plugin[with-cuda]==$jax"
# Tools that make environments and packages; extras that are installed beside the lock of actors; the football engine's source.
pinned=(--constraint requirements/dev.lock --no-annotate)
compile build "${pinned[@]}" "$@" <<<$'psutil\nsetuptools\nuv\nwheel'
compile dmlab "${pinned[@]}" "$@" < <(extra dmlab)
compile football "${pinned[@]}" "$@" < <(extra gfootball)
compile mujoco "${pinned[@]}" "$@" < <(extra mujoco && extra box2d)
compile pettingzoo "${pinned[@]}" "$@" < <(extra pettingzoo)
compile engine --no-deps --no-annotate "$@" <<<'gfootball==2.10.2'
# The images: actors need no TensorFlow; learners get packages for log directories in Google Cloud Storage and S3, and metrics.
compile actor "${pins[@]}" "$@" <requirements/actor.in
store=$'gcsfs>=2024.2\nprometheus-client>=0.21\ns3fs>=2024.2'
compile cpu "${pins[@]}" "$@" pyproject.toml <<<"$store"
compile gpu "${pins[@]}" "$@" pyproject.toml <<<"tensorflow[and-cuda]"$'\n'"$store"
# TensorFlow for TPUs is a separate package that replaces `tensorflow` and needs the TensorBoard of its own release.
compile tpu --constraint <(sed -n '/^[a-z]/s/ \\$//p' requirements/runtime.lock | grep -vE '^(tensorflow|tensorboard)==') \
  --no-annotate --override <(printf 'tensorflow ; python_version < "3"\n') "$@" pyproject.toml requirements/tpu.in <<<"$store"
