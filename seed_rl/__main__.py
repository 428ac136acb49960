"""Entry point of the command line: `seed_rl` or `python -m seed_rl`."""

import os
import sys


def main() -> int:
    """Run a command and return its exit code. Ctrl-C prints one line, even while modules are still loading."""
    _repair_streams()
    try:
        from seed_rl.cli import own_process

        own_process.claim()
        from seed_rl.cli.main import main

        return main()
    except KeyboardInterrupt as interrupt:
        print("seed_rl: interrupted", file=sys.stderr)
        return next((code for code in interrupt.args if isinstance(code, int)), 130)


def _repair_streams() -> None:
    """Replace closed standard streams, and escape characters that stdout can't encode."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115
    if sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


if __name__ == "__main__":
    sys.path.append(sys.path.pop(0))  # working directory last: its files could shadow any module
    sys.exit(main())
