"""Which configuration of simt_best for a problem, on a GPU with so many SMs: the one predicted to be fastest.

A prediction is the time of the SM that has most to do, from the products in its tiles and the rate at which a tile of
that kind was measured to multiply; then what sharing a tile costs, or the time that memory needs, if that is longer.
Rates and costs were measured on an H200. Other GPUs have other clocks, but the order of configurations depends on how
many tiles each has for how many SMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gemmsmith.choose.default import MOST_WORKSPACE
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.simt_best import MOST_SHARERS, shared_tiles, threads, tiles_of
from gemmsmith.problem import Problem, ceil_div

NAME = "simt_best"

_FMA_RATE = 128 * 1.98e9  # of one SM of an H200 at most, in products a second
_BANDWIDTH = 3.9e12  # of its memory, bytes a second
_FIXED = 4e-6  # s: filling the ring, storing C, and the launch
_SHARING = 4e-6  # s: clearing flags, and the way of sums through memory
_ADDING = 3e8  # bytes of others' sums that one thread reads in a second
_SHARED_RATE = 0.97  # of the rate of the same tile without code for sharing: 4096³ and 8192³ ran so much slower with it
# Of the rate in NN, by what must be transposed on the way to shared memory; and where lines start anywhere.
_LAYOUT_RATE = {"NN": 1.0, "NT": 0.925, "TN": 1.037, "TT": 0.966}
_UNALIGNED_RATE = 0.895
_TURNING, _TURNED_BANDWIDTH = 4e-6, 3.5e12  # s of the launch that turns operands, and the bytes that it moves in one
_FULL_WARPS = 8  # on an SM; with fewer, reads of shared memory are waited for
_WITH_HALF = 0.62  # of the rate that 8 warps reach, 4 do


@dataclass(frozen=True)
class Candidate:
    """A tile and how it is multiplied.

    resident    blocks on an SM at a time
    efficiency  of the SM's peak, while it is busy with such tiles; measured
    """

    changes: tuple[tuple[str, int], ...]
    resident: int
    efficiency: float

    @cache  # noqa: B019 - candidates live as long as the module
    def config(self, sharers: int, turned: int = 0) -> Config:
        return rung_named(NAME).config({**dict(self.changes), "SHARERS": sharers, "TRANSPOSED_COPY": turned})


def _candidate(resident: int, efficiency: float, **changes: int) -> Candidate:
    return Candidate(tuple({**changes, "MIN_BLOCKS": resident}.items()), resident, efficiency)


# Largest first: of equally fast ones the first is taken.
CANDIDATES = (
    _candidate(1, 0.79),
    _candidate(1, 0.67, BN=64, BK=32, TEAMS=4),
    _candidate(2, 0.745, BM=64),
    _candidate(1, 0.70, BM=64, BN=128, BK=32, TEAMS=4),
    _candidate(1, 0.64, BM=64, BN=64, BK=32, WM=32, TM=8, TEAMS=4),
    _candidate(2, 0.61, BM=64, BN=64, BK=32, WM=32, TM=8, TEAMS=2),
    _candidate(1, 0.68, BM=32, BN=64, BK=32, WM=32, TM=8, STAGES=4, TEAMS=8),
    _candidate(2, 0.62, BM=32, BN=64, BK=32, WM=32, TM=8, TEAMS=4),
    _candidate(2, 0.45, BM=16, BN=128, BK=32, WM=16, TM=4, STAGES=4, TEAMS=4),
)


def configuration_for(problem: Problem, sms: int, unaligned: int = 0) -> Config:
    """The configuration predicted to be fastest for ``problem`` on a GPU with ``sms`` SMs.

    ``unaligned`` has bit 0 set where lines of A do not start on 16 bytes, bit 1 for B.
    """
    turned = (0, 1) if 0 < 4 * _turned_numbers(problem, unaligned) <= MOST_WORKSPACE else (0,)
    every = [(candidate, candidate.config(sharers, turn)) for candidate in CANDIDATES
             for sharers in _sharers(candidate, problem, sms) for turn in turned]  # fmt: skip
    return min(every, key=lambda pair: predicted_seconds(problem, pair[0], pair[1], sms, unaligned))[1]


def _turned_numbers(problem: Problem, unaligned: int) -> int:
    """Of operands that lie along k, or whose lines start anywhere."""
    a = problem.copies[0] * problem.m * problem.k if not problem.trans_a or unaligned & 1 else 0
    return a + (problem.copies[1] * problem.n * problem.k if problem.trans_b or unaligned & 2 else 0)


def _sharers(candidate: Candidate, problem: Problem, sms: int) -> list[int]:
    """None, one for every SM, or as many blocks as the GPU holds at once, where the kernel has that number; or a power
    of two: then tiles that are one too have equally many, and no block has a piece of two."""
    legal = next(p.legal for p in rung_named(NAME).parameters if p.name == "SHARERS")
    even = 2 ** (sms.bit_length() - 1)
    some = dict.fromkeys((sms, candidate.resident * sms, even, candidate.resident * even))
    return [0, *(count for count in some if count in legal and count * problem.batch <= MOST_SHARERS)]


def predicted_seconds(problem: Problem, candidate: Candidate, config: Config, sms: int, unaligned: int = 0) -> float:
    """How long the product takes."""
    slices = ceil_div(problem.k, config["BK"])
    tiles, wave = tiles_of(problem, config) * problem.batch, candidate.resident * sms
    slice_work = config["BM"] * config["BN"] * config["BK"]
    shared = shared_tiles(problem, config) * problem.batch
    full, rest = divmod(tiles - shared, wave)
    on_one = full * candidate.resident + ceil_div(rest, sms)  # tiles of the SM that has most
    work = on_one * slices * slice_work
    last = ceil_div(rest, sms) or candidate.resident  # blocks that run on it at the end
    seconds = _FIXED
    if shared:
        sharers = config["SHARERS"] * problem.batch
        last = min(candidate.resident, ceil_div(sharers, sms))
        work += ceil_div(sharers, sms) * ceil_div(shared * slices, sharers) * slice_work
        parts = ceil_div(sharers, shared) + (sharers % shared > 0)
        seconds += _SHARING + parts * config["BM"] * config["BN"] * 4 / (_ADDING * threads(config))
    warps = min(_FULL_WARPS, last * threads(config) // 32)
    rate = _FMA_RATE * candidate.efficiency * (_SHARED_RATE if config["SHARERS"] else 1)
    if config["TRANSPOSED_COPY"]:
        seconds += _TURNING + 8 * _turned_numbers(problem, unaligned) / _TURNED_BANDWIDTH
        rate *= _LAYOUT_RATE["TN"]
    else:
        rate *= _LAYOUT_RATE[problem.layout] * (_UNALIGNED_RATE if unaligned else 1)
    if not full:  # what runs at the end is all there is
        rate *= _WITH_HALF + (1 - _WITH_HALF) * (warps / _FULL_WARPS * 2 - 1)
    moved = problem.batch * 4 * (problem.m * problem.k + problem.k * problem.n + problem.m * problem.n)
    return seconds + max(work / rate, moved / _BANDWIDTH)
