"""`seed_rl train --launcher=ray`: a run whose actors, and if need be its learner, are Ray actors."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import secrets
from collections.abc import Iterator

import ray
from absl import flags
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.runs.ray.cluster import connected, this_node
from seed_rl.runs.ray.fleet import ActorSpec, RayActors
from seed_rl.runs.ray.learner import RemoteRun
from seed_rl.runs.run import Run
from seed_rl.system.object_store import Store
from seed_rl.transport.address import Address, parse_address
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity

_HERE = "here"
_CERTIFICATE_NAME = "learner.seed-rl.internal"
_CERTIFICATE_LASTS = datetime.timedelta(days=365)
_CLOCK_SKEW = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """What any node needs to run a learner with its actors on the cluster."""

    experiment: Experiment
    learner: ServerSecurity
    actors: ClientSecurity
    address: str
    """Where the learner listens; "": any free port of its node's address."""
    min_actors: int
    actor_cpus: float
    log_level: int

    def run(self, logdir: str, store: Store | None = None) -> Run:
        """A run whose learner is in this process; the arguments are those of `Run`."""
        experiment = self.experiment
        env = experiment.env
        actor = ActorSpec(self.actors, (type(env).__module__, *env.modules), self.log_level)
        return Run(
            experiment,
            logdir,
            actors=lambda logs: RayActors(experiment.actors.num_actors, logs, self.min_actors, self.actor_cpus, actor),
            address=self.address or str(Address(host=this_node()[0])),
            security=self.learner,
            native_log=True,
            store=store,
        )


@contextlib.contextmanager
def ray_run(
    values: flags.FlagValues, experiment: Experiment, logdir: str, given: ServerSecurity
) -> Iterator[Run | RemoteRun]:
    """A run on the cluster that the flags name; inside, this process is connected to it.

    Raises:
      ConfigError: flags that don't go together.
      AddressError, SecurityError: `--server_address`, or the credentials for it.
      NoCluster: the cluster can't be reached.
    """
    least, most = values.min_actors, experiment.actors.num_actors
    if least > most:
        raise ConfigError(f"--min_actors={least} is more than there is room for: Actors.num_actors is {most}")
    learner, actors = credentials_of_run(given, values.tls_server_name)
    if values.server_address:
        address = parse_address(values.server_address)
        if address.path:
            raise ConfigError(f"actors on other nodes can't reach --server_address={address}: give HOST:PORT")
        learner.check(address)
    level = logging.getLogger().level
    spec = RunSpec(experiment, learner, actors, values.server_address, least, values.actor_cpus, level)
    with connected(values.ray_address):
        resource = values.ray_learner or ("GPU" if ray.cluster_resources().get("GPU") else _HERE)
        yield spec.run(logdir) if resource == _HERE else RemoteRun(spec, logdir, resource)


def credentials_of_run(given: ServerSecurity, name: str | None = None) -> tuple[ServerSecurity, ClientSecurity]:
    """The credentials of the learner and of its actors.

    Args:
      given: by the user; a missing certificate or token is made for this run alone, unless the network is trusted
        (`insecure`).
      name: in the user's certificate.
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
    """A self-signed certificate that is bound to no address, and its key; PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _CERTIFICATE_NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _CERTIFICATE_LASTS)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_CERTIFICATE_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private
