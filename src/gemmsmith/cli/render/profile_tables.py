"""The tables of a profile by section, and the source annotated line by line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

from gemmsmith.cli.render.output import Column, columns, print_table, say
from gemmsmith.explain.instruction_mix import sass_class
from gemmsmith.explain.metrics import BY_NAME
from gemmsmith.explain.occupancy import Occupancy, waves
from gemmsmith.explain.profile import CONFLICTS, FFMA, MACHINE, REQUESTS, WARPS, Line, Profile, opcodes
from gemmsmith.explain.sampling import BUDGET
from gemmsmith.explain.source_text import source_lines
from gemmsmith.gpus import GPU
from gemmsmith.kernel.spec import KernelSpec

_ACCESS = (("loads", "ld"), ("stores", "st"))
_UNVERIFIED = "Not verified: gemmsmith check and gemmsmith verify judge results and races."
_USED = "bytes used/sector: distinct bytes that the lanes of a request ask for"
_SHARED = (*_ACCESS, ("cp.async", "ldgsts"), ("ldmatrix", "ldsm"))
LDMATRIX_CONFLICTS = "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum"


def print_profile(profile: Profile, held: Occupancy, gpu: GPU, automatic: bool = False) -> None:
    """All sections, from memory to absent metrics; ``automatic``: the sample was not asked for."""
    say(_provenance(profile, automatic), "dim")
    say(_UNVERIFIED, "dim")
    say()
    _print_global(profile)
    _print_shared(profile)
    _print_instructions(profile)
    _print_traffic(profile)
    _print_launch(profile, held, gpu)
    _print_measured(profile)
    for sentence in cross_check_sentences(profile):
        say(sentence, hang="  ")
    if profile.absent:
        titles = [BY_NAME[name].title if name in BY_NAME else name for name in profile.absent]
        stalls = [title.removeprefix("stall: ") for title in titles if title.startswith("stall: ")]
        rest = [title for title in titles if not title.startswith("stall: ")]
        named = ", ".join(rest) + (f", and {len(stalls)} kinds of stall" if stalls else "")
        who = "Not given by ncu" if profile.origin == "measured" else "Only a GPU can tell"
        say(f"{who}: {named}.", "dim")


def _provenance(profile: Profile, automatic: bool) -> str:
    text = f"{profile.origin.capitalize()} on {profile.device}."
    if profile.origin == "simulated":
        text += f" Executed and counted: {profile.level}."
        text += f" ({profile.level_reason}.)" if profile.level_reason else ""
    if profile.sampled_depth:
        text += (f" K was run up to {profile.sampled_depth:,} of {profile.problem.k:,} and counts extrapolated "
                 "linearly.")  # fmt: skip
    if profile.sampled_blocks:
        error = profile.sampling_error
        bound = "unknown from so few" if math.isnan(error) else f"about ±{100 * error:.2g}%, with 95% confidence"
        if error == 0:
            bound = "none seen, all groups of blocks agree"
        text += (f" {profile.sampled_blocks:,} of {profile.geometry.blocks:,} blocks were run and scaled up; "
                 f"error: {bound}.")  # fmt: skip
    if automatic and (profile.sampled_blocks or profile.sampled_depth):
        text += f" (More than {BUDGET:,} multiply-adds are sampled; --full runs them all.)"
    return text


def number(value: float) -> str:
    """A count for people; – where it is absent."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:,.2f}"


def ratio(part: float, whole: float, form: str = "{:.2f}") -> str:
    return form.format(part / whole) if whole and not math.isnan(part / whole) else "–"


