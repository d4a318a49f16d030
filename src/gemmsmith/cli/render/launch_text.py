"""What check prints about launches of any kernel, as text and as JSON."""

from __future__ import annotations

import shlex
from typing import Any

from gemmsmith.call.any_kernel.arguments import Argument
from gemmsmith.call.any_kernel.kernel import LaunchKernel
from gemmsmith.cli.render.excerpt import print_fault
from gemmsmith.cli.render.output import bytes_text, item, say
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.verify.launch_check import LaunchCheck, TrialOutcome

_MOST_PRINTS = 20


def geometry_line(geometry: Geometry) -> str:
    grid, block = ("×".join(map(str, size)) for size in (geometry.grid, geometry.block))
    return f"launch: grid {grid}, block {block}, {geometry.smem} B dynamic shared memory"


def kernel_line(kernel: LaunchKernel) -> str:
    used = kernel.compiled.resources
    if not kernel.compiled.cubin:
        return f"{kernel.file}: {kernel.name}, PTX for {kernel.compiled.arch}"
    return (f"{kernel.file}: {kernel.name}, {used.registers} registers, {bytes_text(used.static_smem)} static shared "
            f"memory, {kernel.compiled.arch}")  # fmt: skip


def argument_text(argument: Argument) -> str:
    """An argument in few words: its name, and the shape of an array or the value of a number."""
    if argument.is_table:
        return f"{argument.name} {len(argument.arrays)} arrays"
    if argument.arrays:
        values = argument.arrays[0].values
        return f"{argument.name} {values.dtype}[{'×'.join(map(str, values.shape))}]"
    if argument.value is None:
        return f"{argument.name} null"
    bytes_given = isinstance(argument.value, (bytes, bytearray, memoryview))
    return f"{argument.name} {f'{len(argument.data)} bytes' if bytes_given else argument.value}"


def print_check(check: LaunchCheck, next_command: str, repeat: str = "", verbose: bool = False) -> None:
    """The launch, each trial, what is wrong, and the verdict. ``repeat`` is the command of this check."""
    item(kernel_line(check.kernel))
    item(geometry_line(check.launch.geometry))
    item(f"arguments: {', '.join(map(argument_text, check.arguments)) or 'none'}")
    for outcome in check.outcomes:
        mark, style = ("ok   ", "green") if outcome.ok else ("WRONG", "red")
        say(f"  {mark} {outcome.trial.label}", lead=f"  {mark}", lead_style=style, hang=" " * 6)
    for label, why in check.skipped:
        say(f"  skipped {label}: {why}", "dim", hang=" " * 6)
    for note in dict.fromkeys(note for outcome in check.outcomes for note in outcome.notes):
        item(f"note: {note}", "yellow")
    _print_prints(check.outcomes[0])
    for outcome in check.outcomes:
        for fault in outcome.faults:
            print_fault(fault, "red", verbose)
        for reason in outcome.reasons[outcome.told :]:
            item(f"  {reason}", "red")
        if not outcome.ok and repeat:
            item(f"repeat: {repeat} --trial {shlex.quote(outcome.trial.label)}", indent="  ")
    if check.not_run:
        item(f"not run after the failure: {', '.join(check.not_run)}", "dim")
    item(verdict_line(check), "" if check.ok else "red")
    if check.ok and next_command:
        item(f"next: {next_command}", "dim")


def _print_prints(outcome: TrialOutcome) -> None:
    lines = [line for text in outcome.prints for line in text.splitlines()]
    if lines:
        say("The kernel printed, with the given data:", "bold")
    for line in lines[:_MOST_PRINTS]:
        say(line, indent="  ")
    if len(lines) > _MOST_PRINTS:
        say(f"  … and {len(lines) - _MOST_PRINTS} more lines", "dim")


def verdict_line(check: LaunchCheck) -> str:
    name, many = check.kernel.name, len(check.outcomes)
    if not check.ok:
        return f"WRONG: {name} on {check.device}"
    trials = f"{many} trial{'s' if many > 1 else ''} on {check.device}"
    races = " and has no race" if check.device.startswith("simulator") else ""
    if check.compared:
        return f"ok: {name} gives the expected result in {trials}{races}"
    return f"ok: {name} runs without a fault in {trials}{races}; its result was not compared: give --expect"


def check_json(check: LaunchCheck) -> dict[str, Any]:
    used, geometry = check.kernel.compiled.resources, check.launch.geometry
    return {
        "kernel": check.kernel.name, "file": check.kernel.file, "entry": check.kernel.compiled.entry, "ok": check.ok,
        "status": ("right" if check.compared else "not compared") if check.ok else "wrong",
        "compared": check.compared, "device": check.device, "arch": check.kernel.compiled.arch,
        "registers": used.registers, "static_smem": used.static_smem,
        "launch": {"grid": list(geometry.grid), "block": list(geometry.block), "smem": geometry.smem},
        "arguments": [_argument_json(argument) for argument in check.arguments],
        "trials": [_outcome_json(outcome) for outcome in check.outcomes],
        "prints": list(check.outcomes[0].prints),
        "skipped": [{"label": label, "reason": why} for label, why in check.skipped],
        "not_run": list(check.not_run), "note": "", "verdict": verdict_line(check),
        "warnings": list(dict.fromkeys(note for outcome in check.outcomes for note in outcome.notes)),
    }  # fmt: skip


def _argument_json(argument: Argument) -> dict[str, Any]:
    arrays = [{"dtype": str(host.values.dtype), "shape": list(host.values.shape)} for host in argument.arrays]
    return {"name": argument.name, "type": str(argument.parameter.type), "arrays": arrays,
            "text": argument_text(argument)}  # fmt: skip


def _outcome_json(outcome: TrialOutcome) -> dict[str, Any]:
    seconds = outcome.seconds if outcome.seconds == outcome.seconds else None
    return {
        "label": outcome.trial.label, "schedule": outcome.trial.schedule, "fill": outcome.trial.fill,
        "seed": outcome.trial.seed, "ok": outcome.ok, "mistrusted": False, "reasons": list(outcome.reasons),
        "damage": [], "notes": list(outcome.notes), "told": outcome.told,
        "faults": [fault.to_json() for fault in outcome.faults],
        "hazards": [{"kind": str(hazard.kind), "first": hazard.first.where, "second": hazard.second.where,
                     "text": str(hazard)} for hazard in outcome.hazards],
        "seconds": seconds,
    }  # fmt: skip


def command_line(command: str, word: str, options: list[str]) -> str:
    """A command with the same launch, to be copied."""
    return shlex.join(["gemmsmith", command, word, *options])
