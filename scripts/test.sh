#!/usr/bin/env bash
# Usage: scripts/test.sh [--quick | --hostile | --accelerators] [ARGUMENTS of pytest]
#
# Runs every check that CI runs, after setting up the environment if need be. With --quick: the linters, the types and the
# unit tests, which need no football engine, browser, Ray cluster or learner process. With --hostile: the attacks of
# tests/hostile in full; the other runs have a short selection of them. With --accelerators: experiments of
# every family, compiled for TPUs and GPUs; the other runs compile the smallest, for TPUs.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
kind=dev
[[ " $* " != *' --quick '* ]] || kind=quick
[[ " $* " != *' --accelerators '* ]] || kind=accelerators
venv="$("$root/scripts/setup_venv.sh" "$kind")"
cd -- "$root"

printf '== ruff\n'
"$venv/bin/ruff" check .
"$venv/bin/ruff" format --check .
printf '== shellcheck\n'
"$venv/bin/shellcheck" --external-sources scripts/*.sh docker/*.sh docker/cloud/*.sh .ci/run
printf '== hadolint\n'
"$venv/bin/hadolint" docker/*Dockerfile
printf '== mypy\n'
"$venv/bin/python" -m mypy
printf '== pytest\n'
command -v openssl >/dev/null || scripts/apt_install.sh openssl # makes the tests' certificates
command -v node >/dev/null || scripts/apt_install.sh nodejs     # runs examples/node_actor.mjs
# One more worker than cores, because some tests wait for other processes; --numprocesses=0 runs all tests in this
# process, for a debugger.
workers=$(($(nproc) < 4 ? $(nproc) + 1 : 4))
# An attack in full may take an hour, a compiler minutes.
if [[ " $* " == *' --hostile '* || " $* " == *' --accelerators '* ]]; then
  set -- "$@" --override-ini=timeout=7200 --override-ini=faulthandler_timeout=7300
fi
exec "$venv/bin/python" -m pytest --numprocesses="$workers" --dist=worksteal "$@"
