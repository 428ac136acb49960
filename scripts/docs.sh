#!/usr/bin/env bash
# The documentation's site: scripts/docs.sh build [FLAGS of mkdocs build] writes it into build/site, and
# scripts/docs.sh serve [FLAGS of mkdocs serve] shows it at http://127.0.0.1:8000 and rebuilds it after each change. A
# warning is an error. Sets up an environment with the packages of the site alone first if need be.
set -euo pipefail

command="${1:-}"
[[ $command == build || $command == serve ]] || { printf 'Usage: scripts/docs.sh build|serve [FLAGS]\n' >&2 && exit 1; }
root="$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$("$root/scripts/setup_venv.sh" docs)"
cd -- "$root"
export NO_MKDOCS_2_WARNING=1 # silences an advertisement of mkdocs-material
exec "$venv/bin/python" -m mkdocs "$command" --strict "${@:2}"
