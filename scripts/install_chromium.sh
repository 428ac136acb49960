#!/usr/bin/env bash
# Usage: scripts/install_chromium.sh
#
# Installs Debian's chromium, which opens the documentation's site in the tests and makes its pictures. Nothing to do where
# there is one on the PATH.
set -euo pipefail

[[ ! -x $(command -v chromium) ]] || exit 0
root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
if ! "$root/scripts/apt_install.sh" chromium; then
  printf '%s\n' "The tests open the site of the documentation in chromium: put one on the PATH under that name." \
    "On Ubuntu: sudo snap install chromium" >&2
  exit 1
fi