def _section(heads: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        print_table(heads, rows)
        say()


def _heads(*names: str) -> list[Column]:
    return [(name, "right" if i else "left") for i, name in enumerate(names)]


def _print_global(profile: Profile) -> None:
    used = dict(zip(("ld", "st"), profile.bytes_per_sector, strict=True))
    rows = [
        (word, number(profile.requests(op)), number(profile.sectors(op)),
         ratio(profile.sectors(op), profile.requests(op)), "–" if math.isnan(used[op]) else f"{used[op]:.1f} of 32")
        for word, op in _ACCESS
    ]  # fmt: skip
    print_table(_heads("global memory", "requests", "sectors", "sectors/\nrequest", "bytes used/\nsector"), rows)
    say(_USED, "dim")
    say()


def _print_shared(profile: Profile) -> None:
    rows = []
    for word, op in _SHARED:
        requests, waves_, excess = profile.value(REQUESTS[op]), profile.wavefronts(op), _conflicts(profile, op)
        if requests > 0 or waves_ > 0:
            rows.append((word, number(requests), number(waves_), ratio(waves_, requests), number(excess),
                         ratio(excess, waves_, "{:.1%}")))  # fmt: skip
    heads = _heads("shared memory", "requests", "wavefronts", "wavefronts/\nrequest", "bank\nconflicts", "share")
    if rows:
        _section(heads, rows)
    else:
        say("shared memory  not used", lead="shared memory")
        say()


def _conflicts(profile: Profile, op: str) -> float:
    """Bank conflicts of one operation; the profiler's count for loads contains ldmatrix's."""
    matrix = profile.value(LDMATRIX_CONFLICTS)
    if op == "ldsm":
        return matrix
    return profile.value(CONFLICTS[op]) - (matrix if op == "ld" and matrix > 0 else 0)


def _print_instructions(profile: Profile) -> None:
    simulated, machine = dict(profile.mix), dict(profile.machine_mix)
    if not simulated:
        return
    if profile.level == MACHINE:
        _print_executed(profile)
        return
    all_machine, all_simulated = sum(machine.values()), sum(simulated.values())
    rows = [
        (name, number(simulated.get(name, 0)), ratio(simulated.get(name, 0), all_simulated, "{:.1%}"),
         number(machine.get(name, 0)), ratio(machine.get(name, 0), all_machine, "{:.1%}"))
        for name in sorted({*simulated, *machine}, key=lambda name: -machine.get(name, 0))
        if simulated.get(name, 0) or machine.get(name, 0)
    ]  # fmt: skip
    _section(_heads("warp instructions", "PTX executed", "share", "machine code\n(estimated)", "share"), rows)
    threads = profile.geometry.threads * profile.geometry.blocks
    say(
        f"FFMA {number(profile.value(FFMA) / threads)} per thread, {profile.active_lanes:.2f} of 32 lanes active, "
        f"branch efficiency {profile.branch_efficiency:.1f}%, "
        f"barriers {number(profile.barriers)} ({ratio(profile.barriers, profile.value(WARPS))} per warp)"
    )
    say()


def _print_executed(profile: Profile) -> None:
    """Executed machine instructions by class, with their opcodes."""
    kinds: dict[str, list[str]] = {}
    for name, count in opcodes(profile).items():
        kinds.setdefault(sass_class(name), []).append(f"{name} {number(count)}")
    total = sum(count for _, count in profile.mix)
    rows = [(name, number(count), ratio(count, total, "{:.1%}"), _first(kinds.get(name, ())))
            for name, count in profile.mix if count]  # fmt: skip
    heads = _heads("warp instructions", "executed", "share", "opcodes")
    _section([*heads[:-1], ("opcodes", "left")], rows)
    threads = profile.geometry.threads * profile.geometry.blocks
    say(f"{number(total)} in all, FFMA {number(profile.value(FFMA) / threads)} per thread, "
        f"{profile.active_lanes:.2f} of 32 lanes active, branch efficiency {profile.branch_efficiency:.1f}%, "
        f"barriers {number(profile.barriers)} "
        f"({ratio(profile.barriers, profile.value(WARPS))} per warp)")  # fmt: skip
    say()


def _first(names: Sequence[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def _print_traffic(profile: Profile) -> None:
    rows = [(t.space, number(t.requested), number(t.moved)) for t in profile.traffic if t.requested or t.moved]
    _section(_heads("bytes by memory space", "requested by lanes", "moved"), rows)


def _print_launch(profile: Profile, held: Occupancy, gpu: GPU) -> None:
    used, geometry = profile.resources, profile.geometry
    grid, block = ("×".join(map(str, shape)) for shape in (geometry.grid, geometry.block))
    indent = " " * 8
    say(f"launch  {geometry.blocks:,} blocks ({grid}) of {geometry.threads} threads ({block}), "
        f"{number(profile.value(WARPS))} warps", lead="launch", hang=indent)  # fmt: skip
    if not used.registers:  # given as PTX
        say(f"{used.static_smem + geometry.smem:,} B of shared memory; registers and occupancy are not known: "
            "PTX has no machine code", indent=indent)  # fmt: skip
        say()
        return
    say(f"{used.registers} registers per thread, {used.static_smem + geometry.smem:,} B of shared memory, "
        f"{used.spill_loads + used.spill_stores} B spilled", indent=indent)  # fmt: skip
    if held.fits:
        rounds = waves(gpu, geometry.blocks, held.blocks_per_sm)
        say(f"{gpu.name}: occupancy {held.fraction:.1%} ({held.blocks_per_sm} blocks, {held.warps_per_sm} of "
            f"{gpu.warps_per_sm} warps per SM), limited by {' and '.join(held.limiters)}; {rounds.waves:.2f} waves "
            "(predicted)", indent=indent)  # fmt: skip
    else:
        say(f"{gpu.name}: {held.why}", indent=indent)
    say()


def _print_measured(profile: Profile) -> None:
    known = [(m.title, number(profile.value(name)), m.unit) for name, m in BY_NAME.items()
             if profile.origin == "measured" and m.hardware_only and not math.isnan(profile.value(name))]  # fmt: skip
    _section([("measured by ncu", "left"), ("value", "right"), ("unit", "left")], known)


def cross_check_sentences(profile: Profile) -> list[str]:
    """One line if all are equal; otherwise each difference and what it means."""
    if not profile.checks:
        return []
    odd = [check for check in profile.checks if check.state != "equal"]
    counts = ", ".join(f"{c.name} {c.machine}" for c in profile.checks if c.state == "equal")
    if not odd:
        return [f"Cross-check with the machine code: all equal ({counts})."]
    made = [f"Cross-check with the machine code: {counts or 'nothing'} equal; not equal:"]
    for check in odd:
        lines = f" [{', '.join(check.lines[:3])}{', …' if len(check.lines) > 3 else ''}]" if check.lines else ""
        made.append(f"  {check.state}: {check.name} {check.simulated} in PTX, {check.machine} in SASS; "
                    f"{check.meaning}{lines}")  # fmt: skip
    return made


def print_lines(spec: KernelSpec, profile: Profile, automatic: bool = False) -> None:
    """The source from the first counted line to the last, then counted lines of headers."""
    print_source_lines(profile, spec.source.name, source_lines(spec, spec.source.name), automatic)


def print_source_lines(profile: Profile, own: str, texts: Sequence[str], automatic: bool = False) -> None:
    """The same for a source file called ``own`` with the lines ``texts``."""
    say(_provenance(profile, automatic), "dim")
    say(_UNVERIFIED, "dim")
    for sentence in line_sum_sentences(profile):
        say(sentence, hang="  ")
    shown = _MEASURED if profile.origin == "measured" else _SIMULATED
    cells = {(line.file, line.number): [cell(line) for cell in shown.values()] for line in profile.lines}
    widths = [max(map(len, column)) for column in zip(shown, *cells.values(), strict=True)]
    nothing = [""] * len(shown)
    _print_row("line", list(shown), "source", widths)
    counted = [at for file, at in cells if file == own and at]
    for at in range(min(counted, default=1), max(counted, default=0) + 1):
        text = texts[at - 1] if at <= len(texts) else ""
        _print_row(str(at), cells.get((own, at), nothing), text, widths)
    for file in dict.fromkeys(line.file for line in profile.lines if line.file != own):
        say(f"{file or 'no line known'}:")
        for line in profile.lines:
            if line.file == file:
                called = f"  // called at {', '.join(line.called_at[:3])}" if line.called_at else ""
                _print_row(str(line.number), cells[file, line.number], line.text + called, widths)


def line_sum_sentences(profile: Profile) -> list[str]:
    """Whether measured lines add up to the launch's own counters; each that does not, with both numbers."""
    same = [made for made in profile.line_sums if made.name == made.total_name]
    odd = [made for made in same if not made.equal]
    made = [f"Sums over lines equal the launch's own counters ({len(same)} compared)."] if same and not odd else []
    if odd:
        made.append(f"Sums over lines differ from the launch's own counters in {len(odd)} of {len(same)}:")
        made += [f"  {BY_NAME[m.name].title}: lines {number(m.lines)}, launch {number(m.total)}" for m in odd]
    made += [f"sectors: as ncu derives them from addresses ({m.name}), {number(m.lines)} in all; L1 counted "
             f"{number(m.total)}" for m in profile.line_sums if m.name != m.total_name]  # fmt: skip
    return made


def _positive(value: int | None) -> str:
    return f"{value:,}" if value else ""


_COMMON: dict[str, Callable[[Line], str]] = {
    "executed": lambda line: _positive(line.executed),
    "sectors": lambda line: _positive(line.total("_sectors_")),
    "waves": lambda line: _positive(line.total("wavefronts")),  # of shared memory
}
_SIMULATED = _COMMON | {"conflicts": lambda line: _positive(line.total("bank_conflicts"))}
_MEASURED = _COMMON | {
    "excess": lambda line: _positive(line.excess),
    "samples": lambda line: _positive(line.samples),
    "stall": lambda line: line.top_stall,
}


def _print_row(at: str, cells: Sequence[str], text: str, widths: Sequence[int]) -> None:
    """A line of source after its counts, cut to the terminal."""
    counts = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    full, width = f"{at:>4} {counts} | {text}".rstrip(), columns()
    sys.stdout.write((full if len(full) <= width else full[: width - 1] + "…") + "\n")
