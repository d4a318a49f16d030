"""A kernel whose parameters have a meaning, found by launches, and what a report says of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gemmsmith.errors import UsageError
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.shapes import Shape
from gemmsmith.verify.meaning.readings import Reading
from gemmsmith.verify.meaning.settled_text import told

SAY_LAUNCH = "give its launch: --grid 'ceil(N/64),ceil(M/64)' --block 256 (and --smem, if it needs any)"


@dataclass(frozen=True)
class Settled:
    """A kernel with its reading. ``lines`` say what was found that the file does not say; ``words`` are the options
    that say it to other commands; ``rejected`` is what was found and contradicted; ``only`` is the one case in which a
    product was found ("N = K (read as a row-major kernel)"), where no shape with different extents gives one;
    ``padded`` says how much memory after A and B the kernel reads, which its host code allocates; ``cubes`` is the one
    variable that host code passes for M, N and K, of a kernel that is right for equal extents alone. Of a kernel that
    gives no product, ``doubt`` says why its launch may be to blame, and ``fitting`` that a guessed one is not."""

    spec: KernelSpec
    reading: Reading | None = None
    shape: Shape | None = None
    lines: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    rejected: str = ""
    launch_found: bool = False
    only: str = ""
    padded: str = ""
    cubes: str = ""
    doubt: str = ""
    fitting: bool = False

    def refuse_doubtful_launch(self) -> None:
        """Raise where a wrong result is no verdict on the kernel, since its launch may be to blame."""
        if self.doubt:
            raise UsageError(f"{self.spec.signature.entry}: {self.doubt}", f"if the kernel is right, {SAY_LAUNCH}")

    def without_accumulation(self) -> Settled:
        """The same, where C += A·B is A·B because C holds zeros."""
        if not self.spec.signature.accumulates:
            return self
        plain = replace(self.spec.signature, accumulates=False)
        lines = tuple(line for line in self.lines if not line.startswith("it adds to"))
        return replace(self, spec=replace(self.spec, known_signature=plain), lines=lines)


def settled_by(reading: Reading, spec: KernelSpec, own: Signature, shape: Shape) -> Settled:
    """The kernel as a launch at ``shape`` showed it."""
    found = reading.applied(spec)
    return Settled(found, reading, shape, *told(spec, found, own, reading, shape))
