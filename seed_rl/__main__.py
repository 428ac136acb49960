"""The command line, as `seed_rl` or `python -m seed_rl`."""

import sys


def main() -> int:
    """Runs a command; returns the exit code. Ctrl-C ends it with a line, while modules are loaded too."""
    try:
        from seed_rl.cli.main import main

        return main()
    except KeyboardInterrupt:
        print("seed_rl: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
