"""The flags that make `train` and `learner` one of several learner hosts."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from seed_rl.cli import flags
from seed_rl.cli.flags import RunOption
from seed_rl.errors import UsageError
from seed_rl.extras.hosts.hosts import Hosts, meet
from seed_rl.runs.run import Run
from seed_rl.system.files import explaining

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly


@contextlib.contextmanager
def _with_hosts(values: flags.FlagValues, run: Run) -> Iterator[None]:
    addresses, index = tuple(values.learner_hosts), values.learner_host
    if addresses:
        with explaining(UsageError, "--learner_hosts", ValueError):
            # Kubernetes sets the variable in an Indexed Job.
            if (own := os.environ.get("JOB_COMPLETION_INDEX") if index is None else index) is None:
                raise UsageError("--learner_hosts needs --learner_host, the index of this one")
            hosts = Hosts(addresses, int(own), values.trusted_network)
        join(hosts, run)
    elif index is not None:
        raise UsageError("--learner_host needs --learner_hosts")
    yield


def join(hosts: Hosts, run: Run) -> None:
    """Make a run one of some hosts before it is opened; all but the first write into their own subdirectories."""

    def change(assembly: Assembly) -> Assembly:
        from seed_rl.extras.hosts.together import with_hosts

        return with_hosts(hosts, run.experiment, assembly)

    run.index, run.learners = hosts.index, hosts.count
    run.meet = functools.partial(meet, hosts)
    run.changes.append(change)
    if hosts.index:
        run.logdir = os.path.join(run.logdir, f"host-{hosts.index}")


OPTION = RunOption(
    flags.group(
        "several machines",
        flags.comma_separated("learner_hosts", [], "host:port of each learner."),
        flags.integer("learner_host", None, "Index of this host; default: JOB_COMPLETION_INDEX."),
        flags.boolean("trusted_network", False, "Trust all machines that reach the hosts' ports."),
    ),
    _with_hosts,
)
