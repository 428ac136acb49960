#!/usr/bin/env bash
# Measures the parts and the whole: scripts/bench.sh [vtrace|r2d2] [--gin_file=NAME] [--seconds=N] [--json=FILE].
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

exec "$venv/bin/python" -m seed_rl.bench.pipeline "$@"
