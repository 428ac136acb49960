#!/usr/bin/env bash
# Usage: scripts/test_images.sh [--quick] [IMAGE...]
#
# Builds images of docker/Dockerfile, checks their size and content, and trains Catch in three containers.
#
#   IMAGE    cpu, gpu, tpu, actor, actor-mujoco, actor-pettingzoo, football; default: all of them; the run needs
#            cpu and actor
#   --quick  actor and cpu
#
# Works with docker or podman. Where neither does, root can use buildah on a Debian machine (apt-get install buildah
# debootstrap): it needs no daemon, no cgroups and no registry, and builds and runs in chroots.
#
#   SEED_RL_CA  PEM file of the certificates that pip trusts while buildah builds; default: this machine's
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

declare -A LARGEST=([actor]=500 [actor-mujoco]=1100 [actor-pettingzoo]=700 [football]=1300) # MB, with Debian
LARGEST+=([cpu]=3000 [gpu]=9500 [tpu]=3500)
LARGEST_ACTOR_PACKAGES=140                                                        # MB
PORT=8697
PREFIX="seed_rl-test-$$" # of the names of containers

say() { printf '%s\n' "$*" >&2; }
die() { say "test_images.sh: $*" && exit 1; }
expect() { "${@:2}" || die "$1"; }

images=()
for word in "$@"; do
  case "$word" in
    -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
    --quick) images+=(actor cpu) ;;
    -*) die "there is no $word; --help lists the flags" ;;
    *) [[ -n ${LARGEST[$word]-} ]] || die "there is no image $word; there are: ${!LARGEST[*]}" && images+=("$word") ;;
  esac
