"""The prologue of fp32_wgmma_registers: a launch that splits the short operand into three bf16 matrices.

Their K is rounded up to 16, and the numbers along k are in the order in which the product reads the tall operand, which
stays as it is.
"""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.slots import pack
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue, PrologueLaunch
from gemmsmith.problem import FP32, Problem, ceil_div
from gemmsmith.prologue.align_copy import ITEMSIZE
from gemmsmith.prologue.build import has_product, region_bytes
from gemmsmith.prologue.operand_layout import OperandLayout, operand_layouts

PARTS = 3
GROUP = 16  # numbers of a thread, and of k in one order
_THREADS = 128
_FP32 = Problem(1, 1, 1)


def short_operand(problem: Problem, config: Config, addresses: Addresses | None = None) -> OperandLayout:
    """A with SWAP, else B."""
    a, b = addresses[:2] if addresses is not None else (0, 0)
    return operand_layouts(OperandLayout, problem, a, b)[1 - config["SWAP"]]


def part_shape(operand: OperandLayout) -> tuple[int, int]:
    """Rows and columns of each part, which is stored without gaps."""
    rows, cols = operand.shape
    return rows if operand.k_major else ceil_div(rows, GROUP) * GROUP, ceil_div(cols, GROUP) * GROUP


def split_short_prologue(
    problem: Problem, config: Config, addresses: Addresses, workspace: int, _as_fallback: bool
) -> Prologue:
    """Parts of product z have numbers 3·z to 3·z + 2."""
    if not has_product(problem):
        return Prologue(problem, addresses)
    short = short_operand(problem, config, addresses)
    tall_k_major = problem.trans_b if config["SWAP"] else not problem.trans_a
    (rows, cols), (lines, width) = short.shape, part_shape(short)
    argument = pack("<QqqQiiiii4x", short.address, short.ld, short.stride, workspace, rows, cols, lines,
                    int(short.k_major), int(tall_k_major))  # fmt: skip
    blocks = ceil_div(lines * (width // GROUP), _THREADS)
    launch = PrologueLaunch(SPLIT_SHORT, Geometry((blocks, short.copies, 1), (_THREADS, 1, 1), pdl=True), (argument,),
                            _FP32)  # fmt: skip
    mapped = addresses._replace(a=workspace) if config["SWAP"] else addresses._replace(b=workspace)
    nbytes = region_bytes(PARTS * short.copies * lines * width * ITEMSIZE)
    return Prologue(problem, addresses, nbytes, (launch,), 0, mapped=mapped)


def _geometry(problem: Problem, _config: Config) -> Geometry:
    rows, cols = problem.b_shape
    return Geometry((ceil_div(rows * ceil_div(cols, GROUP), _THREADS), 1, 1), (_THREADS, 1, 1), pdl=True)


SPLIT_SHORT = KernelSpec(
    name="split_short",
    source=Path(__file__).with_name("split_short.cu"),
    summary="splits one fp32 operand into three bf16 matrices",
    teaches="",
    geometry=_geometry,
    entry="split_short",
    dtypes=(FP32,),
    min_arch=90,
    extra_defines=(("THREADS", str(_THREADS)),),
)
