"""Rules that find what costs time, each with a fix and its estimated gain.

A rule changes the launch's work as its fix would, and asks the time model in ``bottleneck`` for the new time. The gain
is that of one fix alone; 1.00 means that another resource bounds the kernel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gemmsmith.compile.sass import Sass
from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.bottleneck import (
    FMA,
    ISSUE,
    LATENCY,
    LSU,
    Estimate,
    Work,
    conflicts_of,
    estimate,
    lines_of,
    units_of,
)
from gemmsmith.explain.instruction_mix import MULTIPLY_ADD, sass_class
from gemmsmith.explain.occupancy import Occupancy, Waves
from gemmsmith.explain.pattern_words import coalescing_fix, conflict_words, remedy, sector_words
from gemmsmith.explain.profile import CONFLICTS, REQUESTS, Profile
from gemmsmith.gpus import GPU
from gemmsmith.kernel.spec import KernelSpec

_SCALAR = 6.0  # bytes per lane; at or below, most loads are 4 bytes wide
FULL_SECTOR = 24.0  # bytes used of 32; from here on, access counts as coalesced
_TILE = 32  # the shared-memory tile that the fix assumes, as in rung 03
_TILED_WAVEFRONTS, _TILED_ISSUE = 1.56, 3.3  # per multiply-add, counted in rung 03


@dataclass(frozen=True)
class Case:
    """The input of the rules: a simulated profile, a GPU, how the launch fills it, and the estimated time."""

    profile: Profile
    gpu: GPU
    occupancy: Occupancy
    waves: Waves
    work: Work
    estimate: Estimate


@dataclass(frozen=True)
class Finding:
    """One cause of lost time: the numbers behind it, a fix, and the speedup without this cost. A fix may remove less.

    ``saved`` is the cycles per SM saved on the resource concerned; it orders findings of equal gain.
    """

    kind: str
    sentence: str
    numbers: tuple[tuple[str, float], ...]
    gain: float
    fix: str
    saved: float
    origin: str = "predicted"
    pattern: AccessPattern | None = None
    tried: str = ""  # what the fix did in a copy of the kernel
    diff: str = ""  # the fix as a patch, if it was tried
    confirmed: bool = False  # the copy with the fix is right, and has the cost no longer
    copy: KernelSpec | None = field(default=None, repr=False, compare=False)  # the kernel with the fix, if confirmed
    without: str = ""  # the cost whose absence ``gain`` is of, if the cycle model told it
    copy_gain: float = 0.0  # how many times as fast the copy is predicted; 0: not predicted

    @property
    def where(self) -> str:
        """The line of the user's kernel to look at, and the helper's that it calls."""
        return self.pattern.where if self.pattern is not None else ""

    @property
    def lanes(self) -> str:
        """What the threads of a warp access there."""
        if self.pattern is None:
            return ""
        return conflict_words(self.pattern) if self.pattern.space == "shared" else sector_words(self.pattern)


# --- rules: each returns a finding, or None


def _finding(at: Case, kind: str, resource: str, sentence: str, fix: str, better: Work,
             pattern: AccessPattern | None = None, **numbers: float) -> Finding:  # fmt: skip
    then = estimate(better, at.gpu, at.profile.problem.flops)
    saved = at.estimate.of(resource) - then.of(resource)
    gain = at.estimate.longest / then.longest
    return Finding(kind, sentence, tuple(numbers.items()), gain, fix, saved, pattern=pattern)


def _worst(profile: Profile, space: str, writes: bool | None = None) -> tuple[AccessPattern | None, float]:
    """The costliest access at the line that costs most, and that line's share of the cost."""
    some = [each for each in profile.patterns if each.space == space and writes in (None, each.writes)]
    total = sum(each.excess for each in some)
    by_line: Counter[tuple[str, str]] = Counter()
    for each in some:
        by_line[each.where, each.array] += each.excess
    if not total:
        return None, 0.0
    line, excess = by_line.most_common(1)[0]
    return next(each for each in some if (each.where, each.array) == line), excess / total


