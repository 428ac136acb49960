"""Parses the optimized programs printed by XLA's compilers for memory traffic and large results."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

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
_CONTROL_FLOW = ("while", "conditional", "call")


@dataclasses.dataclass(frozen=True)
class Array:
    """An array that is an operand or result of an instruction."""

    dtype: str
    shape: tuple[int, ...]
    on_chip: bool
    """Whether it is in the small fast memory of a TPU core."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Size in bytes, without padding."""
        digits = re.search(r"\d+", self.dtype)
        return self.size * max(1, int(digits[0]) // 8 if digits else 1)  # "pred" is a byte


@dataclasses.dataclass(frozen=True)
class _Instruction:
    operation: str
    results: list[Array]
    operands: list[Array]
    rest: str

    @property
    def written(self) -> list[Array]:
        """Results in device memory; empty for transfers from or to the chip, whose results include their source."""
        if self.operation.endswith("-start"):
            return [] if any(own.on_chip for own in self.results) else self.results[:-1]
        return [own for own in self.results if not own.on_chip]


class Program:
    """An optimized program."""

    def __init__(self, text: str):
        self._computations: dict[str, list[_Instruction]] = collections.defaultdict(list)
        self._largest: dict[str, int] = collections.defaultdict(lambda: 1)
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
                if found["operation"] == "constant" and found["result"].startswith("s32[]"):
                    self._largest[name] = max(self._largest[name], int(found["operands"]))
                self._computations[name].append(_Instruction(found["operation"], results, operands, found["rest"]))

    def traffic(self, in_place: Array | None = None) -> int:
        """Count bytes of device memory read and written: off-chip operands and results of each instruction.

        Both branches of a condition count, and arrays count completely even if an instruction reads only a slice.

        Args:
          in_place: arrays to ignore because only some of their rows are accessed.
        """
        total = 0
        for instruction, times in self._executed(self._entry):
            if instruction.operation.endswith("-start"):
                # A transfer returns source, destination and context, and moves the smaller of the first two.
                total += times * min(own.nbytes for own in instruction.results[:-1])
            elif not instruction.operation.endswith("-done"):
                arrays = instruction.results + instruction.operands
                total += times * sum(own.nbytes for own in arrays if not own.on_chip and not _same(own, in_place))
        return total

    def results_like(self, array: Array) -> list[str]:
        """Return the operations that write an array of this type and number of elements to device memory."""
        return [
            instruction.operation
            for instruction, _ in self._executed(self._entry)
            if not instruction.operation.endswith("-done")
            if any(_same(own, array) for own in instruction.written)
        ]

    def _executed(self, computation: str) -> Iterator[tuple[_Instruction, int]]:
        """Yield each instruction that computes or moves data, and how often it runs; a fusion is one instruction."""
        for instruction in self._computations[computation]:
            if instruction.operation in _CONTROL_FLOW:
                rounds = self._rounds(instruction)
                for name in re.findall(r"%([\w.\-]+)", " ".join(_CALLED.findall(instruction.rest))):
                    for own, times in self._executed(name):
                        yield own, times * rounds
            elif instruction.operation not in _NAMES_ONLY:
                yield instruction, 1

    def _rounds(self, instruction: _Instruction) -> int:
        """Return the trip count of a loop (from the compiler, or the largest constant of its condition), else 1."""
        if known := _TRIPS.search(instruction.rest):
            return int(known[1])
        condition = re.search(r"condition=%([\w.\-]+)", instruction.rest)
        return self._largest[condition[1]] if condition else 1


def _same(own: Array, other: Array | None) -> bool:
    return other is not None and (own.dtype, own.size) == (other.dtype, other.size)


def _arrays(text: str) -> list[Array]:
    def shape(text: str) -> tuple[int, ...]:
        return tuple(map(int, filter(None, text.split(","))))

    found = [match.groups(default="") for match in _ARRAY.finditer(text)]
    return [Array(dtype, shape(axes), on_chip="S(1)" in layout) for dtype, axes, layout in found]
