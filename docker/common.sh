# shellcheck shell=bash
# What the scripts of this folder share: sentences for mistakes, flags, and commands that a dry run only prints.

say() { printf '%s\n' "$*" >&2; }

# A mistake of the caller, in a sentence.
die() {
  say "$(basename -- "$0"): $*"
  exit 2
}

declare -A flags=()   # every flag that there is, by name; a switch is "no" or "yes"
gin_params=()         # of --gin_param, which may be repeated
places=()             # arguments that are no flags

# The help of a script is the comment that it begins with.
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
    [[ -n ${flags[$name]} ]] || die "--$name is needed; --help says what it is"
  done
}

# check_number WHAT VALUE: a whole number from 1 on.
check_number() { [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || die "$1 must be a whole number from 1 on, got '$2'"; }

# check_form WHAT VALUE REGEX SENTENCE
check_form() { [[ $2 =~ ^($3)$ ]] || die "$1 must be $4, got '$2'"; }

# What Kubernetes and Google Cloud take as a name, short enough for what is put behind it.
check_name() { check_form "$1" "$2" '[a-z]([-a-z0-9]{0,38}[a-z0-9])?' 'at most 40 of a-z, 0-9 and -, beginning with a letter'; }

# check_secrets DIRECTORY: of docker/make_secrets.sh, or still to be made.
check_secrets() {
  local file
  [[ -e $1 ]] || return 0
  for file in cert.pem key.pem token; do
    [[ -f $1/$file ]] || die "--secrets must be a directory of docker/make_secrets.sh or a new one; $1 has no $file"
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

# run_shell TEXT: the same for a command with pipes, whose words are quoted already.
run_shell() {
  if [[ ${flags[dry_run]} == yes ]]; then
    printf '%s\n' "$1"
  else
    bash -o errexit -o pipefail -c "$1"
  fi
}

# run_with_input TEXT COMMAND...: runs it with a text on its standard input, which a dry run prints as well.
run_with_input() {
  local text="$1"
  shift
  if [[ ${flags[dry_run]} == yes ]]; then
    printf "%s <<'EOF'\n%s\nEOF\n" "$(quoted "$@")" "$text"
  else
    printf '%s\n' "$text" | "$@"
  fi
}

# The tag of cloud images: the commit, so that a running job says what it runs.
commit_tag() {
  local tag
  tag="$(git -C "$1" rev-parse --short=12 HEAD 2>/dev/null)" || die "--tag is needed outside a git repository"
  [[ -z $(git -C "$1" status --porcelain 2>/dev/null) ]] || tag+=-changed
  printf '%s' "$tag"
}

# suite_of EXPERIMENT: the image that its actors need; "atari" is that of all suites without an image of their own.
suite_of() {
  case "$1" in
    football/* | dmlab/*) printf '%s' "${1%%/*}" ;;
    *) printf atari ;;
  esac
}

# check_experiment ROOT NAME: the images are built from the repository at ROOT.
check_experiment() { [[ -f $1/configs/$2.gin ]] || die "there is no experiment $2 in configs/; seed_rl configs lists them"; }

# The name of an image: image_name REPOSITORY IMAGE TAG; no repository is this machine.
image_name() { printf '%s' "${1:+${1%/}/}seed_rl-$2:$3"; }
