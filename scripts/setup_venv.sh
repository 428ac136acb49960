#!/usr/bin/env bash
# Usage: scripts/setup_venv.sh runtime|dev
#
# Makes the project's virtual environment, or brings it up to date, and prints its path. When there is nothing to do
# this takes a few hundredths of a second. `runtime` has what the product needs, `dev` also the tools of test.sh.
#
#   PYTHON        the interpreter to use; by default python3, or else python3.12, python3.11, python3.10
#   SEED_RL_VENV  where the environment stands; by default .venv at the root of the repository
#
# The environment is complete if and only if it holds a stamp, written last, that says what it was made from. One
# without a stamp was interrupted and is made anew; one whose requirements have changed is updated in place.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

kind="${1:-}"
[[ $kind == runtime || $kind == dev ]] || die "Usage: scripts/setup_venv.sh runtime|dev"
root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="${SEED_RL_VENV:-$root/.venv}"
[[ $venv == /* ]] || venv="$PWD/$venv"
[[ ${PYTHON:-} != ?*/* || $PYTHON == /* ]] || PYTHON="$PWD/$PYTHON"
log="$venv/.setup.log"
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input)
cd -- "$root"

# The "3.11" of an interpreter, or nothing if it does not work.
version_of() {
  local version
  version="$("$1" -V 2>/dev/null)" || return 0
  version="${version#Python }"
  printf '%s' "${version%.*}"
}

# What an environment cannot outlive: its place, the repository's and its Python.
identity() { printf '%s\n' "$venv" "$root" "$(version_of "$venv/bin/python")"; }

stamp_of() { printf '%s' "$venv/.complete-$1"; }

# What the environment of kind $1 is made from, as its stamp says it.
fingerprint() {
  local sources=(requirements.lock pyproject.toml setup.py)
  [[ $1 == runtime ]] || sources+=(requirements-dev.lock scripts/install_chromium.sh scripts/install_gfootball.sh)
  identity
  sha256sum -- "${sources[@]}"
}

is_complete() {
  local stamp
  stamp="$(stamp_of "$kind")"
  [[ -f $stamp && $(<"$stamp") == "$(fingerprint "$kind")" ]] && fits_python
}

# Whether the environment has the Python version that the caller asks for, if any.
fits_python() { [[ -z ${PYTHON:-} || $(version_of "$PYTHON") == "$(version_of "$venv/bin/python")" ]]; }

# Whether some stamp says that the environment was complete once, here and with its present Python.
can_be_updated() {
  local stamp
  for stamp in "$(stamp_of runtime)" "$(stamp_of dev)"; do
    if [[ -f $stamp && $(head -n 3 -- "$stamp") == "$(identity)" ]]; then
      fits_python
      return
    fi
  done
  return 1
}

# logged COMMAND...: its output goes to the log, and is shown only if it fails.
logged() {
  "$@" >>"$log" 2>&1 </dev/null && return
  cat -- "$log" >&2
  die "Setting up $venv failed at: $*"
}

choose_python() {
  local candidate
  if [[ -n ${PYTHON:-} ]]; then
    case "$(version_of "$PYTHON")" in
      3.10 | 3.11 | 3.12) python="$PYTHON" && return ;;
    esac
    die "PYTHON=$PYTHON is not a working Python 3.10, 3.11 or 3.12: set it to one that is."
  fi
  for candidate in python3 python3.12 python3.11 python3.10; do
    case "$(version_of "$candidate")" in
      3.10 | 3.11 | 3.12) python="$candidate" && return ;;
    esac
  done
  die "No Python 3.10, 3.11 or 3.12 found on PATH: install one, or set PYTHON to its path."
}

has_ensurepip() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Debian's Python leaves out what `python -m venv` needs, until one more package is installed.
install_ensurepip() {
  local package=python3-venv
  if [[ ! -x $(command -v apt-get) || $("$python" -c 'import sys; print(sys.base_prefix)') != /usr ]]; then
    die "$python cannot make virtual environments (it has no ensurepip): set PYTHON to a Python 3.10-3.12 that can."
  fi
  [[ $(version_of "$python") == "$(version_of /usr/bin/python3)" ]] || package="python$(version_of "$python")-venv"
  scripts/apt_install.sh "$package"
  has_ensurepip || die "$python cannot make virtual environments, even with $package: set PYTHON to another Python."
}

create() {
  choose_python
  if [[ -e $venv && ! -e $log && ! -e $venv/pyvenv.cfg && -n $(ls -A -- "$venv") ]]; then
    die "$venv is not a virtual environment, so it is left alone: set SEED_RL_VENV to another place."
  fi
  say "Setting up $venv with Python $(version_of "$python"), once; this may take some minutes"
  rm -rf -- "$venv"
  mkdir -p -- "$venv"
  : >"$log"
  has_ensurepip || install_ensurepip
  logged "$python" -m venv "$venv"
}

# What takes longest, begun while pip loads: install() does afterwards what this could not, and tells why. It has the lock,
# too, should it outlive this script.
begin_compiling() {
  # In a group of its own, so that one signal ends all of it.
  # shellcheck disable=SC2016 # it is for the inner shell
  setsid bash -c 'scripts/install_chromium.sh; scripts/install_gfootball.sh --compile-only "$1"' - "$venv" \
    >>"$venv/.compile.log" 2>&1 </dev/null &
  compiling=$!
  trap 'kill -- "-$compiling" 2>/dev/null || true' EXIT
}

# uv takes a quarter of pip's time, but does without pip's settings, such as another index: where it fails, pip tries.
install_lock() {
  logged "${pip[@]}" install --progress-bar off --constraint requirements-dev.lock uv
  "$venv/bin/uv" pip install --compile-bytecode --python "$venv/bin/python" --requirement "$1" >>"$log" 2>&1 </dev/null ||
    logged "${pip[@]}" install --progress-bar off --requirement "$1"
}

install() {
  local lock=requirements.lock
  [[ $kind == runtime ]] || lock=requirements-dev.lock
  if can_be_updated; then
    say "Updating $venv"
    : >"$log"
  else
    create
  fi
  rm -f -- "$(stamp_of runtime)" "$(stamp_of dev)"
  [[ $kind == runtime ]] || begin_compiling
  install_lock "$lock"
  logged "${pip[@]}" install --no-deps --no-build-isolation --editable .
  if [[ $kind == dev ]]; then
    wait "$compiling" || true
    logged scripts/install_chromium.sh
    logged scripts/install_gfootball.sh "$venv"
  fi
  # The development lock holds all of the runtime one.
  [[ $kind == runtime ]] || fingerprint runtime >"$(stamp_of runtime)"
  fingerprint "$kind" >"$(stamp_of "$kind")"
}

if ! is_complete; then
  trap 'exit 130' INT # pip reports an interrupt like an error of its own; nobody wants its log then
  # One lock for the repository, wherever the environment: the editable install also writes into the source tree.
  exec 9>"$root/.venv.lock"
  if ! flock --nonblock 9; then
    say "Waiting for another set-up to finish"
    flock 9
  fi
  is_complete || install
fi
printf '%s\n' "$venv"
