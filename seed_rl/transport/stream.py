"""A group's stream at the learner's end, and the `Service` that answers its steps."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport.calls import IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.refusal import WireError, reading
from seed_rl.types import EnvOutput


class Service(Protocol):
    """Central inference, as the transport sees it.

    Each method is called on the server's thread and must return at once. `join`, `open` and `step` may raise `Refused`.
    """

    def describe(self) -> ActorSettings:
        """What an actor needs to build its environments."""

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Makes room for an actor's groups."""

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """A group's stream begins; its environments and their spec."""

    def step(self, lease: GroupLease, first: bool, output: EnvOutput, stream: ActorStream) -> None:
        """Takes the observations of a group of E environments.

        Args:
          lease: from `open`.
          first: whether this is the stream's first message.
          output: reward [E], done [E], observation [E, ...]: read-only. The observation may be read until the answer
            is given, the others for longer.
          stream: gets the actions, once.
        """

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """A group's stream has ended. Called exactly once after each `open` that returned."""


@dataclasses.dataclass
class ServerStats:
    """Counters that the server's thread writes, without a lock, and anyone may read."""

    streams: int = 0
    """Streams that are open now."""
    steps: int = 0
    """Steps of groups that have arrived since the server started."""


class ActorStream:
    """A group's open stream: each message is a step, and is answered before the next is read.

    `step` is the `Service`'s, for this group. `on_end` is called once, with the reason in words, before the actor hears
    of the end and may open the group again.
    """

    def __init__(
        self,
        call: IncomingCall,
        codec: StepCodec,
        memory: memoryview | None,  # in which the actor writes its steps, instead of sending them
        step: Callable[[bool, EnvOutput, ActorStream], None],
        on_end: Callable[[ActorStream, str], None],
        stats: ServerStats,
    ):
        self._call = call
        self._codec = codec
        self._shared = None if memory is None else codec.views(memory)
        self._step = step
        self._on_end = on_end
        self._stats = stats
        self._first = True
        self._ended = False

    def answer(self, actions: np.ndarray) -> None:
        """Sends actions [E, ...] for the last step, if the stream is still there. On any thread."""
        try:
            self._call.send(self._codec.encode_actions(actions))
        except WireError as error:  # not the actor's fault
            self._call.post(functools.partial(self.end, error))

    def received(self, message: bytes | None) -> None:
        """A step, or the actor's goodbye. On the server's thread."""
        if message is None:
            self._close("the actor left")
            self._call.finish()
            return
        self._stats.steps += 1
        first, self._first = self._first, False
        try:
            with reading():
                output = self._read(message)
            self._step(first, output, self)
        except Exception as error:
            self.end(error)

    def _read(self, message: bytes) -> EnvOutput:
        if self._shared is None:
            return self._codec.decode_step(message)
        if message:
            raise WireError(f"expected an empty message for a step in shared memory, got {len(message)} bytes")
        # Copied before they are checked: an actor should leave the memory alone until it has its answer, but may not.
        output = self._shared._replace(reward=self._shared.reward.copy(), done=self._shared.done.copy())
        self._codec.check(output)
        return output

    def vanished(self) -> None:
        """The connection is gone. On the server's thread."""
        self._close("the actor vanished")

    def end(self, error: Exception) -> None:
        """Ends the stream from the learner's side, for this reason. On the server's thread."""
        if not self._ended:
            self._close(str(error))
            self._call.refuse(error)

    def _close(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._shared = None  # the last reference to the actor's memory, unless an observation is still being read
            self._on_end(self, reason)
