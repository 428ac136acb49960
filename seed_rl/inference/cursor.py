"""Each environment's position in its unrolls: NumPy bookkeeping that feeds the compiled act step."""

import numpy as np

from seed_rl.buffers.slots import SlotPool
from seed_rl.buffers.unroll_store import StepWrites


class UnrollCursor:
    """Cuts the continuous experience of N environments into unrolls of L steps that start every `stride` steps.

    Unroll k of an environment holds steps k * stride ... k * stride + L - 1 of its run. Consecutive unrolls share
    L - stride steps, and D = ceil(L / stride) unrolls are in progress at a time. Each step is stored once, whatever
    number of unrolls it belongs to, and an unroll also refers to the steps before it that fit into the pool's window.
    """

    def __init__(self, recorded: np.ndarray, length: int, stride: int, pool: SlotPool, stagger: bool):
        """`recorded`, bool [N], says whether an environment's experience is stored, in slots and places of the pool.

        If they are to `stagger`, the first unrolls of the environments are spread over a stride, so that unrolls finish
        evenly in time. Up to `stride` - 1 steps before the first unroll are then acted on but not learned from.
        """
        num_envs = len(recorded)
        self.length, self.stride, self.depth = length, stride, -(-length // stride)
        self.spare = pool.num_slots
        self.version = 0
        """Number of learner updates in the acting weights; set by the learner."""
        self.newest_version = 0
        """Number of learner updates so far, which the acting copy may lag behind; set by the learner."""
        self.unrecorded_steps = 0
        self.discarded_unrolls = 0
        self._pool = pool
        self.recorded = recorded
        self._delay = (np.arange(num_envs) * stride // num_envs if stagger else np.zeros(num_envs)).astype(np.int64)
        self._step = np.zeros(num_envs, np.int64)
        self._open = np.full((num_envs, self.depth), self.spare, np.int32)
        self._window = pool.places.shape[1]
        self._places = np.full((num_envs, self._window), pool.num_places, np.int32)  # of the newest steps, in a ring

    def restart(self, env_ids: np.ndarray) -> None:
        """Begin a new run of these environments; discard and count their unrolls in progress."""
        open_slots = self._open[env_ids].ravel()
        held = open_slots[open_slots != self.spare]
        self._pool.release(held)
        self.discarded_unrolls += len(held)
        self._open[env_ids] = self.spare
        self._pool.release_places(self._places[env_ids].ravel())
        self._places[env_ids] = self._pool.num_places
        self._step[env_ids] = -self._delay[env_ids]

    def finishing(self, env_ids: np.ndarray) -> bool:
        """Return whether the next step of any of these environments completes an unroll."""
        return bool(self._completing(env_ids).any())

    def _completing(self, env_ids: np.ndarray) -> np.ndarray:
        after_first = self._step[env_ids] - (self.length - 1)
        return self.recorded[env_ids] & (after_first >= 0) & (after_first % self.stride == 0)

    def advance(self, env_ids: np.ndarray, last: np.ndarray | None = None) -> tuple[StepWrites, np.ndarray]:
        """Advance each of B different environments, int32 [B], by a step, which may be the `EnvOutput.last`, bool [B].

        Return the destinations of the step, and the slots of the unrolls that it completes, int32 [any].
        """
        step, stored = self._step[env_ids], self.recorded[env_ids]
        live = stored & (step >= 0)
        self.unrecorded_steps += int(np.count_nonzero(stored & (step < 0)))
        newest = step // self.stride

        opening = live & (step % self.stride == 0)
        opened = np.full(len(env_ids), self.spare, np.int32)
        opened[opening] = self._pool.acquire(int(np.count_nonzero(opening)), self.version)
        self._open[env_ids[opening], newest[opening] % self.depth] = opened[opening]

        places = np.full(len(env_ids), self._pool.num_places, np.int32)
        envs, at = env_ids[stored], step[stored] % self._window
        self._pool.release_places(self._places[envs, at])
        places[stored] = self._places[envs, at] = self._pool.acquire_places(len(envs))

        if last is not None and (ending := last & live).any():
            self._pool.ends[self._open[env_ids, newest % self.depth][ending]] += 1
        completes = self._completing(env_ids)
        envs, columns = env_ids[completes], (step[completes] - (self.length - 1)) // self.stride % self.depth
        finished = self._open[envs, columns]
        in_order = (step[completes, None] + 1 + np.arange(self._window)) % self._window
        self._pool.finish(finished, self._places[envs[:, None], in_order])
        self._open[envs, columns] = self.spare
        self._step[env_ids] = step + 1
        return StepWrites(places, opened), finished
