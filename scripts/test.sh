#!/usr/bin/env bash
# Usage: scripts/test.sh [--quick | --hostile | --neighbours | --accelerators] [ARGUMENTS of pytest]
#
# Runs every check that CI runs, after setting up the environment if need be. With --quick: the linters, the types and the
# unit tests, which need no football engine, Ray cluster or learner process. With --hostile: the attacks of
# tests/hostile in full, of which a run without flags has a short selection. With --neighbours: the quick tests in copies of
# the tree from which one folder of seed_rl/extras is missing. With --accelerators: experiments of every family, compiled
# for TPUs and GPUs; the other runs compile the smallest, for TPUs.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
kind=dev
[[ " $* " != *' --quick '* ]] || kind=quick
[[ " $* " != *' --accelerators '* ]] || kind=accelerators
venv="$("$root/scripts/setup_venv.sh" "$kind")"
cd -- "$root"

unset PYTHONDONTWRITEBYTECODE # otherwise each process that a test starts compiles all modules again

# Beside the tests, which wait for other processes now and then.
check() {
  "$venv/bin/ruff" check .
  "$venv/bin/ruff" format --check .
  "$venv/bin/shellcheck" --external-sources scripts/*.sh docker/*.sh docker/cloud/*.sh examples/*.sh .ci/run
  "$venv/bin/hadolint" docker/*Dockerfile
  "$venv/bin/python" -m mypy
}
found="$(mktemp)"
set -m # a process group of its own, which one signal ends
(check) >"$found" 2>&1 &
set +m
checking=$!
trap 'kill -- "-$checking" 2>/dev/null || true; rm -f -- "$found"' EXIT

printf '== pytest\n'
command -v openssl >/dev/null || scripts/apt_install.sh openssl # makes the tests' certificates
# More workers than cores, because some tests wait for other processes; --numprocesses=0 runs all tests in this process, for
# a debugger.
workers=$(($(nproc) < 2 ? 2 : 4))
# An attack in full may take an hour, a compiler minutes.
if [[ " $* " == *' --hostile '* || " $* " == *' --neighbours '* || " $* " == *' --accelerators '* ]]; then
  set -- "$@" --timeout=7200 --override-ini=faulthandler_timeout=7300
fi
passed=yes
"$venv/bin/python" -m pytest --numprocesses="$workers" --dist=worksteal "$@" || passed=
printf '== ruff, shellcheck, hadolint, mypy\n'
wait "$checking" || passed=
cat -- "$found"
[[ -n $passed ]]
