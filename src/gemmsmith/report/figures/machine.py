"""What the GPU allows: the roofline, occupancy, and what bounds a rung."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import units_of
from gemmsmith.explain.occupancy import Step, curve, steps
from gemmsmith.gpus import GPU
from gemmsmith.report.arithmetic import Peak, panels_of, peak_of
from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, chart
from gemmsmith.report.charts.roof import Ceiling, Roof, Spot, draw_roofline
from gemmsmith.report.charts.steps import draw_steps
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import ABSENT, compact, percent, short, size_of, tflops
from gemmsmith.report.report_model import PREDICTED, SIMULATED, Rung, Story
from gemmsmith.report.speeds import Speeds, headline, predicted, same_gpu

_AXES = {"registers": "registers a thread", "threads": "threads a block", "smem": "shared memory a block"}


def roofline(story: Story, speeds: Speeds) -> Chart | None:
    """Every rung by the bytes its requests ask of the caches and the speed it reaches."""
    gpu, spots, rows, origins = story.gpu, [], [], []
    peaks: dict[Peak, None] = {}
    for rung in story.rungs:
        if rung.diagnosis is None:
            continue
        roof, fast = rung.diagnosis.roof, headline(rung, story, speeds)
        if fast is None or not same_gpu(fast.gpu, gpu):
            fast = predicted(rung, story)
        if fast is None or not (roof.l2_intensity > 0 and fast.tflops > 0):
            continue
        words = f"{short(roof.l2_intensity)} flop/B, {tflops(fast.tflops)} TFLOPS, {fast.origin}"
        spots.append(Spot(rung.number, rung.name, roof.l2_intensity, fast.tflops, words, fast.origin == PREDICTED))
        origins.append(fast.origin)
        rows.append((str(rung.number), rung.name, short(roof.l2_intensity), short(roof.intensity), tflops(fast.tflops),
                     _of_peak(rung, fast.tflops, gpu), fast.origin))  # fmt: skip
        if peak_of(rung, gpu).tflops > 0:
            peaks[peak_of(rung, gpu)] = None
    if not spots:
        return None
    if len(set(origins)) == 1:  # hollow tells origins apart; where there is one, full marks read better
        spots = [Spot(s.rung, s.label, s.intensity, s.tflops, s.words) for s in spots]
    roofs = [Roof(f"DRAM {short(gpu.dram_gbs / 1e3)} TB/s", gpu.dram_gbs / 1e3)]
    try:
        rate = units_of(gpu).l2_bytes * gpu.sms * gpu.boost_mhz / 1e6
        roofs.append(Roof(f"L2 {short(rate)} TB/s", rate, "6 4"))
    except UsageError:
        pass  # the model has no figure for this architecture's L2: the roof of DRAM stands alone
    least = next(r.diagnosis.roof for r in story.rungs if r.diagnosis is not None)
    caption = (
        f"Arithmetic for each byte that global loads and stores ask of the caches, against speed, on {gpu.name}. "
        "Tiling moves a rung to the right, out from under the slanted roofs; then only the flat roof of its own "
        "arithmetic is left. A rung "
        "above the L2 roof has part of its requests answered by L1. Moving each matrix once would be "
        f"{short(least.intensity)} flop/B."
    )
    columns = ("rung", "kernel", "flop/B asked", "flop/B if moved once", "TFLOPS", "of peak", "speed's origin")
    table = Table(columns, tuple(rows))
    low, high = (f(s.intensity for s in spots) for f in (min, max))
    title = f"From {short(low, 2)} to {short(high, 2)} flop a byte" if len(spots) > 1 else f"Roofline of {gpu.name}"
    ceilings = [Ceiling(f"{peak.arithmetic} peak {short(peak.tflops)}", peak.tflops)
                for peak in peaks or [Peak("fp32", gpu.fp32_tflops)]]  # fmt: skip
    return chart("roofline", title, caption, table,
                 lambda c: draw_roofline(c, spots, roofs, ceilings, "flop per byte asked of global memory", "TFLOPS"),
                 [SIMULATED, *origins])  # fmt: skip


def _of_peak(rung: Rung, tflops_: float, gpu: GPU) -> str:
    peak = peak_of(rung, gpu)
    return f"{percent(tflops_ / peak.tflops)} ({peak.arithmetic})" if peak.tflops > 0 else ABSENT


def occupancies(story: Story, speeds: Speeds, links: Mapping[str, str]) -> Chart | None:
    """Warps that an SM holds, and what limits them."""
    held = [(rung, rung.occupancy) for rung in story.rungs if rung.occupancy is not None]
    if not held:
        return None
    gpu = story.gpu
    bars = [
        Bar(rung.name, o.warps_per_sm, f"{percent(o.fraction)} · {' and '.join(o.limiters)}", rung.number,
            f"#{links[rung.name]}" if rung.name in links else "")
        for rung, o in held
    ]  # fmt: skip
    table = Table(
        ("rung", "kernel", "threads", "registers", "shared memory, B", "blocks an SM", "warps an SM", "occupancy",
         "limited by"),
        tuple((str(r.number), r.name, str(o.threads), str(o.registers), f"{o.static_smem + o.dynamic_smem:,}",
               str(o.blocks_per_sm), str(o.warps_per_sm), percent(o.fraction), " and ".join(o.limiters))
              for r, o in held),
    )  # fmt: skip
    caption = (f"Warps of each rung that one SM of {gpu.name} holds at once, of {gpu.warps_per_sm}, and what limits "
               "them. More warps hide latency; so does more independent work in each thread, which takes "
               "registers.")  # fmt: skip
    return chart("occupancy", _occupancy_title(story, speeds), caption, table,
                 lambda c: draw_bars(c, bars, [Reference(f"all {gpu.warps_per_sm}", gpu.warps_per_sm)], "warps an SM"),
                 [PREDICTED])  # fmt: skip


def _occupancy_title(story: Story, speeds: Speeds) -> str:
    """Says so where the fastest rung of the first kind of units is not the one with most warps."""
    panel = panels_of(story)[0]
    known = [(fast.tflops, rung) for rung in panel.rungs
             if rung.occupancy and (fast := headline(rung, story, speeds)) is not None]  # fmt: skip
    if known:
        best = max(known, key=lambda item: item[0])[1]
        fullest = max(rung.occupancy.fraction for _, rung in known if rung.occupancy)
        if best.occupancy and best.occupancy.fraction < fullest:
            share = percent(best.occupancy.fraction)
            return f"More warps are not more speed: {best.name} is fastest{panel.on_units}, with {share}"
    return f"Warps that an SM of {story.gpu.name} holds"


def occupancy_steps(rung: Rung, story: Story, anchor: str) -> list[Chart]:
    """How occupancy would fall if this rung used more of one resource."""
    held = rung.occupancy
    if held is None or not held.fits:
        return []
    charts = []
    for resource, axis in _AXES.items():
        values = _smem_values(story.gpu) if resource == "smem" else None
        stairs = steps(curve(story.gpu, resource, values, threads=held.threads, registers=held.registers,
                             static_smem=held.static_smem, dynamic_smem=held.dynamic_smem,
                             barriers=held.barriers))  # fmt: skip
        here = {"registers": held.registers, "threads": held.threads,
                "smem": held.static_smem + held.dynamic_smem}[resource]  # fmt: skip
        unit = f"{axis}, bytes" if resource == "smem" else axis
        table = Table((unit, "blocks an SM", "warps an SM", "occupancy"), tuple(
            (f"{s.first:,}" if s.first == s.last else f"{s.first:,} – {s.last:,}", str(s.occupancy.blocks_per_sm),
             str(s.occupancy.warps_per_sm), percent(s.occupancy.fraction)) for s in stairs))  # fmt: skip
        caption = f"Occupancy against {axis}, all else as it is; the dot is {rung.name}, with {here:,}."

        def draw(c: Canvas, stairs: tuple[Step, ...] = stairs, here: int = here, axis: str = unit) -> Drawing:
            return draw_steps(c, stairs, here, held.fraction, axis, colour(rung.number))

        charts.append(chart(f"{anchor}-{resource}", axis.capitalize(), caption, table, draw, [PREDICTED], small=True))
    return charts


def _smem_values(gpu: GPU) -> list[int]:
    """Both sides of every step that shared memory can cause: as many blocks as it just allows, and one unit more."""
    edges = {0, gpu.smem_per_block}
    for blocks in range(1, gpu.blocks_per_sm + 1):
        most = gpu.smem_per_sm // blocks // gpu.smem_unit * gpu.smem_unit - gpu.reserved_smem_per_block
        edges |= {most, most + gpu.smem_unit}
    return sorted(edge for edge in edges if 0 <= edge <= gpu.smem_per_block)


def bounds(rung: Rung, anchor: str) -> Chart | None:
    """The share of the predicted time that each part of an SM is busy."""
    if rung.diagnosis is None or rung.diagnosis.case.estimate.longest <= 0:
        return None
    case, guess = rung.diagnosis.case, rung.diagnosis.case.estimate
    ordered = sorted(guess.cycles, key=lambda item: -item[1])
    bars = [Bar(name, cycles / guess.longest * 100, percent(cycles / guess.longest), class_=colour(rung.number))
            for name, cycles in ordered]  # fmt: skip
    problem = case.profile.problem
    size = size_of(problem.m, problem.n, problem.k)
    table = Table(("part of an SM", "cycles of the busiest SM", "share of the time"),
                  tuple((name, compact(c), percent(c / guess.longest)) for name, c in ordered))  # fmt: skip
    caption = (f"How long each part of an SM is busy at {size} on {guess.gpu}, as a share of the predicted time. The "
               f"longest bar is what bounds {rung.name}: {guess.bound}.")  # fmt: skip
    return chart(f"{anchor}-bound", f"{guess.bound[:1].upper()}{guess.bound[1:]} bounds it", caption, table,
                 lambda c: draw_bars(c, bars, [], "% of the predicted time"), [PREDICTED])  # fmt: skip
