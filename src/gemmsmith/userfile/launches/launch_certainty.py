"""How much of a user's launch is known, and how much is guessed."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.expressions import evaluate
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.kernel_facts import SAMPLE, KernelFacts, problem_sizes
from gemmsmith.userfile.launches.launch_guess import LaunchGuess
from gemmsmith.userfile.launches.launch_mistakes import LaunchMistakes
from gemmsmith.userfile.launches.namesakes import namesake
from gemmsmith.userfile.text.kernel_patterns import BLOCKS_TAKE_TILES


class LaunchCertainty(LaunchMistakes):
    """What ``UserLaunch`` knows of where its block and grid come from."""

    facts: KernelFacts
    signature: Signature

    def sources(self, problem: Problem) -> tuple[str, str]:
        """Where block and grid come from: "given", "launch site" or "guessed"."""
        raise NotImplementedError

    def _guess(self) -> LaunchGuess:
        raise NotImplementedError

    def _site(self, index: int, problem: Problem) -> Dim3 | None:
        """Grid (0) or block (1) at the launch site."""
        raise NotImplementedError

    @property
    def guessed(self) -> bool:
        """Whether neither the file nor the user gives the grid, and the kernel leaves a choice."""
        return self.sources(SAMPLE)[1] == "guessed" and not self._guess().alone

    @property
    def block_known(self) -> bool:
        """Whether the user or the file gives the block."""
        return self.sources(SAMPLE)[0] != "guessed"

    @property
    def bounded(self) -> bool:
        """Whether the guessed block has as many threads as ``__launch_bounds__`` allow: few kernels take fewer."""
        try:
            threads = evaluate(self.facts.kernel.bounds, self._guess().constants) if self.facts.kernel.bounds else 0
            return math.prod(self._guess().block()) == threads
        except GemmsmithError:
            return False

    @property
    def one_grid(self) -> str:
        """Where host code launches it with one grid, whatever M, N and K are, though the kernel does not ask how many
        blocks there are: such a launch fits one problem. Empty for others."""
        if self.options.grid or self.site is None or "gridDim" in self.facts.reached:
            return ""
        if BLOCKS_TAKE_TILES.search(self.facts.reached) or self._is_exchanged:
            return ""
        try:
            asked = self.site.extent(0, problem_sizes(SAMPLE))[1]
        except (GemmsmithError, RecursionError):
            return ""
        return "" if asked.sized or not self._site(0, SAMPLE) else " ".join(self.site.origin(0))

    @property
    def misread(self) -> str:
        """Where host code launches it with a block or grid that is not understood and is guessed; else empty."""
        if self.site is None or self.options.block or self.options.grid:
            return ""
        return self.site.site.shown() if "guessed" in self.sources(SAMPLE) else ""

    @cached_property
    def namesake(self) -> str:
        """Of which other kernel its launch may be: "main.cu:124 may launch the kernel of that name in
        fp32/gemm.cu". Empty where it is clear, or the user gives block and grid."""
        if self.site is None or (self.options.block and self.options.grid):
            return ""
        other = namesake(self.facts.project, self.site.site, self.facts.kernel)
        return "" if other is None else f"{self.site.site.shown()} may launch the kernel of that name in {_near(other)}"

    @property
    def blind(self) -> bool:
        """Whether the launch is guessed, and nothing in the kernel says how large a block or a tile is."""
        return self.guessed and "blockDim" not in self.facts.reached and not self._guess().has_sizes

    @property
    def one_element_a_thread(self) -> bool:
        """Whether threads number the elements of C, so that a guessed launch is none."""
        return self._guess().one_element_a_thread

    @property
    def is_mere_guess(self) -> bool:
        """Whether no launch is known, and neither the kernel's constants nor its indices tell one."""
        return self.guessed and self.site is None and not (self._guess().has_sizes or self.one_element_a_thread)

    @property
    def parts_unknown(self) -> bool:
        """Whether the launch is guessed, and blocks along z share the work: it may be divided among any number."""
        return self.guessed and "blockIdx.z" in self.facts.reached and not self.signature.has("strideC")


def _near(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"
