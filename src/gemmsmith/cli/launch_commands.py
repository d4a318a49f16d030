"""check, profile, explain and compare for launches of any kernel."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmsmith.call.any_kernel.arguments import match_arguments
from gemmsmith.call.any_kernel.ptx_file import SUFFIX
from gemmsmith.call.any_kernel.result import LaunchResult
from gemmsmith.call.launch import Launch
from gemmsmith.cli.launch_files import find_launches, launch_name, one_launch
from gemmsmith.cli.ncu_launch import measured_launch
from gemmsmith.cli.ncu_profile import measured_on
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions, TargetOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.trial import TrialOptions
from gemmsmith.cli.python_files import describes_launches
from gemmsmith.cli.render.comparison_text import print_comparison
from gemmsmith.cli.render.diagnosis_text import check_json as quick_json
from gemmsmith.cli.render.diagnosis_text import print_findings, print_quick_check
from gemmsmith.cli.render.findings import checked
from gemmsmith.cli.render.format_names import Format
from gemmsmith.cli.render.formats import formatted
from gemmsmith.cli.render.launch_text import check_json, command_line, geometry_line, print_check
from gemmsmith.cli.render.output import item, print_json, progress, say
from gemmsmith.cli.render.profile_csv import lines_csv, metrics_csv
from gemmsmith.cli.render.profile_tables import print_profile, print_source_lines
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain.comparison_rows import measured_rows
from gemmsmith.explain.diagnosis import MODEL, Diagnosis
from gemmsmith.explain.launch_comparison import compare_launches, comparison_json
from gemmsmith.explain.launch_profile import diagnose_launch, diagnosis_json, launch_json, launch_profile
from gemmsmith.explain.occupancy import occupancy
from gemmsmith.explain.profile import Profile
from gemmsmith.run.cuda import cuda_device
from gemmsmith.verify.launch_check import check_launch, trials
from gemmsmith.verify.quick_check import QuickCheck, quick_launch_check


def check_launches(
    word: str, options: KernelOptions, given: ArgumentOptions, device: DeviceOptions, timeout: float,
    cache: CacheOptions, form: Format, trial: TrialOptions,
) -> bool:  # fmt: skip
    """Check every launch; returns whether all are right."""
    kind = "gpu" if device.wants_gpu else "sim"
    found = find_launches(word, options, given)
    checks = []
    with progress() as bar:
        task = bar.add_task("checking", total=sum(len(list(trials(each, kind))) for each in found))
        for each in found:
            checks.append(
                check_launch(
                    each,
                    kind,
                    timeout=timeout,
                    cache=_cache(cache),
                    advance=lambda: bar.advance(task),
                    choose=trial.chosen,
                )
            )
    ok = all(check.ok for check in checks)
    if form.is_document:
        sys.stdout.write(formatted([checked(Path(word), launch_name(c.launch), check_json(c)) for c in checks], form))
    elif form is Format.JSON:
        print_json(_one_or_all(word, [check_json(check) for check in checks], {"ok": ok}))
    else:
        for number, check in enumerate(checks):
            if number:
                say()
            repeat = _command("check", word, [*option_words(options, given)], check.launch, len(found))
            print_check(check, _next(word, options, given, check.launch, len(found)), repeat, trial.verbose)
        if len(checks) > 1:
            say()
            wrong = [launch_name(check.launch) for check in checks if not check.ok]
            item(f"{len(checks) - len(wrong)} of {len(checks)} launches are ok"
                 + (f"; wrong: {', '.join(wrong)}" if wrong else ""), "bold")  # fmt: skip
    return ok


def profile_launches(
    word: str, options: KernelOptions, given: ArgumentOptions, device: DeviceOptions, target: TargetOptions,
    cache: CacheOptions, *, as_json: bool, csv: bool, lines: bool,
) -> None:  # fmt: skip
    """Count what each launch does."""
    on_gpu = measured_on(device)
    found = find_launches(word, options, given)
    if csv:
        one_launch(word, options, given)  # refuses several
    made = []
    for each in found:
        profile, file, text = _profiled(word, each, options, given, target, cache, on_gpu=on_gpu, lines=lines)
        if as_json:
            made.append(launch_json(profile) | {"occupancy": _occupancy_json(profile, target)})
        elif csv:
            sys.stdout.write(lines_csv(profile) if lines else metrics_csv(profile))
        else:
            say(f"{launch_name(each)}, {geometry_line(each.geometry)}", "bold")
            if lines:
                print_source_lines(profile, file, text)
            else:
                print_profile(profile, _occupancy(profile, target), target.model)
    if as_json:
        print_json(_one_or_all(word, made, {}))


def explain_launches(
    word: str, options: KernelOptions, given: ArgumentOptions, target: TargetOptions, cache: CacheOptions, as_json: bool
) -> None:
    """Say what bounds each launch."""
    made = []
    for each in find_launches(word, options, given):
        check = quick_launch_check(each, target.architecture, _cache(cache))
        diagnosis, _ = _diagnosed(each, target, cache)
        made.append(quick_json(check) | diagnosis_json(diagnosis))
        if not as_json:
            _print_diagnosis(each, diagnosis, check)
    if as_json:
        print_json(_one_or_all(word, made, {}))


def compare_two_launches(
    left: tuple[str, KernelOptions], right: tuple[str, KernelOptions], given: ArgumentOptions, device: DeviceOptions,
    target: TargetOptions, cache: CacheOptions, as_json: bool,
) -> None:  # fmt: skip
    """Two launches side by side; on a GPU also what ncu measures."""
    on_gpu = measured_on(device)
    both = [one_launch(word, options, given) for word, options in (left, right)]
    checks = [quick_launch_check(each, target.architecture, _cache(cache)) for each in both]
    seen = [_diagnosed(each, target, cache) for each in both]
    found = compare_launches(seen[0], seen[1], target.model, doubtful=not all(check.ok for check in checks))
    if on_gpu:
        named = zip((left, right), both, strict=True)
        x, y = (measured_launch(word, each, options, given.text) for (word, options), each in named)
        found = replace(found, rows=(*found.rows, *measured_rows(x, y)))
    if as_json:
        sides = {side: quick_json(check)["checked"] for side, check in zip("xy", checks, strict=True)}
        print_json(comparison_json(found) | {"checked": sides})
        return
    titles = [f"{launch_name(each)}, {geometry_line(each.geometry)}" for each in both]
    print_comparison(titles, [launch_name(each) for each in both], found.sentences, found.rows, checks)


def _profiled(
    word: str, launch: Launch, options: KernelOptions, given: ArgumentOptions, target: TargetOptions,
    cache: CacheOptions, *, on_gpu: bool, lines: bool,
) -> tuple[Profile, str, list[str]]:  # fmt: skip
    """A launch's profile, the name of its source, and the lines of that."""
    if on_gpu:
        named = word if ":" in word or not describes_launches(word) else f"{word}:{launch_name(launch)}"
        kernel = launch.compile(cuda_device().arch, _cache(cache))
        profile = measured_launch(named, launch, options, given.text, lines=lines)
    else:
        result, sass = _counted(launch, target, cache)
        kernel, profile = result.launched, launch_profile(result, sass)
    return profile, kernel.file, kernel.files.get(kernel.file, "").expandtabs(4).splitlines()


