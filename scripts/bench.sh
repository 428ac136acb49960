#!/usr/bin/env bash
# Runs benchmarks: scripts/bench.sh NAME... [FLAGS]; without a name it lists them.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" exec "$venv/bin/python" -m benchmarks "$@"
