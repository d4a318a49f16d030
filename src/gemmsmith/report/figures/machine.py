"""The GPU's limits: roofline, occupancy, and what bounds a rung."""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.errors import UsageError
from gemmsmith.explain.bottleneck import FMA, units_of
from gemmsmith.explain.occupancy import Step, curve, steps
from gemmsmith.gpus import GPU
from gemmsmith.report.arithmetic import TENSOR_CORES, Peak, panels_of, peak_of
from gemmsmith.report.charts.bars import Bar, Reference, draw_bars
from gemmsmith.report.charts.frame import Canvas, Chart, Drawing, Table, chart
from gemmsmith.report.charts.roof import Ceiling, Roof, Spot, draw_roofline
from gemmsmith.report.charts.steps import draw_steps
from gemmsmith.report.charts.svg import colour
from gemmsmith.report.charts.words import ABSENT, compact, percent, short, size_of, tflops
from gemmsmith.report.report_model import PREDICTED, SIMULATED, ReportModel, Rung
from gemmsmith.report.speeds import Speeds, headline, predicted, same_gpu

_AXES = {"registers": "registers per thread", "threads": "threads per block", "smem": "shared memory per block"}


def roofline(model: ReportModel, speeds: Speeds) -> Chart | None:
    """Every rung by arithmetic intensity (flop per byte requested from the caches) and speed."""
    gpu, spots, rows, origins = model.gpu, [], [], []
    peaks: dict[Peak, None] = {}
    for rung in model.rungs:
        if rung.diagnosis is None:
            continue
        roof, fast = rung.diagnosis.roof, headline(rung, model, speeds)
        if fast is None or not same_gpu(fast.gpu, gpu):
            fast = predicted(rung, model)
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
    if len(set(origins)) == 1:  # hollow marks only distinguish origins
        spots = [Spot(s.rung, s.label, s.intensity, s.tflops, s.words) for s in spots]
    roofs = [Roof(f"DRAM {short(gpu.dram_gbs / 1e3)} TB/s", gpu.dram_gbs / 1e3)]
    try:
        rate = units_of(gpu).l2_bytes * gpu.sms * gpu.boost_mhz / 1e6
        roofs.append(Roof(f"L2 {short(rate)} TB/s", rate, "6 4"))
    except UsageError:
        pass  # the time model has no L2 figure for this architecture; draw only the DRAM roof
    least = next(r.diagnosis.roof for r in model.rungs if r.diagnosis is not None)
    caption = (
        f"Arithmetic intensity (flop per byte requested by global loads and stores) against speed on {gpu.name}. "
        "Tiling moves a rung to the right, away from the bandwidth roofs, until only the compute peak limits it. L1 "
        "serves part of the requests of a rung above the L2 roof. If each matrix moved once, the intensity would be "
        f"{short(least.intensity)} flop/B."
    )
    columns = ("rung", "kernel", "flop/B requested", "flop/B if moved once", "TFLOPS", "of peak", "origin of speed")
    table = Table(columns, tuple(rows))
    low, high = (f(s.intensity for s in spots) for f in (min, max))
    title = f"From {short(low, 2)} to {short(high, 2)} flop per byte" if len(spots) > 1 else f"Roofline of {gpu.name}"
    ceilings = [Ceiling(f"{peak.arithmetic} peak {short(peak.tflops)}", peak.tflops)
                for peak in peaks or [Peak("fp32", gpu.fp32_tflops)]]  # fmt: skip
    return chart("roofline", title, caption, table,
                 lambda c: draw_roofline(c, spots, roofs, ceilings, "flop per byte requested", "TFLOPS"),
                 [SIMULATED, *origins])  # fmt: skip


def _of_peak(rung: Rung, tflops_: float, gpu: GPU) -> str:
    peak = peak_of(rung, gpu)
    return f"{percent(tflops_ / peak.tflops)} ({peak.arithmetic})" if peak.tflops > 0 else ABSENT


def occupancies(model: ReportModel, speeds: Speeds, links: Mapping[str, str]) -> Chart | None:
    """Warps per SM, and the resource that limits them."""
    held = [(rung, rung.occupancy) for rung in model.rungs if rung.occupancy is not None]
    if not held:
        return None
    gpu = model.gpu
    bars = [
        Bar(rung.name, o.warps_per_sm, f"{percent(o.fraction)} · {' and '.join(o.limiters)}", rung.number,
            f"#{links[rung.name]}" if rung.name in links else "")
        for rung, o in held
    ]  # fmt: skip
    table = Table(
        ("rung", "kernel", "threads", "registers", "shared memory, B", "blocks per SM", "warps per SM", "occupancy",
         "limited by"),
        tuple((str(r.number), r.name, str(o.threads), str(o.registers), f"{o.static_smem + o.dynamic_smem:,}",
               str(o.blocks_per_sm), str(o.warps_per_sm), percent(o.fraction), " and ".join(o.limiters))
              for r, o in held),
    )  # fmt: skip
    caption = (f"Resident warps per SM on {gpu.name} (at most {gpu.warps_per_sm}), and the resource that limits them. "
               "More warps hide more latency. So does more independent work per thread, which needs "
               "registers.")  # fmt: skip
    return chart("occupancy", _occupancy_title(model, speeds), caption, table,
                 lambda c: draw_bars(c, bars, [Reference(f"all {gpu.warps_per_sm}", gpu.warps_per_sm)], "warps per SM"),
                 [PREDICTED])  # fmt: skip


