"""Launches that take new addresses at little cost: arguments stay in memory, and addresses are written over.

    loaded plan ─► arguments packed once, and where each address stands ─► write addresses, launch   for every call

A tensor map holds its tensor's address as a plain number. Where exactly is found by encoding two addresses; a map whose
bytes differ in more than that is encoded anew for every call. The driver copies arguments during a launch, so they may
change right after it; one object serves one thread.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from gemmsmith.call.binding import LoadedLaunch, LoadedPlan
from gemmsmith.call.launch_plan import MapArgument
from gemmsmith.kernel.slots import SlotBytes
from gemmsmith.run.device import ArgumentPatch, Launch, PatchedStep, Step

_WORD = struct.Struct("<Q")
_PROBES = (1 << 40, (1 << 40) + (3 << 33) + (5 << 20) + 0x1700)  # aligned to 256; they share few set bits

StartAt = Callable[[int, int, int, int, int, int], None]
"""Starts all launches at the addresses of A, B, C, bias and workspace, on a stream."""


def arm(plan: LoadedPlan) -> StartAt | None:
    """What starts the launches of ``plan`` at any addresses with its alignment; None where maps cannot be patched."""
    device: Any = plan.device
    steps = [_patched(device, each) for each in plan.launches]
    if None in steps:
        return None
    found: StartAt = device.armed(steps)
    return found


def _patched(device: Any, launch: LoadedLaunch) -> PatchedStep | None:
    """The launch at some addresses, and where they stand in its arguments."""
    arguments: list[bytes] = []
    patches: list[ArgumentPatch] = []
    for index, argument in enumerate(launch.arguments):
        if isinstance(argument, MapArgument):
            if argument.room is not None:
                return None
            slot = argument.address
            first, second = (device.encode_tensor_map(argument.described, probe + slot % 256) for probe in _PROBES)
            position = _address_position(first, second, slot % 256)
            if position is None:
                return None
            patches.append(ArgumentPatch(index, position, int(slot.slot), slot.offset))
            arguments.append(first)
        else:
            if isinstance(argument, SlotBytes):
                patches += [ArgumentPatch(index, at, int(each.slot), each.offset) for at, each in argument.slots]
            arguments.append(bytes(argument))
    return PatchedStep(Step(launch.loaded, Launch(launch.geometry, tuple(arguments))), tuple(patches))


def _address_position(first: bytes, second: bytes, alignment: int) -> int | None:
    """Where two maps that differ in nothing but the address hold it; None where they differ in more."""
    for at in range(0, len(first), _WORD.size):
        words = _WORD.unpack_from(first, at)[0], _WORD.unpack_from(second, at)[0]
        if words == tuple(probe + alignment for probe in _PROBES):
            rest = first[:at] + first[at + _WORD.size :]
            return at if rest == second[:at] + second[at + _WORD.size :] else None
    return None
