"""The fastest rung on CUDA cores: how it may be configured, how it is launched."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.gpus import gpus
from gemmsmith.kernel.budgets import warp_tile_threads
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.constraints import blocks_fit, divides, numbers, whole_warps
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec, Scratch
from gemmsmith.ladder.tensor_core import LARGEST_SMEM, OURS, aligned_if_possible
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.prologue.zero_workspace import FLAG_BYTES

MOST_SHARERS = FLAG_BYTES // 4  # of all products of a batch: each has a flag
_PAD = 4  # floats added to each k of an operand that is transposed on its way to shared memory


def ring_bytes(problem: Problem, c: Config) -> int:
    """Dynamic shared memory: STAGES slices of A and B, padded where they are transposed on their way there."""
    pads = 0 if c["TRANSPOSED_COPY"] else _PAD * ((not problem.trans_a) + problem.trans_b)
    return c["STAGES"] * c["BK"] * 4 * (c["BM"] + c["BN"] + pads)


def threads(c: Config) -> int:
    return warp_tile_threads(c) * c["TEAMS"]


def tiles_of(problem: Problem, c: Config) -> int:
    return ceil_div(problem.m, c["BM"]) * ceil_div(problem.n, c["BN"])


def shared_tiles(problem: Problem, c: Config) -> int:
    """How many tiles of a product are shared: those beyond whole waves of SHARERS blocks (shared_tiles.cuh)."""
    sharers = c["SHARERS"]
    if not sharers or problem.alpha == 0 or problem.k == 0 or problem.batch > MOST_SHARERS // sharers:
        return 0
    return tiles_of(problem, c) % sharers


# --- constraints


def _lanes_fill_a_warp(c: Config) -> str | None:
    if c["WM"] * c["WN"] != 32 * c["TM"] * c["TN"]:
        return (
            f"a warp tile has WM·WN = {c['WM']}·{c['WN']} = {c['WM'] * c['WN']} outputs, but 32 lanes of "
            f"TM·TN = {c['TM']}·{c['TN']} have {32 * c['TM'] * c['TN']}"
        )
    for extent, side in (("WM", "TM"), ("WN", "TN")):
        if c[extent] // c[side] < 2 or c[extent] % c[side]:
            return f"{extent}/{side} = {c[extent]}/{c[side]} lanes along a side, but at least 2 share each operand"
    return None


def _sums_fit(c: Config) -> str | None:
    n = c["TM"] * c["TN"]
    if n <= 128:
        return None
    return f"TM·TN = {c['TM']}·{c['TN']} = {n} sums a thread, but of 255 registers at most 128 are free for them"


def _teams_divide_slices(c: Config) -> str | None:
    if c["BK"] % (c["TEAMS"] * c["UNROLL"]) == 0:
        return None
    return (
        f"TEAMS·UNROLL = {c['TEAMS']}·{c['UNROLL']} = {c['TEAMS'] * c['UNROLL']} does not divide BK={c['BK']}: "
        f"a team has every {c['TEAMS']}th step of a slice, UNROLL at a time"
    )


def _teams_meet(c: Config) -> str | None:
    ring, sums = c["STAGES"] * c["BK"] * (c["BM"] + c["BN"]), c["BM"] * c["BN"]
    if c["TEAMS"] == 1 or sums <= ring:
        return None
    formula = "STAGES·BK·(BM+BN)"
    return (
        f"teams add their BM·BN = {c['BM']}·{c['BN']} = {sums:,} sums where slices were, "
        f"but {formula} = {numbers(formula, c)} = {ring:,} numbers"
    )


def _ring_fits(c: Config) -> str | None:
    formula = "STAGES·BK·4·(BM+BN+8)"
    n = c["STAGES"] * c["BK"] * 4 * (c["BM"] + c["BN"] + 2 * _PAD)
    if n <= LARGEST_SMEM:
        return None
    return (
        f"{formula} = {numbers(formula, c)} = {n:,} B of shared memory, "
        f"but {LARGEST_SMEM:,} B is the most a block can have on any GPU"
    )


# --- launch


def _launch(problem: Problem, c: Config) -> Geometry:
    """A block for each tile, then the sharers, along x alone, as gridDim.y ends at 65,535; batches along z."""
    shared = shared_tiles(problem, c)
    sharers = min(c["SHARERS"], shared * ceil_div(problem.k, c["BK"]))  # a slice for each at least
    blocks = tiles_of(problem, c) - shared + sharers
    return Geometry((blocks, 1, problem.batch), (threads(c), 1, 1), ring_bytes(problem, c))


def _meeting_place(problem: Problem, c: Config) -> Scratch:
    """Flags, then two parts of sums for every sharer."""
    if not shared_tiles(problem, c):
        return Scratch()
    return Scratch(FLAG_BYTES + 4 * problem.batch * c["SHARERS"] * 2 * c["BM"] * c["BN"], FLAG_BYTES)


# --- the rung

# Whole waves of the GPUs in the table, of one to four blocks an SM, and round numbers.
_SHARERS = tuple(sorted({0, 2, 3, 5, *(2**n for n in range(3, 9)), *(n * g.sms for g in gpus() for n in (1, 2, 3, 4))}))

_PARAMETERS = (
    Parameter("BM", 128, (16, 32, 64, 128, 256), "rows of C per block"),
    Parameter("BN", 256, (32, 64, 128, 256), "columns of C per block"),
    Parameter("BK", 16, (8, 16, 32), "depth of a slice in k"),
    Parameter("WM", 64, (16, 32, 64, 128), "rows of C per warp"),
    Parameter("WN", 64, (16, 32, 64, 128), "columns of C per warp"),
    Parameter("TM", 16, (4, 8, 16), "rows of C per thread"),
    Parameter("TN", 8, (4, 8, 16), "columns of C per thread"),
    Parameter("UNROLL", 2, (2, 4, 8, 16), "steps of k in a row without a branch"),
    Parameter("STAGES", 3, (2, 3, 4, 5), "slices in shared memory: one multiplied, the others on their way"),
    Parameter(
        "TEAMS", 1, (1, 2, 4, 8), "times that all warps of a tile are there: each team has its steps of every slice"
    ),
    Parameter(
        "SHARERS", 0, _SHARERS, "blocks of a wave; tiles that do not fill one are shared by as many; 0: no tile is"
    ),
    Parameter("GROUP", 8, (1, 2, 4, 8, 16), "rows of tiles that blocks go down together, for the cache's sake"),
    Parameter("ALIGNED", 1, (0, 1), "rows of A and B start on 16 bytes; set to 0 for operands where they do not"),
    Parameter(
        "TRANSPOSED_COPY",
        0,
        (0, 1),
        "operands along k, or off 16 bytes, are first brought to lines across k in a workspace",
    ),
    Parameter("MIN_BLOCKS", 1, (1, 2, 3, 4), "blocks whose registers must fit on one SM: caps registers"),
)


def _preset(name: str, changes: dict[str, int]) -> Preset:
    return Preset(name, Config(tuple({**{p.name: p.default for p in _PARAMETERS}, **changes}.items())), OURS)


SIMT_BEST = KernelSpec(
    name="simt_best",
    min_arch=80,  # cp.async
    rung=23,
    source=Path(__file__).with_name("23_simt_best.cu"),
    summary="everything that pays on CUDA cores: 16×8 sums a thread, cp.async, any layout",
    teaches="issue slots: what a product costs beside itself, down to the banks of the register file",
    parameters=_PARAMETERS,
    presets=(
        _preset("128x256-16x8", {}),
        _preset("128x64-4", {"BN": 64, "BK": 32, "TEAMS": 4}),
        _preset(
            "skinny",
            {"BM": 16, "BN": 128, "WM": 16, "TM": 4, "STAGES": 4, "TEAMS": 2, "SHARERS": 264, "MIN_BLOCKS": 2},
        ),
        _preset(
            "deep",
            {"BM": 32, "BN": 64, "BK": 32, "WM": 32, "TM": 8, "TEAMS": 4, "SHARERS": 264, "MIN_BLOCKS": 2},
        ),
    ),
    constraints=(
        divides("WM", "BM"),
        divides("WN", "BN"),
        _lanes_fill_a_warp,
        _sums_fit,
        whole_warps("TEAMS·32·(BM/WM)·(BN/WN)", threads),
        _teams_divide_slices,
        _teams_meet,
        _ring_fits,
        blocks_fit(threads),
    ),
    geometry=_launch,
    layouts=("NN", "NT", "TN", "TT"),
    epilogue=True,
    batched=True,
    fit=aligned_if_possible,
    turns=lambda c: c["TRANSPOSED_COPY"] == 1,
    scratch=_meeting_place,
)

LADDER = (SIMT_BEST,)
