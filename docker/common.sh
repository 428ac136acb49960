# shellcheck shell=bash
# Shared by the scripts of this folder: error messages, flags, and commands that a dry run only prints.

# shellcheck disable=SC2034 # for the scripts
docker="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)"

say() { printf '%s\n' "$*" >&2; }

# A mistake of the caller, in one sentence.
die() {
  say "$(basename -- "$0"): $*"
  exit 2
}

declare -A flags=()   # every flag that exists, by name, with its default; a switch is "no" or "yes"
gin_params=()         # of --gin_param, which may be repeated
places=()             # arguments that are not flags

# The help of a script is its first comment.
usage() { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; }

# read_flags ARGUMENT...: into the variables above.
read_flags() {
  local name
  while (($#)); do
    case "$1" in
      -h | --help) usage && exit 0 ;;
      --*)
        name="${1%%=*}"
        name="${name#--}"
        [[ $name =~ ^[a-z_]+$ && ($name == gin_param || -v flags[$name]) ]] || die "there is no --$name; --help lists the flags"
        if [[ ${flags[$name]-} == no || ${flags[$name]-} == yes ]]; then
          [[ $1 != *=* ]] || die "--$name takes no value"
          flags[$name]=yes
        else
          if [[ $1 != *=* ]]; then
            (($# > 1)) || die "--$name needs a value"
            set -- "$1=$2" "${@:3}"
          fi
          if [[ $name == gin_param ]]; then gin_params+=("${1#*=}"); else flags[$name]="${1#*=}"; fi
        fi
        shift
        ;;
      -?*) die "there is no $1; --help lists the flags" ;;
      *) places+=("$1") && shift ;;
    esac
  done
}

# need NAME...: flags that must have a value.
need() {
  local name
  for name in "$@"; do
    [[ -n ${flags[$name]} ]] || die "--$name is needed; --help describes it"
  done
}

# check_number WHAT VALUE: a whole number from 1 on.
check_number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || die "$1 must be a whole number from 1 on, got '$2'"; }

# check_form WHAT VALUE REGEX DESCRIPTION
check_form() { [[ $2 =~ ^($3)$ ]] || die "$1 must be $4, got '$2'"; }

# Checks that --secrets is a directory of make_secrets.sh, or does not exist yet.
check_secrets() {
  local file
  need secrets
  [[ -e ${flags[secrets]} ]] || return 0
  for file in cert.pem key.pem token; do
    [[ -f ${flags[secrets]}/$file ]] ||
      die "--secrets must be a directory of docker/make_secrets.sh or a new one; ${flags[secrets]} has no $file"
  done
}

# check_command NAME...: programs that a real run needs; a dry run does without.
check_command() {
  local name
  [[ ${flags[dry_run]} == no ]] || return 0
  for name in "$@"; do
    command -v -- "$name" >/dev/null || die "$name is not installed, or not on the PATH; --dry_run does without it"
  done
}

# check_experiment NAME: it must be in the images, which are built from this repository.
check_experiment() {
  [[ -f $docker/../configs/$1.gin ]] || die "there is no experiment $1 in configs/; seed_rl configs lists them"
}

# choose_images EXPERIMENT LEARNER: which images an experiment (or a suite) needs. Sets actor_image and learner_image, and
# adds the settings that they require. A learner needs the packages of environments whose spaces it reads from them.
choose_images() {
  actor_image=actor learner_image="$2"
  case "$1" in
    football*) actor_image=football gin_params=("Football.backend='gfootball'" "${gin_params[@]}") ;;
    dmlab*) actor_image=dmlab ;;
    mujoco* | gym/lunar_lander) actor_image=actor-mujoco learner_image="$2-mujoco" ;;
  esac
}

quoted() {
  local words
  printf -v words '%q ' "$@"
  printf '%s' "${words% }"
}

# run COMMAND...: runs it, or prints it so that it can be pasted into a shell.
run() {
  if [[ ${flags[dry_run]} == yes ]]; then
    quoted "$@"
    printf '\n'
  else
    "$@"
  fi
}

# run_shell TEXT: the same for a command with pipes, already quoted.
run_shell() {
  if [[ ${flags[dry_run]} == yes ]]; then
    printf '%s\n' "$1"
  else
    bash -o errexit -o pipefail -c "$1"
  fi
}

# build_images ARGUMENT...: of build.sh.
build_images() {
  [[ ${flags[dry_run]} == no ]] || set -- --dry_run "$@"
  "$docker/build.sh" "$@"
}

make_secrets() { [[ -e ${flags[secrets]} ]] || run "$docker/make_secrets.sh" "${flags[secrets]}"; }

# image_name IMAGE: its full name; without --repository it is local.
image_name() { printf '%s' "${flags[repository]:+${flags[repository]%/}/}seed_rl-$1:${flags[tag]}"; }
