#!/usr/bin/env bash
# Usage: scripts/install_chromium.sh
#
# Installs Debian's chromium, with which scripts/pictures.py takes pictures. Does nothing if there is one on the PATH.
set -euo pipefail

[[ ! -x $(command -v chromium) ]] || exit 0
root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
if ! "$root/scripts/apt_install.sh" chromium; then
  printf '%s\n' "scripts/pictures.py needs chromium: put one on the PATH under that name." \
    "On Ubuntu: sudo snap install chromium" >&2
  exit 1
fi
