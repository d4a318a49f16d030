"""The words of fault reports: threads, blocks, iterations, and what happened between two threads."""

from __future__ import annotations

from collections.abc import Sequence

from gemmsmith.sim.races.hazards import HazardKind
from gemmsmith.sim.races.spots import Spot
from gemmsmith.sim.wave import Size
from gemmsmith.verify.faults.fault_loops import Iteration, ordinal
from gemmsmith.verify.faults.fault_report import Mark

Rounds = tuple[tuple[Iteration, ...], tuple[Iteration, ...]]


def axes_name(place: Size, size: Size) -> str:
    """'3' where only x counts, '(3,2)' where y does, '(3,2,1)' where z does."""
    x, y, z = place
    return f"({x},{y},{z})" if size[2] > 1 else f"({x},{y})" if size[1] > 1 else f"{x}"


def block_name(spot: Spot) -> str:
    return f"block {axes_name(spot.block, spot.grid)}"


def thread_name(spot: Spot, with_block: bool = False) -> str:
    """'thread 33' of a block in x alone, 'thread (1,2)' of others."""
    name = f"thread {axes_name(spot.thread, spot.block_size)}"
    return f"{name} of {block_name(spot)}" if with_block else name


def legend(spot: Spot) -> str:
    """How threads are named; nothing where they are numbered."""
    if spot.block_size[1:] == (1, 1):
        return ""
    axes = "x, y" if spot.block_size[2] == 1 else "x, y, z"
    return f"threads are named by threadIdx ({axes})"


def does(verb: str, reads: bool = False) -> str:
    """What a thread does; ``reads``: of an asynchronous copy the end that it reads is meant."""
    if "copy" in verb:
        return "copies from" if reads else "copies into"
    words = {"read": "reads", "write": "writes", "atomic update": "updates", "read by wgmma": "multiplies (wgmma)"}
    return words.get(verb, f"does the {verb} of" if verb else "accesses")


def is_write(verb: str) -> bool | None:
    return {"read": False, "write": True}.get(verb)


def race_title(kind: HazardKind, one: str, two: str, first: str, second: str, element: str) -> str:
    if kind is HazardKind.IN_FLIGHT_COPY:
        return f"{one} {does(first)} {element} in the background, and {two} {does(second)} it before that is done"
    if kind is HazardKind.READ_AFTER_WRITE:
        return f"{one} {does(first)} {element}, and {two} {does(second, reads=True)} it without waiting for that"
    if kind is HazardKind.WRITE_AFTER_READ:
        return f"{one} {does(first, reads=True)} {element}, and {two} overwrites it without waiting for that"
    return f"{one} and {two} both write {element}, and which of them comes last is chance"


def barrier_between(first: Sequence[Mark], second: Sequence[Mark], rounds: Rounds) -> str:
    """Where what orders two accesses belongs: between the last marks of both, which are in the kernel itself."""
    if not first or not second or first[-1].file != second[-1].file:
        return "between the two there must be"
    one, two = first[-1].line, second[-1].line
    if one == two:
        return f"between two executions of line {one} there must be"
    gap = 0
    if all(rounds) and rounds[0][-1].line == rounds[1][-1].line:
        gap = rounds[1][-1].number - rounds[0][-1].number
    later = " of the next iteration" if gap == 1 else " of a later iteration" if gap > 1 else ""
    return f"between line {one} and line {two}{later} there must be"


def when(rounds: Rounds, same: bool) -> list[str]:
    """The loops that the two iterations belong to."""
    if same:
        return [f"both happen {all_iterations(rounds[0])}"] if rounds[0] else []
    one, two = rounds
    if one and two and [each.line for each in one] == [each.line for each in two]:
        return [compared(a, b) for a, b in zip(one, two, strict=True) if a != b]
    return [f"{n}. happens {all_iterations(each)}" for n, each in enumerate(rounds, 1) if each]


def compared(one: Iteration, two: Iteration) -> str:
    if one.value is None:
        return f"iterations of the loop at line {one.line}"
    return (
        f"{one.variable} = {one.value} is the {ordinal(one.number)} iteration of the loop at line {one.line}, "
        f"{two.variable} = {two.value} the {ordinal(two.number)}"
    )


def nth_iteration(each: Iteration) -> str:
    known = "this" if each.value is None else f"{each.variable} = {each.value}"
    return f"{known} is the {ordinal(each.number)} iteration of the loop at line {each.line}"


def misaligned(width: int, itemsize: int) -> str:
    every = f": every {ordinal(width // itemsize)} element" if itemsize and width > itemsize else ""
    return f"but {width} bytes at once must begin at a multiple of {width} bytes{every}"


def in_iteration(rounds: tuple[Iteration, ...], same: bool) -> str:
    return f", {rounds[-1].short}" if rounds and not same else ""


def all_iterations(rounds: tuple[Iteration, ...]) -> str:
    return " and ".join(map(str, rounds))


# What CUDA C++ calls the instructions of a warp.
_CALLED = {
    "shfl.sync": "__shfl_sync()",
    "vote.sync": "__ballot_sync(), __any_sync() or __all_sync()",
    "match.sync": "__match_any_sync() or __match_all_sync()",
    "redux.sync": "__reduce_add_sync() or the like",
}
_LEFT_OUT = " by a lane that its own member mask leaves out"
_SHORT = " needs all 32 lanes of a warp, and this warp has fewer"


def warp_title(detail: str, who: str) -> str:
    """A fault of an instruction that a warp executes together."""
    name = detail.removesuffix(_LEFT_OUT).removesuffix(_SHORT)
    called = _CALLED.get(name, name)
    if detail.endswith(_LEFT_OUT):
        return f"{who} calls {called}, but the mask that it passes does not have that thread (a whole warp: 0xffffffff)"
    if detail.endswith(_SHORT):
        return f"{called} needs all 32 threads of a warp, but in the warp of {who} some have returned"
    return f"{detail}: {who}"


def signed(address: int) -> int:
    """An address that wrapped below 0, as a negative number of bytes."""
    return address - 2**64 if address >= 2**63 else address - 2**32 if 2**31 <= address < 2**32 else address
