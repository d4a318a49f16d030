"""``--precision``, ``--deterministic/--fastest`` and the kernel name ``auto``, in every command that has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer

from gemmsmith.choose.choice import Choice, choose
from gemmsmith.choose.precision import DEFAULT, PRECISIONS, input_dtype
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP32, DType, Problem, dtype_named
from gemmsmith.run.contender import Contender, Enqueue, Identity, MethodReader, OperandSet, method_reader
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.sim.device import SimDevice
from gemmsmith.store.results import Pairs

AUTO = "auto"  # as a kernel's name: the kernel that matmul chooses


@dataclass(frozen=True)
class PrecisionOptions(OptionGroup):
    """What a result must be."""

    panel: ClassVar[str] = "Precision"

    precision: Annotated[
        str, typer.Option("--precision", help=f"The precision that results must keep: {', '.join(PRECISIONS)}.")
    ] = ""
    deterministic: Annotated[
        bool,
        typer.Option("--deterministic/--fastest", help="With auto: bit-reproducible results, or the fastest kernel."),
    ] = True

    def choose(self, problem: Problem, device: SimDevice | CudaDevice) -> Choice:
        """The kernel that ``auto`` is for a problem on a device."""
        return chosen_for(problem, device, self.precision, self.deterministic)


def input_type(dtype: str, precision: str, own: DType) -> DType:
    """The type of the inputs: as ``--dtype`` or ``--precision`` say, else the kernel's ``own``."""
    stored = dtype_named(dtype) if dtype else FP32 if precision == "tf32" else own
    return dtype_named(input_dtype(precision, dtype, stored) or own.name)


def chosen_for(problem: Problem, device: SimDevice | CudaDevice, precision: str, deterministic: bool) -> Choice:
    """The kernel that is chosen for a problem on a device."""
    asked = precision or DEFAULT
    if isinstance(device, SimDevice):
        return choose(problem, precision=asked, deterministic=deterministic)
    return choose(problem, device.name, sms=device.sms, arch=device.arch, precision=asked, deterministic=deterministic)


def check_auto_alone(options: KernelOptions) -> None:
    """``auto`` has its own configuration: options that would change it are refused."""
    if not options.is_default:
        raise UsageError("auto chooses the kernel and its configuration", "name a rung to set its parameters")


class ChosenContender:
    """``auto`` in a measurement: for each problem, the kernel that is chosen for it.

    make   turns a kernel and its configuration into a contender
    """

    def __init__(
        self, device: CudaDevice, make: Callable[[KernelSpec, Config], Contender], options: PrecisionOptions
    ) -> None:
        self._device, self._make, self._options = device, make, options
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
        choice = self._options.choose(problem, self._device)
        self._inner = self._make(choice.spec, choice.config)
        enqueue = self._inner.prepare(problem, sets, stream)
        own = self._inner.identity
        self._identity = replace(own, name=AUTO, config=f"{choice.spec.name} {own.config}".strip())
        return enqueue

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
        self._inner = None
