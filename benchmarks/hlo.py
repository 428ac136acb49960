"""Reads the optimized program that XLA's compilers print: the memory traffic of its instructions, and large results."""

from __future__ import annotations

import collections
import dataclasses
import math
import re

_COMPUTATION = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(
    r"\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<result>\(.*?\)|\S+) "
    r"(?P<operation>[\w\-]+)\((?P<operands>.*?)\)(?P<rest>.*)"
)
_ARRAY = re.compile(r"(?P<dtype>[a-z]\w*)\[(?P<shape>[\d,]*)\](?P<layout>\{[^}]*\})?")
_CALLED = re.compile(
    r"(?:body|to_apply|true_computation|false_computation|branch_computations)=\{?([^},]+(?:, ?%[^},]+)*)"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_NAMES_ONLY = ("parameter", "get-tuple-element", "tuple", "bitcast", "constant", "after-all", "partition-id")
_CALLS = ("while", "conditional", "call")


@dataclasses.dataclass(frozen=True)
class Array:
    """An array among the operands or results of an instruction."""

    dtype: str
    shape: tuple[int, ...]
    on_chip: bool
    """In the small fast memory of a TPU's core."""

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes, without padding."""
        digits = re.search(r"\d+", self.dtype)
        return self.size * max(1, int(digits[0]) // 8 if digits else 1)  # "pred" is a byte


@dataclasses.dataclass(frozen=True)
class _Instruction:
    operation: str
    results: list[Array]
    operands: list[Array]
    rest: str

    @property
    def destinations(self) -> list[Array]:
        """The results, of an asynchronous copy without its source."""
        return self.results[:1] if self.operation.endswith("-start") else self.results


class Program:
    """An optimized program."""

    def __init__(self, text: str):
        self._computations: dict[str, list[_Instruction]] = collections.defaultdict(list)
        self._entry = name = ""
        arrays: dict[str, list[Array]] = {}
        for line in text.splitlines():
            if begin := _COMPUTATION.match(line):
                name, arrays = begin["name"], {}
                self._entry = name if begin["entry"] else self._entry
            elif found := _INSTRUCTION.match(line):
                results = _arrays(found["result"])
                operands = [
                    array for own in re.findall(r"%([\w.\-]+)", found["operands"]) for array in arrays.get(own, [])
                ]
                arrays[found["name"]] = results
                self._computations[name].append(_Instruction(found["operation"], results, operands, found["rest"]))

    def traffic(self, in_place: Array | None = None) -> int:
        """Bytes of device memory read and written: operands and results of each instruction that are not on the chip.

        Args:
          in_place: arrays of which only rows are touched count as nothing.
        """
        return self._traffic(self._entry, in_place)

    def _traffic(self, computation: str, in_place: Array | None) -> int:
        total = 0
        for instruction in self._computations[computation]:
            operation = instruction.operation
            if operation in _CALLS:
                trips = _TRIPS.search(instruction.rest)
                called = [name.strip(" %") for group in _CALLED.findall(instruction.rest) for name in group.split(",")]
                inside = max((self._traffic(name, in_place) for name in called), default=0)
                total += inside * (int(trips[1]) if trips else 1)
            elif operation.endswith("-start"):  # its result holds source and destination, of which it moves the smaller
                total += min(own.nbytes for own in instruction.results if own.dtype == instruction.results[0].dtype)
            elif operation not in _NAMES_ONLY and not operation.endswith("-done"):
                arrays = instruction.results + instruction.operands
                total += sum(own.nbytes for own in arrays if not own.on_chip and not _same(own, in_place))
        return total

    def results_like(self, array: Array) -> list[str]:
        """The operations that write an array of this type and number of elements, in any shape, to device memory."""
        return [
            instruction.operation
            for instructions in self._computations.values()
            for instruction in instructions
            if instruction.operation not in _NAMES_ONLY and not instruction.operation.endswith("-done")
            if any(_same(own, array) and not own.on_chip for own in instruction.destinations)
        ]


def _same(own: Array, other: Array | None) -> bool:
    return other is not None and (own.dtype, own.size) == (other.dtype, other.size)


def _arrays(text: str) -> list[Array]:
    return [
        Array(
            found["dtype"], tuple(map(int, filter(None, found["shape"].split(",")))), "S(1)" in (found["layout"] or "")
        )
        for found in _ARRAY.finditer(text)
    ]
