#!/usr/bin/env bash
# Trains an agent: scripts/train.sh [FLAGS of `python -m seed_rl train`]. Sets up the environment first if need be.
set -euo pipefail

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" runtime)"

config=(--gin_file=atari/vtrace_fast)
previous=""
for argument in "$@"; do
  place=""
  case $argument in
    --gin_file* | -gin_file*) config=() ;;
    --logdir=* | -logdir=*) place="${argument#*=}" ;;
    -*) ;;
    *)
      [[ $previous != --logdir && $previous != -logdir ]] || place="$argument"
      [[ $argument != *.gin && ! -f $root/configs/$argument.gin ]] || config=()
      ;;
  esac
  [[ -z $place || ! -e $place/config.json ]] || config=() # a run to continue
  previous="$argument"
done

exec "$venv/bin/python" -m seed_rl train "${config[@]}" "$@"
