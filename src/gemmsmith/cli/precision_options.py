"""What ``--precision``, ``--deterministic/--fastest`` and the name ``auto`` mean, in every command that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from gemmsmith.choose.choice import Choice, choose
from gemmsmith.choose.precision import DEFAULT, PRECISIONS, input_dtype
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, DType, Problem, dtype_named
from gemmsmith.run.contender import Contender, Enqueue, Identity, MethodReader, OperandSet, method_reader
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.results import Pairs
from gemmsmith.userfile.user_kernel import UserOptions

AUTO = "auto"  # in the place of a rung: what matmul chooses

PrecisionName = Annotated[
    str, typer.Option("--precision", help=f"What a result is promised to be: {', '.join(PRECISIONS)}.")
]
Deterministic = Annotated[
    bool, typer.Option("--deterministic/--fastest", help="Of auto: the same bits every time, or the fastest kernel.")
]


def input_type(dtype: str, precision: str, own: DType) -> DType:
    """What a command multiplies in: as ``--dtype`` or ``--precision`` say, else a kernel's ``own`` type."""
    stored = dtype_named(dtype) if dtype else FP32 if precision == "tf32" else own
    return dtype_named(input_dtype(precision, dtype, stored) or own.name)


def chosen_for(problem: Problem, where: SimDevice | CudaDevice, precision: str, deterministic: bool) -> Choice:
    """What ``auto`` is for a problem on a device."""
    asked = precision or DEFAULT
    if isinstance(where, SimDevice):
        return choose(problem, precision=asked, deterministic=deterministic)
    return choose(problem, where.name, sms=where.sms, arch=where.arch, precision=asked, deterministic=deterministic)


def check_nothing_set(config: str, preset: str, define: list[str] | None, options: UserOptions) -> None:
    """``auto`` brings its configuration; options that would change it are refused."""
    if config or preset or define or options != UserOptions():
        raise UsageError("auto chooses the kernel and its configuration", "name a rung to set its parameters")


class ChosenContender:
    """``auto`` in a measurement: for each problem, the kernel that is chosen for it.

    make   how a kernel and its configuration become a contender
    """

    def __init__(self, device: CudaDevice, make: Callable[[KernelSpec, Config], Contender], precision: str,
                 deterministic: bool) -> None:  # fmt: skip
        self._device, self._make, self._asked = device, make, (precision, deterministic)
        self._inner: Contender | None = None
        self._identity = Identity(AUTO, "rung")

    @property
    def identity(self) -> Identity:
        return self._identity

    @property
    def resources(self) -> Pairs:
        found: Pairs = getattr(self._inner, "resources", ())
        return found

    @property
    def method(self) -> MethodReader | None:
        return None if self._inner is None else method_reader(self._inner)

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        self.close()
        choice = chosen_for(problem, self._device, *self._asked)
        self._inner = self._make(choice.spec, choice.config)
        enqueue = self._inner.prepare(problem, sets, stream)
        own = self._inner.identity
        self._identity = replace(own, name=AUTO, config=f"{choice.spec.name} {own.config}".strip())
        return enqueue

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
        self._inner = None
