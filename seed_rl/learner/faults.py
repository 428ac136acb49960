"""Updates that were left out because their gradients were not finite: whose unrolls they were made from."""

from __future__ import annotations

import logging

from seed_rl.inference.service import CentralInference
from seed_rl.learner.ending import Diverged
from seed_rl.learner.sources import Batch
from seed_rl.learner.train_step import TrainStep, Update
from seed_rl.types import Unroll

_log = logging.getLogger(__name__)

PATIENCE = 20
"""Updates in a row that may be left out without an unroll at fault. One that isn't the weights' fault is over when its
unrolls are: a queue holds a few batches."""


class Faults:
    """Names the actors whose unrolls spoil updates, and ends a run that can't be helped by doing without them."""

    def __init__(self, service: CentralInference, train_step: TrainStep, several_hosts: bool):
        self._service = service
        self._train_step = train_step
        self._several_hosts = several_hosts
        self._in_a_row = 0

    def look_for(self, update: Update, unroll: Unroll, batch: Batch) -> None:
        """Looks for the reason if an update, or one of its optimizer steps, was left out.

        Args:
          update: the outcome.
          unroll: the fields that the update was made from.
          batch: the origins and importance weights of its unrolls.

        Raises:
          Diverged: too many updates in a row were left out, and no unroll was at fault in any of them.
        """
        if not update.left_out:
            self._in_a_row = 0
            return
        at_fault, origins = self._train_step.faults(unroll, batch.importance_weights), batch.origins.tolist()
        found = [] if at_fault is None else [one for one, bad in zip(origins, at_fault, strict=True) if bad]
        if found:
            self._in_a_row = 0
            _log.warning(
                "an update was left out: unrolls of %s gave gradients that are not finite", self._service.blame(found)
            )
            return
        if at_fault is not None and self._several_hosts:
            _log.warning("an update was left out: unrolls of another learner host gave gradients that are not finite")
            return
        self._in_a_row += 1
        why = "those of each of its unrolls alone are"
        if at_fault is None:
            why = "with these weights those of earlier unrolls are not finite any more, either"
        _log.warning(
            "an update was left out: its gradients are not finite (%s), and %s", self._service.names(origins), why
        )
        if self._in_a_row >= PATIENCE:
            raise Diverged(
                f"the gradients of {PATIENCE} updates in a row were not finite, and no actor's unrolls are at fault"
            )
