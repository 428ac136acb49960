"""A client of a policy server, for simulators that aren't environments of this library."""

import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.specs import LEGAL_ACTIONS
from seed_rl.transport.client import Disconnected, LearnerClient, Rejected, RunOver
from seed_rl.transport.credentials import ClientSecurity, read_authorities, read_certificate
from seed_rl.types import EnvOutput


class PolicyClient(contextlib.AbstractContextManager):
    """Asks a policy server, or a learner, for the actions of E simulators that step together. Not thread-safe.

        with PolicyClient("localhost:8686") as policy:
            action = policy.reset(simulator.begin())
            while True:
                observation, reward, over = simulator.step(action)
                action = policy.act(simulator.begin() if over else observation, reward, done=over)

    `env_spec` has the spaces of a simulator, and `seed` is the one that the server gives the first simulator.
    """

    def __init__(
        self,
        address: str,
        num_envs: int | None = None,
        *,
        token: str | None = None,
        tls_ca: str | None = None,
        tls_server_name: str | None = None,
        tls_cert: str | None = None,
        tls_key: str | None = None,
        insecure: bool = False,
        timeout: float = 10.0,
    ):
        """Connect to a server at `host:port` or `unix:/path` within `timeout` seconds.

        There are up to as many simulators as in the server's largest batch; None: one, without the axis E. For the
        credentials see the flags of `seed_rl actor`. Raises AddressError, SecurityError, Rejected if the server refuses
        this client, and Disconnected if there is none or it is full.
        """
        self._num_envs = num_envs
        own = read_certificate(tls_cert, tls_key)
        security = ClientSecurity(read_authorities(tls_ca), token, insecure, tls_server_name, *own)
        self._client = LearnerClient(address, security)
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._client.close)
            spec = self._client.describe(timeout).env_spec
            if spec is None:
                raise Rejected(f"the server at {address} doesn't name the spaces of its environments")
            lease = self._client.join(secrets.token_hex(8), spec, [1 if num_envs is None else num_envs], timeout)
            self._stream = self._client.open(lease, 0, spec)
            cleanup.pop_all()
        self.env_spec, self.seed = spec, lease.groups[0].seed
        self._closed = False

    def reset(self, observation: Any, legal: Any = None) -> Any:
        """Begin new episodes in all simulators; those under way end here. See `act`."""
        return self.act(observation, done=True, legal=legal)

    def act(self, observation: Any, reward: Any = 0.0, done: Any = False, last: Any = False, legal: Any = None) -> Any:
        """Report what the last actions led to, and return the next ones, [E, ...] as in `env_spec`.

        Args:
          observation: [E, ...] as in `env_spec`: an array, or a mapping from names to arrays.
          reward: [E], or one for all.
          done: bool [E], or one for all: whether the observation is the first of a new episode.
          last: bool [E], or one for all: whether an episode is cut off in this observation, as by a time limit; the
            action is of no use then, and the next step has `done` and no reward.
          legal: bool [E, N]: whether each value of an action is legal, for policies with an action mask.

        Raises Rejected or ValueError for arrays that don't match `env_spec` or E, Disconnected without a server, and
        RunOver when the learner's run has ended.
        """
        if self._closed:
            raise Disconnected("this client is closed")
        if legal is not None:
            named = observation if isinstance(observation, Mapping) else {"observation": observation}
            observation = {**named, LEGAL_ACTIONS: np.packbits(np.asarray(legal, bool), axis=-1, bitorder="little")}
        specs: Any = self.env_spec.observation
        if isinstance(observation, Mapping) and isinstance(specs, Mapping):
            observation = {name: self._batch(value, specs.get(name)) for name, value in observation.items()}
        else:
            observation = self._batch(observation, specs)
        outcome = zip((reward, done, last), (np.float32, bool, bool), strict=True)
        reward, done, last = (np.full(1 if self._num_envs is None else self._num_envs, *each) for each in outcome)
        try:
            actions = self._stream.step(EnvOutput(reward, done, last, observation))
        except (Rejected, RunOver):
            raise
        except BaseException:  # such as Ctrl-C: the next reply would be that to this step
            self.close()
            raise
        return actions[0] if self._num_envs is None else actions

    def _batch(self, value: Any, spec: Any) -> np.ndarray:
        """Return an array [E, ...], converted to the dtype of the spec if it is of the same kind."""
        array = np.asarray(value) if self._num_envs is not None else np.asarray(value)[None]
        dtype = getattr(spec, "dtype", array.dtype)
        return array.astype(dtype, copy=False) if np.can_cast(array.dtype, dtype, "same_kind") else array

    def close(self) -> None:
        """Leave the server."""
        self._closed = True
        self._stream.close()
        self._client.close()

    def __exit__(self, *_: object) -> None:
        self.close()
