#!/usr/bin/env bash
# Films a policy: scripts/play.sh --logdir=pong_r2d2, or other FLAGS of `seed_rl play`. Sets up the environment first.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

exec "$venv/bin/python" -m seed_rl play "$@"
