#!/usr/bin/env bash
# Usage: scripts/install_gfootball.sh [--packages-only | --compile-only] [VENV]
#
# Compiles the football engine (a minute or two on two cores) with the Debian packages that it needs, and installs it into a
# virtual environment that has seed_rl, by default the project's; does nothing if that version is installed already.
# --packages-only installs the Debian packages alone; --compile-only also leaves the wheel in VENV/.gfootball for the next
# call: pip may run in VENV at the same time.
set -euo pipefail

packages=(
  build-essential cmake libboost-python-dev libboost-filesystem-dev libboost-system-dev libboost-thread-dev
  libegl-dev libgl1-mesa-dev libsdl2-dev libsdl2-gfx-dev libsdl2-image-dev libsdl2-ttf-dev python3-dev
)

root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
only=
[[ ${1:-} != --*-only ]] || { only="$1" && shift; }
venv="${1:-$("$root/scripts/setup_venv.sh" runtime)}"
[[ -x $venv/bin/python ]] || { printf '%s is not a virtual environment\n' "$venv" >&2 && exit 1; }
venv="$(CDPATH='' cd -- "$venv" && pwd -P)"
cd -- "$root"
version="$(sed -n 's/^gfootball==\([0-9.]*\).*/\1/p' requirements/engine.lock)"

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

log="$venv/.gfootball.log"
: >"$log"

# logged COMMAND...: its output goes to the log, and is shown only if it fails.
logged() {
  "$@" >>"$log" 2>&1 </dev/null && return
  cat -- "$log" >&2
  printf 'Installing gfootball failed\n' >&2
  exit 1
}

pip() { local python="$1/bin/python"; shift; logged "$python" -m pip --disable-pip-version-check --no-input "$@"; }

# Makes the wheel in an environment of its own.
compile() {
  local work="$venv/.gfootball/work"
  printf 'Compiling gfootball %s; this takes a minute or two\n' "$version" >&2
  rm -rf -- "$work"
  mkdir -p -- "$work"
  logged "$venv/bin/python" -m venv "$work/venv"
  pip "$work/venv" install --require-hashes --requirement requirements/build.lock
  # Boost's headers would take most of the time, once for each of a hundred files. So sixteen files are compiled at a time,
  # except two whose macros and constants clash with those of others. Debug information would take a third of the rest.
  cat >"$work/toolchain.cmake" <<'END'
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
set_source_files_properties(
  src/misc/perlin.cpp src/onthepitch/player/humanoid/humanoid.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
add_compile_options(-g0)
END
  # The build calls python3.
  PATH="$work/venv/bin:$PATH" CMAKE_TOOLCHAIN_FILE="$work/toolchain.cmake" \
    pip "$work/venv" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheels" \
      --require-hashes --requirement requirements/engine.lock
  mv -- "$work"/wheels/*.whl "$venv/.gfootball/"
  rm -rf -- "$work"
}

scripts/apt_install.sh "${packages[@]}"
[[ $only != --packages-only ]] || exit 0
wheel=("$venv/.gfootball/gfootball-$version-"*.whl)
if [[ ! -f ${wheel[0]} ]]; then
  compile
  wheel=("$venv/.gfootball/gfootball-$version-"*.whl)
fi
[[ -z $only ]] || exit 0
pip "$venv" install --require-hashes --requirement requirements/football.lock
pip "$venv" install --no-deps "${wheel[0]}"
rm -rf -- "$venv/.gfootball"
