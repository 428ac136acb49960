"""A learner whose acting and learning keep an order."""

import functools
from collections.abc import Callable
from typing import Any

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.experiment import Logs
from seed_rl.extras.repeating.orders import Order
from seed_rl.inference.batcher import Batcher
from seed_rl.learner.saving import Saver
from seed_rl.runs.assembly import Assembly, Parts


def with_order(new_order: Callable[[str], Order], assembly: Assembly, saves: Logs | None = None) -> Assembly:
    """Return the assembly of a run in which acting and learning keep an order, built for the run's directory.

    `saves` are the settings by which it saves, instead of those of its experiment.
    """
    order: Order

    def saver(parts: Parts) -> Saver:
        nonlocal order
        order = new_order(parts.directory)
        parts.cleanup.callback(order.close)
        logs = saves or parts.experiment.logs
        return OrderedSaver(order, parts.directory, logs, parts.variables, parts.progress)

    def acting_agents(parts: Parts) -> Any:
        return parts.replicas.acting_agents(parts.agent, parts.experiment.build_agent, order.whole_weights)

    def batcher(parts: Parts, number: int, queue: UnrollQueue) -> Batcher:
        own_envs = len(range(number, parts.sizes.num_envs, parts.sizes.num_devices))
        return order.batcher(number, assembly.batcher(parts, number, queue), own_envs, queue)

    def finish(parts: Parts) -> None:
        assembly.finish(parts)
        for number, one in enumerate(parts.acting):
            one.thread.turn = functools.partial(order.acting, number)
        copy_weights, counters = parts.copy_weights, parts.progress.counters
        order.begin(counters, parts.variables)
        begin = counters.learner_updates

        def refresh() -> None:
            with order.refreshing():
                copy_weights()
            if counters.learner_updates > begin:
                order.learned(counters.learner_updates, parts.variables)

        parts.copy_weights = refresh

    return assembly._replace(
        saver=saver,
        acting_agents=acting_agents,
        batcher=batcher,
        membership=lambda parts: order.membership(assembly.membership(parts)),
        finish=finish,
    )


class OrderedSaver(Saver):
    """Tells an order of each checkpoint."""

    def __init__(self, order: Order, *arguments: Any):
        super().__init__(*arguments)
        self._order = order

    def save(self) -> None:
        self._order.saving(self._progress.counters.learner_updates, self._variables)
        super().save()
