#!/usr/bin/env bash
# Trains an agent: scripts/train.sh [FLAGS of `python -m seed_rl train`]. Sets up the environment first if need be.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

config=(--gin_file=atari/vtrace_fast)
[[ ${1:-} == -* || $# == 0 ]] || config=() # a gin file
for argument in "$@"; do
  case "$argument" in
    --) break ;;
    --gin_file | --gin_file=* | -gin_file | -gin_file=*) config=() && break ;;
    --logdir=*) [[ ! -e ${argument#--logdir=}/config.json ]] || config=() ;; # of a run to continue
  esac
done

exec "$venv/bin/python" -m seed_rl train "${config[@]}" "$@"
