"""Declaration of commands and of their flags, and the flags shared by several commands.

```python
EPISODES = integer("episodes", 100, "Episodes to play.", lower_bound=1)
```
"""

import contextlib
import functools
import math
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from absl import flags

from seed_rl.errors import UsageError
from seed_rl.settings import whole_number
from seed_rl.transport.address import parse_address
from seed_rl.transport.credentials import ServerSecurity, read_authorities, read_certificate, read_token

POSITIVE = 1e-9
"""The `lower_bound` of a number above zero."""
DEFAULT_TCP_ADDRESS = "localhost:8686"

FlagValues: TypeAlias = flags.FlagValues
Flag: TypeAlias = Callable[..., object]
"""Defines a flag in `flag_values`; `module_name` is its title in `--help`. All other arguments are bound already."""
_Declare: TypeAlias = Callable[..., Flag]

boolean: _Declare = functools.partial(functools.partial, flags.DEFINE_boolean)
choice: _Declare = functools.partial(functools.partial, flags.DEFINE_enum)
comma_separated: _Declare = functools.partial(functools.partial, flags.DEFINE_list)
repeated: _Declare = functools.partial(functools.partial, flags.DEFINE_multi_string)
string: _Declare = functools.partial(functools.partial, flags.DEFINE_string)


def group(title: str, *declared: Flag) -> Flag:
    """Declare flags that `--help` shows together under a title."""

    def define_all(flag_values: FlagValues, module_name: str) -> None:
        for define in declared:
            define(flag_values=flag_values, module_name=title)

    return define_all


def quoted(values: Iterable[str]) -> str:
    """Write the value of a `comma_separated` flag, whose parts may hold commas and quotes."""
    return ",".join('"' + value.replace('"', '""') + '"' for value in values)


AUTO = "auto"
"""Value of a flag that is chosen for the machine."""


def integer(name: str, default: int | None, text: str, auto: bool = False, **bounds: int) -> Flag:
    """Declare a flag for a whole number such as 1e6, 300k, 10M or 1_000_000, within `lower_bound` and `upper_bound`.

    With `auto`, it may be `AUTO` instead.
    """
    parser = (_IntegerOrAuto if auto else _Integer)(**bounds)
    return functools.partial(flags.DEFINE, parser, name, default, text)


def number(name: str, default: float | None, text: str, **bounds: float) -> Flag:
    """Declare a flag for a finite number within `lower_bound` and `upper_bound`."""
    return functools.partial(flags.DEFINE, _Finite(**bounds), name, default, text)


class _Finite(flags.FloatParser):
    def convert(self, argument: Any) -> float:
        if not math.isfinite(value := super().convert(argument)):
            raise ValueError("expected a finite number")
        return value


class _Integer(flags.IntegerParser):
    def convert(self, argument: Any) -> int:
        return whole_number(str(argument))


class _IntegerOrAuto(_Integer):
    def parse(self, argument: Any) -> Any:
        return AUTO if argument == AUTO else super().parse(argument)


class Command(NamedTuple):
    """One command of `seed_rl`."""

    run: Callable[..., int]
    """Called with the flag values and, if it takes any, the positional arguments; returns the exit code. Its docstring
    is the summary shown by `--help`. A `UsageError` or a `Failure` is printed as one line, and is the exit code."""
    example: str
    """A command line, shown by `--help`."""
    arguments: str
    """Describes the positional arguments; "" if there are none."""
    flags: tuple[Flag, ...]


class RunOption(NamedTuple):
    """Flags that a neighbour adds to `train` and `learner`, and what they do; declared under an entry point."""

    flags: Flag
    apply: Callable[[FlagValues, Any], contextlib.AbstractContextManager[object]]
    """Called with the flag values and the `Run` before it is opened, which it may change. The context is left after the
    run has ended. Errors of the package are printed as by a command."""


RUN_OPTIONS = "seed_rl.run_options"
"""The entry-point group in which packages declare each `RunOption`."""


def command(example: str, *flags: Flag, arguments: str = "") -> Callable[[Callable[..., int]], Command]:
    """Turn a function into a command."""
    return lambda function: Command(function, example, arguments, flags)


def check_outputs(paths: Iterable[str], overwrite: bool = True, directories: bool = False) -> None:
    """Raise UsageError, before the work, if a file (or directory) given by `--output` can't be written, or if it exists
    (a directory: with something in it) although it must not."""
    for path in paths:
        parent, exists = os.path.dirname(path.rstrip("/") if directories else path) or ".", os.path.exists(path)
        if not os.path.isdir(parent):
            raise UsageError(f"--output {path} can't be written: there is no directory {parent}")
        if exists and os.path.isdir(path) != directories:
            raise UsageError(f"--output {path} can't be written: it is {'a file' if directories else 'a directory'}")
        if not os.access(path if exists and directories else parent, os.W_OK):  # an existing file is replaced
            raise UsageError(f"--output {path} can't be written: permission denied")
        if exists and not overwrite and (not directories or os.listdir(path)):
            raise UsageError(f"--output {path} exists already: choose another name, or --overwrite")


OF_ALL_COMMANDS = (
    choice("log_level", "info", ["debug", "info", "warning", "error"], "Lowest shown."),
    boolean("help", False, "Show this help.", short_name="h"),
)

EXIT_WITH_PARENT = boolean("exit_with_parent", False, "")
"""Exit when standard input is closed. Set by parent processes; without a description, `--help` omits it."""
IMPORT_MODULE = repeated("import_module", [], "Module that settings may name; repeatable.")
OVERWRITE = boolean("overwrite", False, "Replace what --output names, if it exists.")
TLS_SERVER_NAME = string("tls_server_name", None, "Name in the certificate, if not the host name.")
SHARED_CREDENTIALS = (
    string("tls_cert", None, "PEM file with the certificate chain to show."),
    string("tls_key", None, "PEM file with the certificate's private key."),
    string("token_file", None, "File with the shared secret (or SEED_RL_TOKEN)."),
    boolean("insecure", False, "Allow other hosts to connect without TLS and token."),
)
SECURITY = group(
    "security",
    string("tls_client_ca", None, "PEM file that vouches for actors' certificates."),
    *SHARED_CREDENTIALS,
)


def server_security(values: FlagValues, address: str) -> ServerSecurity:
    """Read the credentials of a server at an address; "": a unix socket that only this user can reach."""
    certificate, key = read_certificate(values.tls_cert, values.tls_key)
    clients = read_authorities(values.tls_client_ca, "--tls_client_ca")
    security = ServerSecurity(certificate, key, read_token(values.token_file), values.insecure, clients)
    if address:
        security.check(parse_address(address))
    return security
