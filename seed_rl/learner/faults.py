"""Updates that were left out because their gradients were not finite: whose unrolls they were made from."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from seed_rl.buffers.slots import Origin
from seed_rl.inference.service import CentralInference
from seed_rl.learner.ending import Diverged

_log = logging.getLogger(__name__)

PATIENCE = 20
"""Updates in a row that may be left out without an unroll at fault. One that isn't the weights' fault is over when its
unrolls are: a queue holds a few batches."""


class Faults:
    """Names the actors whose unrolls spoil updates, and ends a run that can't be helped by doing without them."""

    def __init__(self, service: CentralInference):
        self._service = service
        self._in_a_row = 0

    def made(self) -> None:
        """An update was made."""
        self._in_a_row = 0

    def left_out(self, origins: Sequence[Origin], at_fault: np.ndarray | None, on_other_hosts: bool) -> None:
        """An update, or one of its optimizer steps, was left out.

        Args:
          origins: of its unrolls here.
          at_fault: bool, one for each, or None: see `TrainStep.faults`.
          on_other_hosts: whether other learner hosts have given unrolls, too.

        Raises:
          Diverged: it is not the first such update in a row, and no unroll was at fault in any of them.
        """
        found = [] if at_fault is None else [one for one, bad in zip(origins, at_fault, strict=True) if bad]
        if found:
            self._in_a_row = 0
            _log.warning(
                "an update was left out: unrolls of %s gave gradients that are not finite", self._service.blame(found)
            )
            return
        if at_fault is not None and on_other_hosts:
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
