"""Several learner hosts on a cluster: Ray places each on a node of its own, and the first starts the others."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from seed_rl.learner.hosts import HostLost, Hosts
from seed_rl.runs.ray.cluster import NoCluster, this_node

_log = logging.getLogger(__name__)

_SLOW_SECONDS = 20.0
_PATIENCE_SECONDS = 300.0
_GRACE_SECONDS = 15.0


def _free_address() -> str:
    """Return an address of this node for the other learner hosts."""
    with socket.create_server(("", 0)) as listener:
        return f"{this_node()[0]}:{listener.getsockname()[1]}"


class RayLearner:
    """A learner host on its node."""

    def address(self) -> str:
        """Return the `host:port` where it will listen for the other hosts."""
        return _free_address()

    def run(self, arguments: Sequence[str], directory: str) -> str:
        """Run a command of seed_rl in a process of its own, which ends with this one.

        Args:
          arguments: the command and its flags.
          directory: the working directory of the first host, used where it exists.

        Returns:
          How the process ended.
        """
        command = [sys.executable, "-m", "seed_rl", *arguments, "--exit_with_parent"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        where = directory if os.path.isdir(directory) else None
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, cwd=where, env=environment
            )
            code = process.wait()
            output.seek(0)
            lines = output.read().splitlines()
        return f"exit code {code}" + (f": {lines[-1]}" if lines else "")


@dataclasses.dataclass(eq=False)
class OtherHosts:
    """The learner hosts that the first one started."""

    hosts: Hosts
    """All hosts, of which this process is the first."""
    ends: list[Any]
    """A reference for each of the others to the way it ended."""

    def check(self) -> None:
        """Raise an error if one of them has ended.

        Raises:
          HostLost: how it ended.
        """
        for ended in ray.wait(self.ends, num_returns=len(self.ends), timeout=0)[0]:
            name = self.hosts.name(self.ends.index(ended) + 1)
            raise HostLost(f"{name} ended with {_result(ended)}")


@contextlib.contextmanager
def other_hosts(count: int, arguments: Sequence[str]) -> Iterator[OtherHosts]:
    """Start all learner hosts but the first, which is this process.

    Args:
      count: number of hosts, which all run on different nodes; each reserves as many GPUs as this one has, or a CPU.
      arguments: the command that each runs, to which its addresses and its index are added.

    Raises:
      NoCluster: the cluster has too few nodes.
    """
    gpus = len(ray.get_gpu_ids())
    needs = {"GPU": gpus} if gpus else {"CPU": 1}
    group = placement_group([{f"node:{this_node()[0]}": 0.001}, *[needs] * (count - 1)], strategy="STRICT_SPREAD")
    try:
        _wait_for_nodes(group, count, needs)
        kind: Any = ray.remote(num_cpus=0 if gpus else 1, num_gpus=gpus, max_restarts=0)(RayLearner)
        others = [
            kind.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
            for index in range(1, count)
        ]
        hosts = Hosts((_free_address(), *ray.get([other.address.remote() for other in others])), trusted_network=True)
        _log.info("learner hosts are at %s", ", ".join(hosts.addresses))
        flags = [f"--learner_hosts={','.join(hosts.addresses)}", "--trusted_network"]
        ends = [
            other.run.remote([*arguments, *flags, f"--learner_host={index}"], os.getcwd())
            for index, other in enumerate(others, 1)
        ]
        yield OtherHosts(hosts, ends)
        for ended in ray.wait(ends, num_returns=len(ends), timeout=_GRACE_SECONDS)[0]:
            _log.info("%s ended with %s", hosts.name(ends.index(ended) + 1), _result(ended))
    finally:
        remove_placement_group(group)


def _wait_for_nodes(group: PlacementGroup, count: int, needs: dict[str, int]) -> None:
    if group.wait(_SLOW_SECONDS):
        return
    what = f"{count} learner hosts need as many nodes" + "".join(f" with {n} {kind} each" for kind, n in needs.items())
    _log.info("%s; waiting for them", what)
    if not group.wait(_PATIENCE_SECONDS):
        raise NoCluster(f"{what}, which the cluster has not had for {_PATIENCE_SECONDS:.0f} s")


def _result(ended: Any) -> str:
    try:
        return ray.get(ended)
    except ray.exceptions.RayError as error:
        return f"its node: {str(error).strip().splitlines()[0]}"
