"""Whether a kernel that chooses between layouts, by transA or an order, is right for every value of such a number.

The trials run with the values that were found first. With the others one launch must give a product of A and B, each
stored by rows or by columns. A value with which the kernel stops, or writes nothing, is not one that it supports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.verify.code.kernel_body import kernel_decisions
from gemmsmith.verify.code.mode_values import chosen_by_callers, modes_of, transposes, with_values
from gemmsmith.verify.harness import no_launch, verify_launch
from gemmsmith.verify.meaning.launch_probe import LaunchProbe, operands
from gemmsmith.verify.meaning.meaning_search import fitting
from gemmsmith.verify.meaning.readings import find_readings
from gemmsmith.verify.trials.trials import padded

_MOST = 8  # launches


@dataclass(frozen=True)
class OtherModes:
    """``right``: values with the layout that each gives; ``wrong``: values that give no product, empty for none."""

    right: tuple[str, ...] = ()
    wrong: str = ""


def other_modes(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn
) -> OtherModes:
    """What the kernel gives with other values of its modes than those it is read with."""
    own = spec.signature.transposed() if spec.signature.column_major else spec.signature
    found = []
    for meant, said in _others(spec, own):
        errors: list[GemmsmithError] = []
        fit = fitting(meant, shape)
        readings = find_readings(open_device(), spec, config, meant, fit, compile_fn, failed=errors.append)
        if readings and _is_right_padded(open_device(), readings[0].applied(spec), config, fit, compile_fn):
            found.append(f"{said}: {readings[0].layout}")
            continue
        if readings:
            return OtherModes(tuple(found), f"{said} and padded rows")
        touched = LaunchProbe(open_device, spec, config, compile_fn).launched(
            meant, fit, operands(spec, meant, fit, 1), 0xFF
        )
        stops = any(ASSERTION_FAILED in error.message or "trap" in error.message for error in errors)
        if not stops and not (touched is not None and touched[1].c == 0):
            return OtherModes(tuple(found), said)
    return OtherModes(tuple(found))


def _is_right_padded(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> bool:
    """Whether it is right with a leading dimension of its own for each matrix, where it takes them."""
    problem = padded(spec.problem(*shape), spec)
    if no_launch(spec, config, problem):
        return True
    return verify_launch(device, spec, config, problem, fill="integers", mode="exact", c="set",
                         compile_fn=compile_fn).trusted  # fmt: skip


def _others(spec: KernelSpec, own: Signature) -> Iterator[tuple[Signature, str]]:
    """The signature with other values, and these as text; only of numbers that are named after a layout."""
    body = kernel_decisions(spec)
    named = [arg for arg in chosen_by_callers(own) if transposes(arg.name)]
    modes = {arg: found for arg in named if (found := modes_of(arg, body, spec.code))}
    for _, chosen in zip(range(_MOST), product(*modes.values()) if modes else (), strict=False):
        values = dict(zip(modes, chosen, strict=True))
        if any(arg.role != value for arg, value in values.items()):
            yield with_values(own, values)