def _place(pattern: AccessPattern | None, share: float) -> str:
    if pattern is None:
        return ""
    return f", {'all' if share > 0.995 else f'{share:.0%}'} of them at {pattern.where}"


def _uncoalesced(at: Case, _: Sass) -> Finding | None:
    worst = None
    packed = at.profile.packed_per_sector  # a broadcast is no lack of coalescing
    for op, word, full, used in zip(
        ("ld", "st"), ("loads", "stores"), packed, at.profile.bytes_per_sector, strict=True
    ):
        if math.isnan(full) or full >= FULL_SECTOR:
            continue
        pattern = _worst(at.profile, "global", op == "st")[0]
        share = at.profile.sectors(op) / at.profile.requests(op)
        lines = lines_of(at.profile, op)
        better = replace(at.work, lines=at.work.lines - lines + max(at.profile.requests(op), lines * full / 128))
        made = _finding(
            at, f"uncoalesced global {word}", LSU,
            f"A global {word[:-1]} request touches {share:.1f} sectors and uses {used:.1f} of the 32 bytes in each"
            f"{f'; the costliest is at {pattern.where}' if pattern is not None else ''}.",
            coalescing_fix(pattern), better, pattern, sectors_per_request=share, bytes_used_per_sector=used,
        )  # fmt: skip
        worst = made if worst is None or made.saved > worst.saved else worst
    return worst


def fma_per_request(at: Case) -> float:
    """Warp-wide multiply-adds per global load request."""
    return at.work.fma / max(1.0, at.profile.requests("ld"))


def _no_reuse(at: Case, _: Sass) -> Finding | None:
    work = at.work
    per_load = fma_per_request(at)
    if at.profile.tma("load", "requests"):
        return None
    if work.shared_requests or per_load >= 4:
        return None
    better = replace(
        work, global_requests=work.global_requests / _TILE, lines=work.lines / _TILE,
        shared_requests=_TILED_WAVEFRONTS * work.fma, wavefronts=_TILED_WAVEFRONTS * work.fma,
        issued=min(work.issued, _TILED_ISSUE * work.fma),
    )  # fmt: skip
    return _finding(
        at, "no reuse", LSU,
        f"A global load request feeds only {per_load:.3g} warp-wide multiply-adds: no loaded value is reused.",
        f"Stage tiles in shared memory, so that a block loads each value once and uses it {_TILE} times; then let each "
        "thread compute several outputs.",
        better, fma_per_load_request=per_load,
    )  # fmt: skip


def _shared_bound(at: Case, _: Sass) -> Finding | None:
    work, each = at.work, at.work.wavefronts / max(1.0, at.work.fma)
    if not work.wavefronts or at.estimate.of(LSU) <= at.estimate.of(FMA):
        return None
    if work.tensor:
        return _finding(
            at, "shared-memory traffic", LSU,
            f"Loading the fragments takes {at.estimate.of(LSU) / at.estimate.of(FMA):.2f} times as long as multiplying "
            "them: the load/store pipe is slower than the tensor cores.",
            "Give each warp a larger tile: a loaded fragment serves every product in its row or column.",
            replace(work, wavefronts=work.wavefronts / 2, shared_requests=work.shared_requests / 2),
            wavefronts_per_fma=each,
        )  # fmt: skip
    loads = at.profile.value(REQUESTS["ld"])
    plain = at.profile.wavefronts("ld") - at.profile.value(CONFLICTS["ld"])  # conflicts have their own rule
    better = replace(work, wavefronts=work.wavefronts - plain / 2,
                     shared_requests=work.shared_requests - loads / 2, issued=work.issued - loads / 2)  # fmt: skip
    return _finding(
        at, "shared-memory traffic", LSU,
        f"32 multiply-adds need {each:.3g} shared-memory wavefronts; an SM serves 1 per cycle, beside "
        f"{units_of(at.gpu).fma_lanes} multiply-adds.",
        "Double the thread tile in both directions: four times the arithmetic for twice the loads.",
        better, wavefronts_per_fma=each,
    )  # fmt: skip


