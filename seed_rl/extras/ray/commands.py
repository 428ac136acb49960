"""The flags with which Ray starts the processes of a run."""

import contextlib
import dataclasses
import importlib.util
import logging
import os
import secrets
from collections.abc import Iterator
from importlib.metadata import entry_points

from seed_rl.cli import flags
from seed_rl.cli.flags import RUN_OPTIONS, RunOption
from seed_rl.errors import UsageError
from seed_rl.runs.fleet import ELSEWHERE
from seed_rl.runs.run import Run
from seed_rl.transport.address import Address, parse_address
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

_NEED_RAY = ("ray_address", "min_actors", "actor_cpus", "num_learners")
_ALONE = ("record", "synchronous")  # flags that are applied after these, and need a single learner
_FIRST_HOSTS = ("film_every", "logdir", "num_learners", "quiet", "ray_address", "target_return", "trusted_network")


@contextlib.contextmanager
def _on_ray(values: flags.FlagValues, run: Run) -> Iterator[None]:
    if values.launcher == "local":
        for flag in _NEED_RAY:
            if values[flag].present:
                raise UsageError(f"--{flag} needs --launcher=ray")
        yield
        return
    _check(values, run)
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--launcher=ray needs Ray: pip install 'ray[default]'")
    import ray

    from seed_rl.extras.ray.cluster import connecting, with_gauges
    from seed_rl.extras.ray.fleet import RayActors
    from seed_rl.extras.ray.hosts import other_hosts

    env, actors = run.experiment.env, run.experiment.actors
    modules = dict.fromkeys(env.modules + run.experiment.eval_env.modules)
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(connecting(values.ray_address))
        context = ray.get_runtime_context()
        have_gpus = {node["NodeID"] for node in ray.nodes() if node["Alive"] and "GPU" in node["Resources"]}
        if have_gpus and context.get_node_id() not in have_gpus:
            _log.warning("the learner runs on this node, which has no GPU; docs/ray.md starts it on one that has")
        if values.num_learners > 1:
            command = _command(values, run.logdir, context.gcs_address)
            others = cleanup.enter_context(other_hosts(values.num_learners, command))
            values["learner_hosts"].value, values["learner_host"].value = others.addresses, 0
            (connects,) = entry_points(group=RUN_OPTIONS, name="hosts")
            cleanup.enter_context(connects.load().apply(values, run))
            run.meet = others.watched(run.meet)
        run.address = run.address or str(Address(host=ray.util.get_node_ip_address()))
        # Against other runs on the cluster, too. Ray passes it to the actors.
        run.security = dataclasses.replace(run.security, token=run.security.token or secrets.token_hex(32))
        own = run.security
        security = ClientSecurity(own.certificate, own.token, own.insecure, values.tls_server_name)
        settings = values.min_actors, values.actor_cpus, security, (type(env).__module__, *modules)
        run.actors = lambda logs: RayActors(actors.num_actors, logs, *settings, actors.hang_timeout_s)
        if run.index == 0:
            run.changes.append(lambda assembly: with_gauges(assembly, run.logdir))
        yield


def _check(values: flags.FlagValues, run: Run) -> None:
    count, most = values.num_learners, run.experiment.actors.num_actors
    if run.actors == ELSEWHERE:
        raise UsageError("--launcher=ray starts the actors of `seed_rl train`; `seed_rl learner` starts none")
    if values.tls_client_ca:
        raise UsageError("--tls_client_ca is for actors that have certificates, which Ray's actors have not")
    if values.num_actors == flags.AUTO:
        raise UsageError("--num_actors=auto is for actors on this machine")
    if values.min_actors > most:
        raise UsageError(f"--min_actors={values.min_actors} exceeds the maximum, Actors.num_actors = {most}")
    if run.address and parse_address(run.address).path:
        raise UsageError(f"--server_address must be HOST:PORT to be reached from other nodes, got {run.address}")
    if not (run.address or run.security.certificate or run.security.insecure):
        remedy = "add --tls_cert and --tls_key, or --insecure if you trust the network"
        raise UsageError(f"--launcher=ray opens a port to other nodes: {remedy}")
    if count > 1:
        if "learner_hosts" not in values:
            raise UsageError("--num_learners needs seed_rl.extras.hosts, which is not installed here")
        if values.learner_hosts:
            raise UsageError("--num_learners starts all learner hosts, and --learner_hosts names them: give one")
        if not values.trusted_network:
            why = "learner hosts neither encrypt nor authenticate what they send each other"
            raise UsageError(f"--num_learners={count} needs --trusted_network: {why}")
        alone = [f"--{flag}" for flag in _ALONE if flag in values and values[flag].value]
        if what := run.is_alone or "".join(alone[:1]):  # `Run` would say so only when the cluster has started
            raise UsageError(f"{what} needs a single learner host, --num_learners is {count}")


def _command(values: flags.FlagValues, logdir: str, head: str) -> list[str]:
    """Return the command of a learner host with the flags that were given to the first; `head` is the cluster's."""
    given = [values[name] for name in values if values[name].present and name not in _FIRST_HOSTS]
    values_of = {flag.name: flag.value if isinstance(flag.value, list) else [flag.value] for flag in given}
    texts = [f"--{name}={value}" for name, several in values_of.items() for value in several]
    place = logdir if "://" in logdir else os.path.abspath(logdir)
    return ["train", *texts, "--quiet", f"--ray_address={head}", f"--logdir={place}"]


OPTION = RunOption(
    flags.group(
        "several machines",
        flags.choice("launcher", "local", ["local", "ray"], "What starts the processes."),
        flags.string("ray_address", "", "host:port; default: RAY_ADDRESS, or a cluster here."),
        flags.integer("min_actors", 1, "End if fewer actors are there for five minutes.", lower_bound=1),
        flags.number("actor_cpus", 1.0, "CPUs that Ray reserves per actor.", lower_bound=0.0),
        flags.integer("num_learners", 1, "Learner hosts, each on its own node.", lower_bound=1),
    ),
    _on_ray,
)
