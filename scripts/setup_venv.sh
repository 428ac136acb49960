#!/usr/bin/env bash
# Usage: scripts/setup_venv.sh runtime|quick|dev|accelerators|docs
#
# Makes the project's virtual environment, or brings it up to date, and prints its path; an environment that is up to
# date costs a few hundredths of a second. All but `docs` include the one before:
#
#   runtime  everything that the product needs
#   quick    the tools and libraries of test.sh --quick
#   dev      the football engine and gRPC for C++, for all of test.sh
#   accelerators
#            the compiler for NVIDIA's GPUs, 4 GB, for test.sh --accelerators
#   docs     the packages of the documentation's site only, in a directory of its own
#
#   PYTHON        the interpreter; default: python3, or else python3.13, python3.12, python3.11
#   SEED_RL_VENV  the environment's directory; default: .venv at the root of the repository; that of the kind docs has
#                 "-docs" behind its name
#
# The environment's stamp, written last, lists everything that it was made from. An environment without a stamp was
# interrupted and is made again; one whose requirements have changed since is updated in place.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

kind="${1:-}"
case "$kind" in
  runtime | quick | dev | accelerators | docs) ;;
  *) die "Usage: scripts/setup_venv.sh runtime|quick|dev|accelerators|docs" ;;
esac
root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$(realpath --canonicalize-missing --no-symlinks -- "${SEED_RL_VENV:-$root/.venv}")"
[[ $kind != docs ]] || venv+=-docs
[[ ${PYTHON:-} != */* ]] || PYTHON="$(realpath --canonicalize-missing --no-symlinks -- "$PYTHON")"
log="$venv/.setup.log"
stamp="$venv/.complete"
grpc=(libgrpc++-dev libprotobuf-dev pkgconf protobuf-compiler-grpc) # Debian's packages for examples/catch_actor.cc
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input)
cd -- "$root"

# The "3.11" of an interpreter; nothing if it does not work.
version_of() {
  local version
  version="$("$1" -V 2>/dev/null)" || return 0
  version="${version#Python }"
  printf '%s' "${version%.*}"
}

# An environment is tied to its own place, the repository's, and its Python, which must be the one that PYTHON asks for.
identity() {
  printf '%s\n' "place $venv" "source $root" "python $(version_of "$venv/bin/python")" \
    "asked $(version_of "${PYTHON:-$venv/bin/python}")"
}

has_engine() { [[ $kind == dev || $kind == accelerators ]]; }

# The identity and sources of an environment of this kind.
fingerprint() {
  local sources=(requirements/runtime.lock pyproject.toml setup.py)
  [[ $kind == runtime ]] || sources+=(requirements/dev.lock)
  [[ $kind != docs ]] || sources=(requirements/docs.lock)
  ! has_engine || sources+=(scripts/install_gfootball.sh requirements/{engine,football}.lock)
  [[ $kind != accelerators ]] || sources+=(requirements/accelerators.lock)
  identity
  ! has_engine || printf 'package %s\n' "${grpc[@]}"
  sha256sum -- "${sources[@]}"
}

# stamped COMMAND: whether the stamp has every line that the command prints.
stamped() { [[ -f $stamp && $("$1" | grep --count --invert-match --line-regexp --fixed-strings --file="$stamp") == 0 ]]; }

# logged COMMAND...: its output goes to the log, and is shown only if it fails.
logged() {
  "$@" >>"$log" 2>&1 </dev/null && return
  cat -- "$log" >&2
  die "Setting up $venv failed at: $*"
}

choose_python() {
  local candidates=(python3 python3.13 python3.12 python3.11)
  [[ -z ${PYTHON:-} ]] || candidates=("$PYTHON")
  for python in "${candidates[@]}"; do
    case "$(version_of "$python")" in 3.11 | 3.12 | 3.13) return ;; esac
  done
  [[ -z ${PYTHON:-} ]] || die "PYTHON=$PYTHON is not a working Python 3.11, 3.12 or 3.13: set it to one that is."
  die "No Python 3.11, 3.12 or 3.13 found on PATH: install one, or set PYTHON to its path."
}

has_ensurepip() { "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; }

# Debian's Python cannot run `python -m venv` until an extra package is installed.
install_ensurepip() {
  local package=python3-venv
  if [[ ! -x $(command -v apt-get) || $("$python" -c 'import sys; print(sys.base_prefix)') != /usr ]]; then
    die "$python cannot make virtual environments (it has no ensurepip): set PYTHON to a Python 3.11-3.13 that can."
  fi
  [[ $(version_of "$python") == "$(version_of /usr/bin/python3)" ]] || package="python$(version_of "$python")-venv"
  scripts/apt_install.sh "$package"
  has_ensurepip || die "$python cannot make virtual environments, even with $package: set PYTHON to another Python."
}

create() {
  choose_python
  if [[ -e $venv && ! -e $log && -n $(ls -A -- "$venv") ]]; then
    die "$venv was not made by this script, so it is left alone: set SEED_RL_VENV to another place."
  fi
  say "Setting up $venv with Python $(version_of "$python"), once; this may take some minutes"
  rm -rf -- "$venv"
  mkdir -p -- "$venv"
  : >"$log"
  has_ensurepip || install_ensurepip
  logged "$python" -m venv "$venv"
}

# Starts the slowest part while pip downloads; install() completes it and reports errors. A process group lets one signal
# end all of it, and it inherits the lock in case it outlives this script. Only one apt-get can run at a time.
begin_compiling() {
  # shellcheck disable=SC2016 # expanded by the inner shell
  setsid bash -c 'scripts/install_gfootball.sh --packages-only "$1"
    scripts/apt_install.sh "${@:2}" &
    scripts/install_gfootball.sh --compile-only "$1"; wait' - "$venv" "${grpc[@]}" >>"$venv/.compile.log" 2>&1 </dev/null &
  compiling=$!
  trap 'kill -- "-$compiling" 2>/dev/null || true' EXIT
}

# install_lock LOCK [FLAGS of uv]
# uv takes a quarter of pip's time but ignores pip's settings, such as another index; pip takes over if it fails.
install_lock() {
  local verified=(--require-hashes --requirement "$1")
  "$venv/bin/uv" pip install "${@:2}" --python "$venv/bin/python" "${verified[@]}" >>"$log" 2>&1 </dev/null ||
    logged "${pip[@]}" install --progress-bar off "${verified[@]}"
}

install() {
  if stamped identity; then
    say "Updating $venv"
    : >"$log"
  else
    create
  fi
  rm -f -- "$stamp"
  ! has_engine || begin_compiling
  logged "${pip[@]}" install --progress-bar off --require-hashes --requirement requirements/build.lock
  # Bytecode only for what every process imports: most modules of the other packages are never imported.
  [[ $kind == docs ]] || install_lock requirements/runtime.lock --compile-bytecode
  [[ $kind != docs ]] || install_lock requirements/docs.lock
  [[ $kind == runtime || $kind == docs ]] || install_lock requirements/dev.lock # includes runtime.lock
  [[ $kind != accelerators ]] || install_lock requirements/accelerators.lock
  [[ $kind == docs ]] || logged "${pip[@]}" install --no-deps --no-build-isolation --editable .
  if has_engine; then
    wait "$compiling" || true
    logged scripts/apt_install.sh "${grpc[@]}"
    logged scripts/install_gfootball.sh "$venv"
  fi
  fingerprint >"$stamp"
}

if ! stamped fingerprint; then
  trap 'exit 130' INT # pip reports an interrupt as an error, with a log that nobody wants
  # One lock for the repository, wherever the environment is: the editable install also writes into the source tree.
  : 2>/dev/null >"$root/.venv.lock" || die "$root can't be written, as it must: copy the repository to where it can be."
  exec 9>"$root/.venv.lock"
  if ! flock --nonblock 9; then
    say "Waiting for another set-up to finish"
    flock 9
  fi
  stamped fingerprint || install
fi
printf '%s\n' "$venv"
