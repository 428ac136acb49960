#!/usr/bin/env bash
# Regenerates the Python modules of seed_rl/transport/seed_rl.proto. Sets up the environment first if need be.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" quick)"
cd -- "$root"

# Paths from the root, so that the generated modules import each other as seed_rl.transport.seed_rl_pb2.
"$venv/bin/python" -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. --grpc_python_out=. \
  seed_rl/transport/seed_rl.proto
