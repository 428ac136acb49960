#!/usr/bin/env bash
# Measures: scripts/bench.sh NAME... [FLAGS]; without a name it lists what can be measured.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

exec "$venv/bin/python" -m benchmarks "$@"
