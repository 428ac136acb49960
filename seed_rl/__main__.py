"""`python -m seed_rl`: the command line."""

import sys

from seed_rl.launch.cli import main

if __name__ == "__main__":
    sys.exit(main())
