#!/usr/bin/env bash
# Usage: scripts/install_gfootball.sh [VENV]
#
# Compiles the football engine (three minutes on two cores) into a virtual environment, by default the project's, with
# the Debian packages that it takes. Nothing to do where that version is installed already.
set -euo pipefail

version=2.10.2
packages=(
  build-essential cmake libboost-python-dev libboost-filesystem-dev libboost-system-dev libboost-thread-dev
  libegl-dev libgl1-mesa-dev libsdl2-dev libsdl2-gfx-dev libsdl2-image-dev libsdl2-ttf-dev python3-dev
)

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="${1:-$("$root/scripts/setup_venv.sh" runtime)}"
[[ -x $venv/bin/python ]] || { printf '%s is not a virtual environment\n' "$venv" >&2 && exit 1; }
venv="$(CDPATH='' cd -- "$venv" && pwd -P)"
cd -- "$root"

installed() {
  "$venv/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('gfootball') != '$version')" 2>/dev/null
}
installed && exit 0

python_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true; }
if [[ $(python_of "$venv/bin/python") != $(python_of /usr/bin/python3) ]]; then
  printf 'gfootball needs Boost for Python %s, and this system has it for Python %s: make %s with that one\n' \
    "$(python_of "$venv/bin/python")" "$(python_of /usr/bin/python3)" "$venv" >&2
  exit 1
fi
scripts/apt_install.sh "${packages[@]}"
printf 'Compiling gfootball %s; this takes some minutes\n' "$version" >&2
log="$venv/.gfootball.log"
PATH="$venv/bin:$PATH" # its build calls python3
pip=("$venv/bin/python" -m pip --disable-pip-version-check --no-input install --progress-bar off --no-build-isolation)
if ! "${pip[@]}" --constraint requirements-dev.lock --editable '.[gfootball]' >"$log" 2>&1 </dev/null ||
  ! "${pip[@]}" --no-deps "gfootball==$version" >>"$log" 2>&1 </dev/null; then
  cat -- "$log" >&2
  printf 'Installing gfootball failed\n' >&2
  exit 1
fi