def _occupancy_title(model: ReportModel, speeds: Speeds) -> str:
    """Points out if the first panel's fastest rung does not have the highest occupancy."""
    panel = panels_of(model)[0]
    known = [(fast.tflops, rung) for rung in panel.rungs
             if rung.occupancy and (fast := headline(rung, model, speeds)) is not None]  # fmt: skip
    if known:
        best = max(known, key=lambda item: item[0])[1]
        fullest = max(rung.occupancy.fraction for _, rung in known if rung.occupancy)
        if best.occupancy and best.occupancy.fraction < fullest:
            share = percent(best.occupancy.fraction)
            return f"More warps do not mean more speed: {best.name} is fastest{panel.on_units}, at {share} occupancy"
    return f"Resident warps per SM on {model.gpu.name}"


def occupancy_steps(rung: Rung, model: ReportModel, anchor: str) -> list[Chart]:
    """How occupancy depends on each resource of this rung."""
    held = rung.occupancy
    if held is None or not held.fits:
        return []
    charts = []
    for resource, axis in _AXES.items():
        values = _smem_values(model.gpu) if resource == "smem" else None
        stairs = steps(curve(model.gpu, resource, values, threads=held.threads, registers=held.registers,
                             static_smem=held.static_smem, dynamic_smem=held.dynamic_smem,
                             barriers=held.barriers))  # fmt: skip
        here = {"registers": held.registers, "threads": held.threads,
                "smem": held.static_smem + held.dynamic_smem}[resource]  # fmt: skip
        unit = f"{axis}, bytes" if resource == "smem" else axis
        table = Table((unit, "blocks per SM", "warps per SM", "occupancy"), tuple(
            (f"{s.first:,}" if s.first == s.last else f"{s.first:,} – {s.last:,}", str(s.occupancy.blocks_per_sm),
             str(s.occupancy.warps_per_sm), percent(s.occupancy.fraction)) for s in stairs))  # fmt: skip
        caption = f"Occupancy against {axis}, with all else unchanged. The dot marks {rung.name}, at {here:,}."

        def draw(c: Canvas, stairs: tuple[Step, ...] = stairs, here: int = here, axis: str = unit) -> Drawing:
            return draw_steps(c, stairs, here, held.fraction, axis, colour(rung.number))

        charts.append(chart(f"{anchor}-{resource}", axis.capitalize(), caption, table, draw, [PREDICTED], small=True))
    return charts


def _smem_values(gpu: GPU) -> list[int]:
    """Both sides of every step in occupancy: the largest size that allows n blocks, and one allocation unit more."""
    edges = {0, gpu.smem_per_block}
    for blocks in range(1, gpu.blocks_per_sm + 1):
        most = gpu.smem_per_sm // blocks // gpu.smem_unit * gpu.smem_unit - gpu.reserved_smem_per_block
        edges |= {most, most + gpu.smem_unit}
    return sorted(edge for edge in edges if 0 <= edge <= gpu.smem_per_block)


def bounds(rung: Rung, anchor: str) -> Chart | None:
    """How busy each resource of an SM is, as a share of the predicted time."""
    if rung.diagnosis is None or rung.diagnosis.case.estimate.longest <= 0:
        return None
    case, guess = rung.diagnosis.case, rung.diagnosis.case.estimate

    def named(name: str) -> str:
        return TENSOR_CORES if name == FMA and case.work.tensor else name

    ordered = [(named(name), cycles) for name, cycles in sorted(guess.cycles, key=lambda item: -item[1])]
    bars = [Bar(name, cycles / guess.longest * 100, percent(cycles / guess.longest), class_=colour(rung.number))
            for name, cycles in ordered]  # fmt: skip
    problem = case.profile.problem
    size = size_of(problem.m, problem.n, problem.k)
    table = Table(("resource", "cycles on the busiest SM", "share of the time"),
                  tuple((name, compact(c), percent(c / guess.longest)) for name, c in ordered))  # fmt: skip
    caption = (f"How long each resource is busy at {size} on {guess.gpu}, as a share of the predicted time. The "
               f"longest bar bounds {rung.name}: {named(guess.bound)}.")  # fmt: skip
    return chart(f"{anchor}-bound", f"Bound by {named(guess.bound)}", caption, table,
                 lambda c: draw_bars(c, bars, [], "% of the predicted time"), [PREDICTED])  # fmt: skip
