#!/usr/bin/env bash
# Regenerates the Python module of seed_rl/transport/seed_rl.proto. Sets up the environment first if need be.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" quick)"
cd -- "$root"

# A path from the root, so that the descriptor is named like the module.
"$venv/bin/python" -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. seed_rl/transport/seed_rl.proto
