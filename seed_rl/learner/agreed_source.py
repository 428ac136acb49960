"""The batch source of a learner host: agrees with the other hosts on each batch and counts the frames trained on."""

from seed_rl.experiment import Experiment
from seed_rl.learner.collectives import Link
from seed_rl.learner.progress import Counters
from seed_rl.learner.sources import Batch, Source

_POLL_SECONDS = 0.2  # delay until a host that waits for a batch notices the end of the run


class AgreedSource:
    """Wraps a source so that all hosts use a batch, or leave, in the same round; counts agent steps and frames."""

    def __init__(self, source: Source, counters: Counters, link: Link, experiment: Experiment):
        self.left = False
        """Whether the hosts have agreed to end the run."""
        self.env_frames = counters.env_frames
        """Progress of the run before the last batch, in environment frames, equal on all hosts."""
        self._source = source
        self._counters = counters
        self._link = link
        self._unroll_length = experiment.agent.unroll_length
        self._action_repeat = experiment.env.action_repeat
        self._counted = self._steps
        self._batch: Batch | None = None

    def next(self, leave: bool) -> Batch | None:
        """Return the next batch; None if a host has none within about 0.2 seconds, or if one wants to end the run."""
        if self._batch is None and not leave:
            self._batch = self._source.next(_POLL_SECONDS)
        ready = self._batch is not None
        agreed = self._link.agree(leave=leave, ready=ready, env_frames=self._counters.env_frames)
        self.left = agreed.leave
        if agreed.leave or (ready and not agreed.update):  # a batch that waits for other hosts is counted when used
            return None
        self._count()
        batch, self._batch = self._batch, None
        if batch is not None:
            self.env_frames = agreed.env_frames
        return batch

    def leave(self) -> None:
        """End the run on all hosts, unless they have left already."""
        if not self.left:
            self.next(leave=True)

    @property
    def _steps(self) -> int:
        """Number of agent steps taken from acting on this host."""
        return self._source.taken * self._unroll_length - self._source.ends

    def _count(self) -> None:
        """Count the unrolls taken since the last call, each once, however often it is replayed."""
        steps = (self._steps - self._counted) * self._link.hosts.count  # every host takes as many unrolls
        self._counted = self._steps
        self._counters.agent_steps += steps
        self._counters.env_frames += steps * self._action_repeat
