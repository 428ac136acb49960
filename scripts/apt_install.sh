#!/usr/bin/env bash
# Usage: scripts/apt_install.sh PACKAGE...
#
# Installs missing Debian packages, as root or through sudo; without either, it says which command to run.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

missing=()
for package in "$@"; do
  [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] ||
    missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if [[ ! -x $(command -v apt-get) ]]; then
  say "Install these packages, under the names that they have on this system: ${missing[*]}"
  exit 1
elif ((EUID != 0)); then
  if ! sudo -n true 2>/dev/null; then
    say "Some packages are missing: run 'sudo apt-get update && sudo apt-get install -y ${missing[*]}'," \
      "then this command again."
    exit 1
  fi
  as_root=(sudo -n)
fi
say "Installing ${missing[*]}"
log="$(mktemp)"
trap 'rm -f -- "$log"' EXIT
# An unreachable third-party source fails the update, yet need not fail the installation.
if ! "${as_root[@]}" sh -c 'apt-get update; DEBIAN_FRONTEND=noninteractive apt-get install --yes \
  --no-install-recommends "$@"' -- "${missing[@]}" >"$log" 2>&1 </dev/null; then
  cat -- "$log" >&2
  say "Installing ${missing[*]} failed"
  exit 1
fi
