"""Runs of `seed_rl train --launcher=ray`: a learner in this process and actors on a Ray cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import os
import re
import secrets
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import ray
from absl import flags
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from ray.util.metrics import Gauge

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.learner.hosts import Hosts
from seed_rl.runs.ray.cluster import connected
from seed_rl.runs.ray.fleet import RayActors
from seed_rl.runs.ray.hosts import OtherHosts, other_hosts
from seed_rl.runs.run import Run
from seed_rl.system.signals import Stop, StopIf
from seed_rl.transport.address import Address, parse_address
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity

if TYPE_CHECKING:
    from seed_rl.learner.collectives import Link

_log = logging.getLogger(__name__)

_OF_FIRST_HOST = (
    "address",
    "film_every",
    "logdir",
    "num_learners",
    "quiet",
    "ray_address",
    "target_return",
    "trusted_network",
)
_NO_LETTER = r"[^a-zA-Z0-9_]"
_CERTIFICATE_NAME = "learner.seed-rl.internal"


@dataclasses.dataclass(eq=False)
class RayRun(Run):
    """A run that also reports metrics as Ray gauges, such as `ray_seed_rl_episode_return` in Prometheus."""

    others: OtherHosts | None = None

    def _connect(self, stop: Stop) -> Link | None:
        others = self.others
        if others is None:
            return super()._connect(stop)

        def stopped() -> bool:
            others.check()
            return stop.is_set()

        link = super()._connect(StopIf(stopped))
        others.joined = link is not None
        return link

    def train(self, stop: Stop | None = None) -> Generator[dict[str, float], None, None]:
        """Train as `Run.train` does."""
        gauges: dict[str, Gauge] = {}
        with contextlib.closing(super().train(stop)) as rows:
            for row in rows:
                for name, value in row.items():
                    if name not in gauges:
                        gauges[name] = Gauge(f"seed_rl_{re.sub(_NO_LETTER, '_', name)}", name, tag_keys=("run",))
                        gauges[name].set_default_tags({"run": self.logdir})
                    gauges[name].set(value)
                yield row


@contextlib.contextmanager
def ray_run(
    values: flags.FlagValues, experiment: Experiment, logdir: str, given: ServerSecurity, hosts: Hosts
) -> Iterator[RayRun]:
    """Connect to the cluster given by the flags, and yield a run with its learner here and its actors on the cluster.

    With `--num_learners`, the run has other learner hosts instead of `hosts`, which start here as well.

    Raises:
      ConfigError: flags contradict each other.
      AddressError, SecurityError: `--server_address` or its credentials are invalid.
      NoCluster: the cluster can't be reached, or has too few nodes for the learner hosts.
    """
    least, count, env = values.min_actors, experiment.actors.num_actors, experiment.env
    if least > count:
        raise ConfigError(f"--min_actors={least} exceeds the maximum, Actors.num_actors = {count}")
    learner, actors = credentials_of_run(given, values.tls_server_name)
    if values.server_address:
        address = parse_address(values.server_address)
        if address.path:
            raise ConfigError(f"--server_address must be HOST:PORT to be reached from other nodes, got {address}")
        learner.check(address)
    modules = (type(env).__module__, *env.modules)
    others = None
    with contextlib.ExitStack() as cleanup:
        cleanup.enter_context(connected(values.ray_address))
        here = ray.get_runtime_context().get_node_id()
        have_gpus = {node["NodeID"] for node in ray.nodes() if node["Alive"] and "GPU" in node["Resources"]}
        if have_gpus and here not in have_gpus:
            _log.warning("the learner runs on this node, which has no GPU; docs/ray.md starts it on one that has")
        if values.num_learners > 1:
            others = cleanup.enter_context(other_hosts(values.num_learners, _command(values, logdir)))
            hosts = others.hosts
        yield RayRun(
            experiment,
            logdir,
            actors=lambda logs: RayActors(count, logs, least, values.actor_cpus, actors, modules),
            address=values.server_address or str(Address(host=ray.util.get_node_ip_address())),
            security=learner,
            native_log=True,
            accelerator=values.accelerator or "",
            hosts=hosts,
            others=others,
        )


def _command(values: flags.FlagValues, logdir: str) -> list[str]:
    """Return the command of a learner host with the flags that were given to the first."""
    given = [values[name] for name in values if values[name].present and name not in _OF_FIRST_HOST]
    values_of = {flag.name: flag.value if isinstance(flag.value, list) else [flag.value] for flag in given}
    texts = [f"--{name}={value}" for name, several in values_of.items() for value in several]
    head = ray.get_runtime_context().gcs_address
    place = logdir if "://" in logdir else os.path.abspath(logdir)
    return ["train", *texts, "--quiet", f"--ray_address={head}", f"--logdir={place}"]


def credentials_of_run(given: ServerSecurity, name: str | None = None) -> tuple[ServerSecurity, ClientSecurity]:
    """Complete the user's credentials; return the learner's and its actors'.

    Args:
      given: the user's credentials; a missing certificate or token is generated for this run, unless the network is
        trusted (`insecure`).
      name: name in the user's certificate.
    """
    learner = given
    if not given.insecure:
        if given.certificate is None:
            certificate, key = _new_certificate()
            learner = dataclasses.replace(learner, certificate=certificate, private_key=key)
            name = _CERTIFICATE_NAME
        learner = dataclasses.replace(learner, token=given.token or secrets.token_hex(32))
    return learner, ClientSecurity(learner.certificate, learner.token, learner.insecure, name)


def _new_certificate() -> tuple[bytes, bytes]:
    """Create a self-signed certificate, not bound to an address, and its key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CERTIFICATE_NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # other clocks may be behind
        .not_valid_after(now + datetime.timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_CERTIFICATE_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
