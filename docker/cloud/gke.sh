#!/bin/sh
exec python3 "$(dirname -- "$0")/render_kubernetes.py" gke "$@"
