"""Several learner hosts on a cluster: Ray places each on a separate node, and the first starts the others.

What they then do together is another neighbour's, whose flags the others get.
"""

import contextlib
import dataclasses
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from seed_rl.errors import Failure
from seed_rl.extras.ray.cluster import PATIENCE_SECONDS, SLOW_SECONDS, NoCluster, why_it_cannot_start
from seed_rl.system.files import reason
from seed_rl.system.signals import Stop, StopIf
from seed_rl.transport.address import unused_port

_log = logging.getLogger(__name__)

_GRACE_SECONDS = 60.0  # for others to save and end; a second Ctrl-C ends the wait
_RUNTIME_ENVIRONMENT = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # of a submitted job, for which Ray sets it
# All hosts wait for the slowest one at each update; Ray's workers would yield to everything else on their nodes.
_NORMAL_PRIORITY = {"env_vars": {"RAY_worker_niceness": "0"}}


class RayLearner:
    """A learner host on its node."""

    def address(self) -> str:
        """Return the `host:port` where it will listen for the other hosts."""
        return f"{ray.util.get_node_ip_address()}:{unused_port()}"

    def run(self, arguments: Sequence[str], directory: str, runtime_environment: str) -> str:
        """Run a command of seed_rl in a separate process, which ends with this one; return how it ended.

        The first host's working directory is used where it exists, and the job's runtime environment, if any, is for
        the actors that the command starts.
        """
        command = [sys.executable, "-m", "seed_rl", *arguments, "--exit_with_parent"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        if runtime_environment:
            environment[_RUNTIME_ENVIRONMENT] = runtime_environment
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

    addresses: tuple[str, ...]  # `host:port` of all hosts, of which this process is the first
    ends: list[Any]  # a reference for each of the others to the way it ended
    joined: bool = False  # whether they have joined the run, and therefore end with it

    def watched(self, meet: Callable[[Stop], bool]) -> Callable[[Stop], bool]:
        """Return a way to `meet` them in which the end of one is a Failure that says how."""

        def meet_all(stop: Stop) -> bool:
            def stopped() -> bool:
                for sentence in self.wait(0.0):
                    raise Failure(sentence)
                return stop.is_set()

            self.joined = meet(StopIf(stopped))
            return self.joined

        return meet_all

    def wait(self, seconds: float) -> list[str]:
        """Wait until all have ended, for at most some seconds; return a message for each that has."""
        ended = ray.wait(self.ends, num_returns=len(self.ends), timeout=seconds)[0]
        numbered = [(n, end) for n, end in enumerate(self.ends, 1) if end in ended]
        return [f"learner host {n} ({self.addresses[n]}) ended with {_how(end)}" for n, end in numbered]


@contextlib.contextmanager
def other_hosts(count: int, arguments: Sequence[str]) -> Iterator[OtherHosts]:
    """Start all `count` learner hosts but the first, which is this process.

    All run on different nodes, each with as many GPUs as this one has, or one CPU, and the command that has these
    `arguments`, to which addresses and index are added. Raises NoCluster if nodes are missing or lack seed_rl.
    """
    gpus = _own_gpus()
    needs = {"GPU": gpus} if gpus else {"CPU": 1}
    here = {f"node:{ray.util.get_node_ip_address()}": 0.001}
    group = placement_group([here, *[needs] * (count - 1)], strategy="STRICT_SPREAD")
    try:
        _wait_for_nodes(group, count, needs)
        needed = {"num_cpus": 0 if gpus else 1, "num_gpus": gpus}
        learner: Any = ray.remote(**needed, max_restarts=0, runtime_env=_NORMAL_PRIORITY)(RayLearner)
        learners = [
            learner.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
            for index in range(1, count)
        ]
        try:
            addresses = ray.get([each.address.remote() for each in learners])
        except ray.exceptions.RayError as error:
            raise NoCluster(f"a learner can't start: {why_it_cannot_start(error)}") from error
        addresses = [RayLearner().address(), *addresses]
        _log.info("learner hosts are at %s", ", ".join(addresses))
        flags = [f"--learner_hosts={','.join(addresses)}", "--trusted_network"]
        place = os.getcwd(), os.environ.get(_RUNTIME_ENVIRONMENT, "")
        commands = [[*arguments, *flags, f"--learner_host={index}"] for index in range(1, count)]
        ends = [each.run.remote(own, *place) for each, own in zip(learners, commands, strict=True)]
        others = OtherHosts(tuple(addresses), ends)
        try:
            yield others
        finally:
            ended = others.wait(_GRACE_SECONDS if others.joined else 0.0)
            for sentence in ended:
                _log.info("%s", sentence)
            if others.joined and len(ended) < count - 1:
                _log.warning("other learner hosts have not ended within %.0f s and are killed", _GRACE_SECONDS)
    finally:
        remove_placement_group(group)


def _own_gpus() -> int:
    """Return how many GPUs this learner host uses: those that it sees, which may be fewer than the node's."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([each for each in visible.split(",") if each.strip() not in ("", "-1")])
    here = ray.get_runtime_context().get_node_id()
    return sum(int(node["Resources"].get("GPU", 0)) for node in ray.nodes() if node["NodeID"] == here)


def _wait_for_nodes(group: PlacementGroup, count: int, needs: dict[str, int]) -> None:
    if _are_there(group, SLOW_SECONDS):
        return
    ((resource, number),) = needs.items()
    what = f"{count} learner hosts need as many nodes, with {number} {resource} on each but this one"
    _log.info("%s; waiting for them", what)
    if not _are_there(group, PATIENCE_SECONDS):
        raise NoCluster(f"{what}, and the cluster hasn't had them for five minutes")


def _are_there(group: PlacementGroup, seconds: float) -> bool:
    """Wait for nodes, for a second at a time: Python handles no signal, such as that of Ctrl-C, while Ray waits."""
    return any(group.wait(1.0) for _ in range(round(seconds)))


def _how(ended: Any) -> str:
    try:
        return ray.get(ended)
    except ray.exceptions.RayError as error:
        return f"its process or node: {reason(error)}"