def _bank_conflicts(at: Case, _: Sass) -> Finding | None:
    excess = conflicts_of(at.profile)
    share = excess / at.work.wavefronts if at.work.wavefronts else 0.0
    if share < 0.05:
        return None
    pattern, part = _worst(at.profile, "shared")
    fix = remedy(pattern) if pattern is not None else (
        "Pad the tile's rows, transpose or swizzle the tile, or give a warp's lanes addresses in different banks."
    )  # fmt: skip
    return _finding(
        at, "bank conflicts", LSU,
        f"Bank conflicts cause {share:.0%} of all shared-memory wavefronts{_place(pattern, part)}.",
        fix, replace(at.work, wavefronts=at.work.wavefronts - excess), pattern, conflicts=excess, share=share,
    )  # fmt: skip


def _scalar_loads(at: Case, _: Sass) -> Finding | None:
    profile, work = at.profile, at.work
    shared, globals_ = profile.value(REQUESTS["ld"]), profile.requests("ld") - profile.value(REQUESTS["ldgsts"])
    wide_shared = profile.value("shared_load_bytes") / 512  # requests of 32 lanes and 16 bytes
    wide_global = (profile.value("requested_load_bytes") - profile.value("copied_bytes")) / 512
    asked = shared + globals_
    width = 16 * (wide_shared + wide_global) / asked if asked else 16.0
    if width > 2 * _SCALAR or asked < 0.02 * work.issued:
        return None
    fewer = max(0.0, shared - wide_shared) + max(0.0, globals_ - wide_global)
    better = replace(work, issued=work.issued - fewer, shared_requests=min(work.shared_requests, wide_shared),
                     global_requests=min(work.global_requests, wide_global))  # fmt: skip
    return _finding(
        at, "narrow loads", ISSUE, f"A load fetches {width:.1f} of 16 possible bytes per lane.",
        "Load float4 (16 bytes) where four neighbours are needed: a quarter of the load instructions.",
        better, bytes_per_lane=width,
    )  # fmt: skip


def _overhead(at: Case, sass: Sass) -> Finding | None:
    loop = sass.main_loop()
    share = at.work.fma / at.work.issued if at.work.issued else 1.0
    if share >= 0.9 or loop is None:
        return None
    classes = [sass_class(i.base) for i in loop.instructions]
    inside = classes.count(MULTIPLY_ADD) / len(classes)
    other = max({c for c in classes if c != MULTIPLY_ADD}, key=classes.count, default="")
    return _finding(
        at, "instruction overhead", ISSUE,
        f"{share:.0%} of all instructions are multiply-adds ({inside:.0%} in the main loop; next: {other}).",
        "Unroll the loop, keep addresses in registers, and give each thread a larger tile.",
        replace(at.work, issued=at.work.fma / 0.95), fma_share=share, fma_share_in_loop=inside,
    )  # fmt: skip


def _exposed_latency(at: Case, _: Sass) -> Finding | None:
    work = at.work
    if not (work.together and work.waits):
        return None
    return _finding(
        at, "exposed latency", LATENCY,
        f"Between barriers a block waits {work.waits:,.0f} times for global memory, about {work.wait_cycles:.0f} "
        f"cycles each; only {work.resident} resident block{'s' if work.resident > 1 else ''} per SM can fill the time.",
        "Load the next k-tile while this one is in use: two stages, cp.async.",
        replace(work, waits=0.0), waits=work.waits, wait_cycles=work.wait_cycles,
    )  # fmt: skip


def _barriers(at: Case, _: Sass) -> Finding | None:
    each = at.work.fma / at.profile.barriers if at.profile.barriers else math.inf
    if each >= 256:
        return None
    return _finding(
        at, "frequent barriers", LATENCY, f"A warp reaches a barrier every {each:.0f} multiply-adds.",
        "Use deeper k-tiles: doubling BK halves the number of barriers.",
        replace(at.work, waits=at.work.waits / 2), fma_per_barrier=each,
    )  # fmt: skip