def _counted(launch: Launch, target: TargetOptions, cache: CacheOptions) -> tuple[LaunchResult, Sass]:
    with progress() as bar:
        task = bar.add_task(f"simulating {launch_name(launch)}", total=1)
        result = launch.run("sim", arch=target.architecture, hazards=False, cache=_cache(cache))
        sass = disassemble(result.launched.compiled)
        bar.advance(task)
    return result, sass


def _diagnosed(launch: Launch, target: TargetOptions, cache: CacheOptions) -> tuple[Diagnosis, Sass]:
    result, sass = _counted(launch, target, cache)
    if not sass.instructions:
        raise UsageError(f"{result.launched.file} is PTX: without machine code its occupancy is not known",
                         "gemmsmith profile counts what it does")  # fmt: skip
    words = launch.arguments
    values = words.values() if words is not None else launch.args
    assert not isinstance(values, str)
    arguments = match_arguments(result.launched, values)
    nbytes = sum(host.values.nbytes for argument in arguments for host in argument.arrays)
    return diagnose_launch(launch_profile(result, sass), sass, target.model, nbytes), sass


def _print_diagnosis(launch: Launch, found: Diagnosis, check: QuickCheck) -> None:
    say(f"{launch_name(launch)} on {found.case.gpu.name}, {geometry_line(launch.geometry)}", "bold")
    print_quick_check(launch_name(launch), check)
    for sentence in found.sentences:
        say(sentence)
    print_findings(found.findings, check)
    say()
    say(MODEL, "dim")
    say()


def _cache(options: CacheOptions) -> CompileCache | None:
    return CompileCache(options.cache_dir) if options.cache_dir is not None else None


def _occupancy(profile: Profile, target: TargetOptions) -> Any:
    used, geometry = profile.resources, profile.geometry
    return occupancy(target.model, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip


def _occupancy_json(profile: Profile, target: TargetOptions) -> dict[str, Any]:
    if not profile.resources.registers:
        return {"gpu": target.model.name, "origin": "unknown", "why": "PTX has no machine code"}
    found = _occupancy(profile, target)
    return {"gpu": found.gpu, "origin": "predicted", "blocks_per_sm": found.blocks_per_sm,
            "warps_per_sm": found.warps_per_sm, "fraction": found.fraction, "limiters": list(found.limiters),
            "why": found.why}  # fmt: skip


def _one_or_all(word: str, made: list[dict[str, Any]], summary: dict[str, Any]) -> dict[str, Any]:
    """The object of the one launch of a .cu file; all of a Python file."""
    return summary | {"launches": made} if describes_launches(word) else made[0]


def _next(word: str, options: KernelOptions, given: ArgumentOptions, launch: Launch, count: int) -> str:
    """The command that a passing check leads to."""
    follows = "profile" if word.endswith(SUFFIX) else "explain"
    return _command(follows, word, [*option_words(options, _shown(given))], launch, count)


def _shown(given: ArgumentOptions) -> ArgumentOptions:
    return ArgumentOptions(args=given.args, cooperative=given.cooperative, cluster=given.cluster)


def _command(command: str, word: str, options: list[str], launch: Launch, count: int) -> str:
    """A command for one launch; a Python file says itself what is launched."""
    if describes_launches(word):
        name = launch_name(launch)
        return command_line(command, word if ":" in word or count == 1 else f"{word}:{name}", [])
    return command_line(command, word, options)
