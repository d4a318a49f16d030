"""The search for what a kernel's parameters mean: what is launched, what counts as found, and what was seen so far."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import Layout
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.verify.meaning.candidate_roles import candidate_roles
from gemmsmith.verify.meaning.contradiction import contradiction
from gemmsmith.verify.meaning.launch_probe import LaunchProbe
from gemmsmith.verify.meaning.readings import Reading, find_readings
from gemmsmith.verify.meaning.settled import Settled, settled_by
from gemmsmith.verify.trials.check_shapes import check_shapes

_GROWS = 2  # times as many multiply-adds a second in a larger launch as in a smaller one
_NEVER_ENDS = "never completes"
_SMOOTH_CODE = re.compile(r"\b(?:ex2|tanh)\.approx")  # in exp, tanh and erf


@dataclass
class MeaningSearch:
    """A kernel whose meaning is sought.

    layout   the only one that is accepted; None: any
    blocks   the only ones that are run; None: all
    seconds  in which more than the likeliest meaning is tried

    ``rejected`` is the first reading that was found and contradicted, ``activation`` the function it has. ``doubt``
    and ``fitting`` are those of ``Settled``.
    """

    open_device: Callable[[], Device]
    spec: KernelSpec
    config: Config
    shapes: list[Shape]
    compiled: CompiledKernel
    layout: Layout | None
    blocks: Sequence[int] | None
    seconds: float
    own: Signature = field(init=False)
    first: Signature = field(init=False)
    others: list[Signature] = field(init=False)
    smooth: bool = field(init=False)
    rejected: str = ""
    activation: str = ""
    doubt: str = ""
    fitting: bool = False
    _end: float = field(init=False)
    _start: float = field(init=False)
    _endless: int = 0
    _work: int = 0

    def __post_init__(self) -> None:
        signature = self.spec.signature
        self.own = signature.transposed() if signature.column_major else signature
        self.first, *self.others = candidate_roles(self.spec, self.own, self.compiled)
        self.smooth = self.whole and _SMOOTH_CODE.search(self.compiled.ptx) is not None
        self._start = time.process_time()
        self._end = self._start + self.seconds

    @property
    def whole(self) -> bool:
        """Whether all blocks are run."""
        return self.blocks is None

    @property
    def open(self) -> bool:
        """Whether the parameters have a meaning, and nothing that was found was contradicted."""
        return not self.first.unknown and not self.rejected

    def compile_fn(self, *_: object) -> CompiledKernel:
        return self.compiled

    def probe(self) -> LaunchProbe:
        return LaunchProbe(self.open_device, self.spec, self.config, self.compile_fn)

    def late(self) -> bool:
        return time.process_time() > self._end

    def too_large(self, shape: Shape) -> bool:
        """Whether a launch would take longer than is left, at the pace so far."""
        now = time.process_time()
        pace = (now - self._start) / max(1, self._work) / _GROWS
        return now + pace * math.prod(shape) > self._end

    def tried(self, spec: KernelSpec, meant: Signature, shape: Shape) -> list[Reading]:
        """All readings of one launch, in the time of the search."""
        self._work += math.prod(shape)
        how = (spec, self.config, meant, shape, self.compile_fn, self.blocks, self._failed)
        found = find_readings(self.open_device(), *how)
        if self.smooth and all(reading.signature.activation == "relu" for reading in found):
            found = find_readings(self.open_device(), *how, smooth=True)  # integers are too far from 0
        return found

    def _failed(self, error: GemmsmithError) -> None:
        self._endless += _NEVER_ENDS in error.message
        if self._endless > 1:  # threads that wait for ever under two meanings do so under every one
            self._end = 0.0

    def accepted(
        self, spec: KernelSpec, meant: Signature, shape: Shape, blocks: Sequence[int] | None = None
    ) -> list[Reading]:
        """The readings of one launch that count."""
        self._work += math.prod(shape)
        found = find_readings(self.open_device(), spec, self.config, meant, shape, self.compile_fn, blocks)
        return [reading for reading in found if self.accepts(reading)]

    def accepts(self, reading: Reading) -> bool:
        """Whether a reading has the layout that is asked for, or else one that nothing contradicts."""
        if self.layout is not None:
            return reading.layout == self.layout
        return not contradiction(reading, self.spec)

    def contradicted(self, reading: Reading) -> bool:
        """Whether the kernel's name or host code contradicts a reading, which is then remembered."""
        why = contradiction(reading, self.spec) if self.layout is None else ""
        if why:
            self.rejected = self.rejected or why
            self.activation = self.activation or reading.signature.activation
        return bool(why)

    def settled(self, reading: Reading, shape: Shape, spec: KernelSpec | None = None) -> Settled:
        return settled_by(reading, self.spec if spec is None else spec, self.own, shape)

    def own_shape(self, spec: KernelSpec, meant: Signature) -> Shape | None:
        """The shape that fits the launch where the parameters mean this; None if the launch is not known."""
        try:
            return fitting(meant, check_shapes(spec.read_as(meant, "NN"), self.config).distinct)
        except GemmsmithError:
            return None


def fitting(signature: Signature, shape: Shape) -> Shape:
    """The shape, or a cube for a kernel with one extent; with equal extents where one parameter is two of them."""
    side = max(shape[:2])
    if signature.tied:
        own = dict(zip(EXTENTS, shape, strict=True))
        own[signature.tied[1]] = own[signature.tied[0]]
        return own["M"], own["N"], own["K"]
    return (side, side, side) if signature.square and not signature.fixed else shape