def _occupancy(at: Case, _: Sass) -> Finding | None:
    if at.occupancy.fraction >= 0.5:
        return None
    return _finding(
        at, "low occupancy", LATENCY,
        f"{at.occupancy.warps_per_sm} of {at.gpu.warps_per_sm} warps are resident per SM, limited by "
        f"{' and '.join(at.occupancy.limiters)}.",
        "If latency is the cost, use fewer registers or less shared memory, or give each thread more independent work.",
        replace(at.work, resident=2 * at.work.resident), occupancy=at.occupancy.fraction,
    )  # fmt: skip


def _tail(at: Case, _: Sass) -> Finding | None:
    if at.waves.imbalance < 1.05:
        return None
    few = at.waves.grid < at.gpu.sms
    text = (
        f"The grid has {at.waves.grid:,} blocks for {at.gpu.sms} SMs; the remaining SMs are idle."
        if few
        else f"The busiest SM runs {at.waves.imbalance:.2f} times the average blocks ({at.waves.waves:.2f} waves)."
    )
    return _finding(
        at, "too few blocks" if few else "tail", FMA, text,
        "Use smaller tiles for this size, or split K across blocks (split-K, stream-K).",
        replace(at.work, imbalance=1.0), imbalance=at.waves.imbalance, blocks=at.waves.grid,
    )  # fmt: skip


def _spills(at: Case, sass: Sass) -> Finding | None:
    used = at.profile.resources
    if not used.spills:
        return None
    loop = sass.main_loop()
    inside = sum(1 for i in loop.instructions if i.base in ("LDL", "STL")) if loop else 0
    return _finding(
        at, "register spills", ISSUE,
        f"{used.spill_stores + used.spill_loads} bytes per thread are spilled, {inside} accesses in the main loop.",
        "Allow more registers (fewer blocks per SM), or use a smaller thread tile.",
        replace(at.work, issued=at.work.issued - inside * at.profile.loop_trips), spill_instructions=inside,
    )  # fmt: skip


def _divergence(at: Case, _: Sass) -> Finding | None:
    lanes = at.profile.active_lanes
    if math.isnan(lanes) or lanes > 30.5 or at.profile.tma("load", "requests"):  # one thread requests for all
        return None
    work = at.work
    return _finding(
        at, "idle lanes", ISSUE,
        f"On average {lanes:.1f} of 32 lanes are active; {at.profile.branch_efficiency:.0f}% of branches are uniform.",
        "Let whole warps take one path: guard edge tiles per block, not per lane.",
        replace(work, issued=work.issued * lanes / 32, fma=work.fma * lanes / 32), active_lanes=lanes,
    )  # fmt: skip


def _at_the_peak(at: Case, _: Sass) -> Finding | None:
    if at.estimate.longest > 1.15 * at.estimate.of(FMA):
        return None
    share, kind = at.estimate.of(FMA) / at.estimate.longest, at.work.tensor
    name, sentence = "near the fp32 peak", f"The FMA pipe is busy {share:.0%} of the time."
    fix = "Only other arithmetic is faster: tensor cores in TF32 or 16 bits."
    if kind:
        kind = at.work.product_type or kind
        reached = 1.0 if at.work.wgmma else units_of(at.gpu).mma_share
        name, called = "busy tensor cores", "wgmma" if at.work.wgmma else "mma.sync"
        sentence = f"{called} is busy {share:.0%} of the time; it can reach {reached:.0%} of the {kind} peak."
        fix = "Only a narrower type is faster." if reached == 1 else "wgmma reaches the rest of the peak."
    return _finding(at, name, FMA, sentence, fix, at.work, fma_share_of_time=share)


Rule = Callable[[Case, Sass], Finding | None]
RULES: tuple[Rule, ...] = (
    _uncoalesced, _no_reuse, _shared_bound, _bank_conflicts, _scalar_loads, _overhead, _exposed_latency, _barriers,
    _occupancy, _tail, _spills, _divergence, _at_the_peak,
)  # fmt: skip
# Those that hold for kernels that are no matrix product as well.
GENERAL_RULES: tuple[Rule, ...] = (_uncoalesced, _bank_conflicts, _scalar_loads, _occupancy, _spills, _divergence)
