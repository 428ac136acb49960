#!/usr/bin/env bash
# Usage: docker/run_local.sh [FLAGS] EXPERIMENT ACTORS ENVS
#
# Builds the images and starts a learner, actors and TensorBoard in containers; Ctrl-C ends them with a last checkpoint.
# Repeating the command continues the run.
#
#   EXPERIMENT   such as atari/vtrace_pong, football/academy or dmlab/small, which fit a small machine; seed_rl configs
#                lists them all
#   ACTORS       actor containers
#   ENVS         environments in each
#
#   --gin_param=BINDING   a setting, such as "Atari.game='breakout'"; may be repeated
#   --runs=DIRECTORY      parent directory of runs on this machine; default: runs
#   --run=NAME            the run's own directory in it; default: the experiment's name
#   --secrets=DIRECTORY   of docker/make_secrets.sh, made if missing; default: docker/secrets
#   --gpu                 the learner runs on this machine's NVIDIA GPUs
#   --dry_run             print the commands without running them
set -euo pipefail

# shellcheck source=docker/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

flags=([runs]=runs [run]='' [secrets]="$docker/secrets" [gpu]=no [dry_run]=no)
read_flags "$@"
((${#places[@]} == 3)) || die "EXPERIMENT, ACTORS and ENVS are needed, got ${#places[@]} of them; --help describes them"
gin_file="${places[0]%.gin}" actors="${places[1]}" envs="${places[2]}"

check_form EXPERIMENT "$gin_file" '[a-z0-9_]+/[a-z0-9_]+' 'the name of an experiment such as atari/vtrace_pong'
check_experiment "$gin_file"
check_number ACTORS "$actors"
check_number ENVS "$envs"
run="${flags[run]:-${gin_file/\//_}}"
check_form --run "$run" '[A-Za-z0-9_][A-Za-z0-9_.-]*' 'one name of letters, digits, dots and dashes'

compose=(docker compose --file "$docker/compose.yaml")
device=cpu
if [[ ${flags[gpu]} == yes ]]; then
  device=gpu
  compose+=(--file "$docker/compose.gpu.yaml")
fi
choose_images "$gin_file" "$device"
need runs
check_secrets
check_command docker openssl

# Two groups, so that one steps while the other waits for actions.
groups=$((envs % 2 ? 1 : 2))
settings=("Actors.groups_per_actor=$groups" "Actors.envs_per_group=$((envs / groups))" "${gin_params[@]}")
learner_flags=''
for binding in "${settings[@]}"; do
  [[ $binding != *$'\n'* ]] || die "--gin_param takes one line, got ${binding@Q}"
  learner_flags+=" $(quoted "--gin_param=$binding")"
done

# Files belong to the caller, or to the image's own user if the caller is root.
user="$(id -u):$(id -g)"
((EUID != 0)) || user=1000:1000
for flag in runs secrets; do
  [[ ${flags[$flag]} == /* ]] || flags[$flag]="$PWD/${flags[$flag]}"
done
runs="${flags[runs]}" secrets="${flags[secrets]}"

build_images "$learner_image" "$actor_image"
make_secrets
run mkdir -p "$runs/$run"
if ((EUID == 0)); then
  run chown -R "$user" "$runs/$run"
  run chown "$user" "$secrets" "$secrets/cert.pem" "$secrets/key.pem" "$secrets/token"
fi

variables=(
  "SEED_RL_USER=$user"
  "SEED_RL_RUNS=$runs"
  "SEED_RL_SECRETS=$secrets"
  "SEED_RL_LEARNER_IMAGE=$learner_image"
  "SEED_RL_ACTOR_IMAGE=$actor_image"
  "SEED_RL_GIN_FILE=$gin_file"
  "SEED_RL_RUN=$run"
  "SEED_RL_ACTORS=$actors"
  "SEED_RL_LEARNER_FLAGS=${learner_flags# }"
)
run export "${variables[@]}"

if [[ ${flags[dry_run]} == yes ]]; then
  run "${compose[@]}" up --detach --scale "actor=$actors"
  run "${compose[@]}" logs --follow --no-log-prefix learner
  run "${compose[@]}" down
  exit
fi
trap '"${compose[@]}" down' EXIT # the learner writes its last checkpoint
"${compose[@]}" up --detach --scale "actor=$actors"
say "TensorBoard: http://localhost:${SEED_RL_TENSORBOARD_PORT:-6006}"
learner="$("${compose[@]}" ps --all --quiet learner)"
"${compose[@]}" logs --follow --no-log-prefix learner # ends with the learner
exit "$(docker inspect --format '{{.State.ExitCode}}' "$learner")"
