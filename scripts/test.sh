#!/usr/bin/env bash
# Runs every check that CI runs: scripts/test.sh [ARGUMENTS of pytest]. Sets up the environment first if need be.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" dev)"
cd -- "$root"

printf '== ruff\n'
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
printf '== shellcheck\n'
"$venv/bin/shellcheck" --external-sources scripts/*.sh docker/*.sh docker/cloud/*.sh .ci/run
printf '== mypy\n'
"$venv/bin/python" -m mypy
printf '== pytest\n'
command -v openssl >/dev/null || scripts/apt_install.sh openssl # makes the tests' certificates
# Tests are spread over the cores, one more at a time than there are, as some wait for processes of their own;
# --numprocesses=0 runs them in this process, for a debugger.
workers=$(($(nproc) < 4 ? $(nproc) + 1 : 4))
exec "$venv/bin/python" -m pytest --numprocesses="$workers" --dist=worksteal "$@"