done
((${#images[@]})) || images=(actor cpu actor-mujoco actor-pettingzoo football gpu tpu)

if docker info >/dev/null 2>&1; then
  engine=docker
elif podman info >/dev/null 2>&1; then
  engine=podman
elif [[ $EUID == 0 && -x $(command -v buildah) && -x $(command -v debootstrap) ]]; then
  engine=buildah
  export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
else
  die "neither docker nor podman works here; root can use buildah: apt-get install buildah debootstrap"
fi

scratch="$(mktemp -d)"
containers=()
clean_up() {
  local name
  for name in "${containers[@]}"; do signal KILL "$name"; done
  rm -rf -- "$scratch" 2>/dev/null || true # with docker, files of the image's user may remain
}
trap clean_up EXIT

# The image that the Dockerfile begins with: pulled, or made from Debian's packages like Debian's own.
get_base() {
  local base root="$scratch/root" container
  base="docker.io/library/$(sed -n 's/^FROM \(debian:[^ ]*\).*/\1/p' docker/Dockerfile)"
  buildah inspect --type=image "$base" >/dev/null 2>&1 && return
  timeout 60 buildah pull --quiet "$base" >/dev/null 2>&1 && return
  say "No registry answers: debootstrap makes $base"
  debootstrap --variant=minbase bookworm "$root" >"$scratch/base.log" 2>&1 || die "$(tail -3 "$scratch/base.log")"
  rm -rf -- "$root"/var/{cache/apt/*.bin,cache/apt/archives/*.deb,lib/apt/lists/*,log/*.log} "$root"/usr/share/{doc,info,locale,man}
  container="$(buildah from scratch)"
  buildah add --quiet "$container" "$root" / >/dev/null
  buildah config --cmd=bash "$container"
  buildah commit --quiet "$container" "$base" >/dev/null
  buildah rm "$container" >/dev/null
  rm -rf -- "$root"
}

build() {
  # Podman's own format has no health checks.
  local command lock="$1" target=image
  [[ $1 == [cgt]pu ]] || lock=actor
  [[ $1 != football ]] || target=football
  local flags=(--format=docker --layers --file=docker/Dockerfile "--target=$target" "--build-arg=IMAGE=$lock")
  [[ $1 != *-* ]] || flags+=("--build-arg=EXTRA=${1#*-}")
  flags+=("--tag=seed_rl-$1:latest" .)
  case $engine in
    docker) command=(docker/build.sh "$1") ;;
    podman) command=(podman build "${flags[@]}") ;;
    buildah)
      # Mounted files do not become part of the image.
      printf '[global]\ncert = /run/ca.crt\n' >"$scratch/pip.conf"
      command=(buildah bud --network=host --pull-never --volume="$scratch/pip.conf:/etc/pip.conf:ro"
        --volume="${SEED_RL_CA:-/etc/ssl/certs/ca-certificates.crt}:/run/ca.crt:ro" "${flags[@]}")
      ;;
  esac
  "${command[@]}" >"$scratch/build.log" 2>&1 || die "building $1 failed: $(tail -20 "$scratch/build.log")"
}

megabytes() {
  if [[ $engine == buildah ]]; then
    buildah mount "$PREFIX-$1" | xargs du --summarize --block-size=1M --apparent-size | cut -f1
  else
    "$engine" image inspect --format='{{.Size}}' "seed_rl-$1" | awk '{print int($1 / 1e6)}'
  fi
}

# inside IMAGE COMMAND...: as the image's own user.
inside() {
  if [[ $engine == buildah ]]; then
    buildah run --network=host "$PREFIX-$1" -- "${@:2}"
  else
    "$engine" run --rm --network=host --entrypoint="$2" "seed_rl-$1" "${@:3}"
  fi
}

# start NAME IMAGE ARGUMENT...: a container with the run's secrets, in the background; its output goes to a log.
start() {
  local mounts=(--volume="$scratch/runs:/runs" --volume="$scratch/secrets:/run/secrets:ro") name="$PREFIX-$1"
  containers+=("$1")
  if [[ $engine == buildah ]]; then
    buildah from --quiet --pull-never --name="$name" "localhost/seed_rl-$2" >/dev/null
    buildah run --network=host "${mounts[@]}" "$name" -- env CONTAINER="$name" seed_rl "${@:3}" >>"$scratch/$1.log" 2>&1 &
  else
    "$engine" run --detach --name="$name" --network=host "${mounts[@]}" "seed_rl-$2" "${@:3}" >/dev/null
    "$engine" logs --follow "$name" >>"$scratch/$1.log" 2>&1 &
  fi
}

# healthy NAME: whether the learner in a container answers the health check.
healthy() {
  local command=(python3 /usr/local/lib/seed_rl/health.py --ask "--port=$PORT" --tls_ca=/run/secrets/cert.pem)
  command+=(--token_file=/run/secrets/token)
  if [[ $engine == buildah ]]; then
    buildah run --network=host --volume="$scratch/secrets:/run/secrets:ro" "$PREFIX-$1" -- "${command[@]}"
  else
    "$engine" exec "$PREFIX-$1" "${command[@]}"
  fi
}

# The processes of a container of buildah, which knows no way to signal them.
processes() { grep --files-with-matches --null-data --line-regexp "CONTAINER=$PREFIX-$1" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }

# signal SIGNAL NAME: to a container, which is removed once it has ended.
signal() {
  if [[ $engine == buildah ]]; then
    processes "$2" | xargs --no-run-if-empty kill "-$1" || true
    # shellcheck disable=SC2016 # expanded at each poll
    wait_until 60 "$2 to end" '[[ -z $(processes '"$2"') ]]'
    buildah rm "$PREFIX-$2" >/dev/null 2>&1 || true
  else
    "$engine" kill --signal="$1" "$PREFIX-$2" >/dev/null 2>&1 || true
    "$engine" wait "$PREFIX-$2" >/dev/null 2>&1 || true
    "$engine" rm --force "$PREFIX-$2" >/dev/null 2>&1 || true
  fi
}

# wait_until SECONDS WHAT COMMAND...: polls a shell command; $waited gets the seconds that it took.
wait_until() {
  local began=$SECONDS
  until eval "${*:3}"; do
    ((SECONDS - began < $1)) || die "waited $1 s for $2: $(tail -5 "$scratch"/*.log)"
    sleep 0.2
  done
  waited=$((SECONDS - began))
}

check() {
  local size packages
  if [[ $engine == buildah ]]; then
    containers+=("$1")
    buildah from --quiet --pull-never --name="$PREFIX-$1" "localhost/seed_rl-$1" >/dev/null
  fi
  size="$(megabytes "$1")"
  expect "$1 takes $size MB, more than ${LARGEST[$1]}" test "$size" -le "${LARGEST[$1]}"
  packages="$(inside "$1" du --summarize --block-size=1M /opt/venv | cut -f1)"
  expect "$1 runs as root" test "$(inside "$1" id -u)" != 0
  # shellcheck disable=SC2016 # expanded in the container
  expect "$1 holds compilers or caches" inside "$1" sh -c \
    '! command -v gcc cc make && test -z "$(ls /var/lib/apt/lists)" && test ! -e ~/.cache/pip && test ! -e /src'
  expect "$1 holds secrets" inside "$1" sh -c '! find / -xdev -name "*.key" -o -name token -path "*secrets*" 2>/dev/null | grep .'
  case "$1" in
    actor | actor-mujoco | football)
      expect "$1 holds TensorFlow" inside "$1" sh -c '! ls /opt/venv/lib/python3*/site-packages | grep -i -E "^(tensorflow|keras)"'
      ;;&
    actor)
      expect "its packages take $packages MB" test "$packages" -le "$LARGEST_ACTOR_PACKAGES"
      ;;
    cpu | gpu)
      inside "$1" seed_rl doctor >"$scratch/doctor.log" 2>&1 || die "$1: doctor fails: $(cat "$scratch/doctor.log")"
      ;;
  esac
  expect "$1: --help fails" inside "$1" seed_rl actor --help >/dev/null
  printf '%-10s %6s MB, of which packages %5s MB; built in %s s\n' "$1" "$size" "$packages" "$2"
  [[ $engine != buildah ]] || buildah rm "$PREFIX-$1" >/dev/null
}

# A learner and two actors, all of which may die.
run_catch() {
  local learner actor metrics="$scratch/runs/catch/metrics.jsonl" frames
  docker/make_secrets.sh "$scratch/secrets" >/dev/null
  chmod -R a+rX "$scratch" && mkdir -m 777 "$scratch/runs"
  learner=(cpu learner --gin_file=catch/vtrace --logdir=/runs/catch --num_actors=2 "--server_address=0.0.0.0:$PORT"
    --tls_cert=/run/secrets/cert.pem --tls_key=/run/secrets/key.pem --token_file=/run/secrets/token
    --total_frames=100M --gin_param=Logs.metrics_interval_s=0.5)
  actor=(actor actor "--server_address=localhost:$PORT" --tls_ca=/run/secrets/cert.pem --token_file=/run/secrets/token)
  start learner "${learner[@]}"
  wait_until 60 "the learner" grep -q "'serving actors'" "$scratch/learner.log"
  say "the learner serves after $waited s"
  expect "the learner does not answer the health check" healthy learner
  start actor1 "${actor[@]}"
  start actor2 "${actor[@]}"
  wait_until 60 "a step" grep -q joined "$scratch/learner.log"
  say "an actor joins after $waited s"
  wait_until 120 "an update" grep -qs "'\"loss/total\"'" "$metrics"
  say "the first update comes $waited s later"
  wait_until 600 "a return of 0.9" tail -1 "$metrics" '|' grep -q -E "'\"episode_return\": (0\.9|1\.0)'"
  say "a return of 0.9 after $waited s"
  signal KILL actor2
  start actor2 "${actor[@]}"
  wait_until 60 "a killed actor to come back" tail -1 "$metrics" '|' grep -q "'\"environments\": 64'"
  signal TERM learner
  frames="$(grep --only-matching --extended-regexp '[0-9]+ frames, [0-9]+ updates' "$scratch/learner.log" | tail -1)"
  expect "the learner left no checkpoint" test -n "$(ls "$scratch/runs/catch/checkpoints")"
  start learner "${learner[@]}"
  wait_until 90 "the learner to go on" grep -q "'continuing from .* at ${frames%% *} frames'" "$scratch/learner.log"
  wait_until 120 "actors to come back" tail -1 "$metrics" '|' grep -q "'\"environments\": 64'"
  for name in learner actor1 actor2; do signal TERM "$name"; done
  containers=()
  say "killed actor and ended learner came back; the run ended after $frames"
}

# The same with compose, by the script that users run.
run_local() {
  docker/run_local.sh catch/vtrace 2 32 "--runs=$scratch/composed" "--secrets=$scratch/keys" >"$scratch/compose.log" 2>&1 ||
    die "run_local.sh fails: $(tail -5 "$scratch/compose.log")"
  expect "run_local.sh does not learn Catch" grep -q -E '"episode_return": (0\.9|1\.0)' "$scratch"/composed/*/metrics.jsonl
  say "docker/run_local.sh has learned Catch"
}

[[ $engine != buildah ]] || get_base
for image in "${images[@]}"; do
  began=$SECONDS
  build "$image"
  check "$image" "$((SECONDS - began))"
done
if [[ " ${images[*]} " == *" cpu "* && " ${images[*]} " == *" actor "* ]]; then
  run_catch
  [[ $engine != docker ]] || ! docker compose version >/dev/null 2>&1 || run_local
fi
