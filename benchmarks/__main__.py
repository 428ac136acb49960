"""`python -m benchmarks`: measures the parts and the whole."""

import sys

from benchmarks.command import BadArguments, run

if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except BadArguments as error:
        sys.exit(f"benchmarks: {error}")
