"""gemmsmith run: one launch, verified."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import typer

from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.launch_report import (
    CText,
    Strict,
    c_fill,
    hints,
    is_lenient,
    launch_facts,
    launch_line,
    leniently,
    repeat_words,
    scalar_notes,
)
from gemmsmith.cli.options import (
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    DeviceName,
    Entry,
    Grid,
    Json,
    Kernel,
    PresetName,
    ScheduleName,
    Seed,
    SignatureText,
    Smem,
    find_device,
    find_kernel,
)
from gemmsmith.cli.precision_options import (
    AUTO,
    Deterministic,
    PrecisionName,
    check_nothing_set,
    chosen_for,
    input_type,
)
from gemmsmith.cli.render.output import console, print_json
from gemmsmith.errors import UsageError
from gemmsmith.problem import FP32, Problem, dtype_named
from gemmsmith.userfile.user_kernel import UserOptions
from gemmsmith.verify.harness import affordable_mode, verify_launch
from gemmsmith.verify.verdict import Verdict


def command(
    kernel: Kernel,
    m: Annotated[int, typer.Option("--m", help="Rows of C.")] = 256,
    n: Annotated[int, typer.Option("--n", help="Columns of C.")] = 256,
    k: Annotated[int, typer.Option("--k", help="Inner extent.")] = 256,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type: fp32, tf32, fp16, bf16 or int8.")] = "",
    out_dtype: Annotated[str, typer.Option("--out-dtype", help="Output type; fp32 where none is named.")] = "fp32",
    batch: Annotated[int, typer.Option("--batch", help="How many products, in one launch.")] = 1,
    share_a: Annotated[bool, typer.Option("--share-a", help="One A for the whole batch.")] = False,
    share_b: Annotated[bool, typer.Option("--share-b", help="One B for the whole batch.")] = False,
    bias: Annotated[str, typer.Option("--bias", help="A value for each 'row' or 'column' of C.")] = "",
    activation: Annotated[str, typer.Option("--activation", help="relu, gelu or silu of the result.")] = "",
    alpha: Annotated[float, typer.Option("--alpha", help="Factor of the product.")] = 1.0,
    beta: Annotated[float, typer.Option("--beta", help="Factor of C; 0 never reads C.")] = 0.0,
    lda: Annotated[int, typer.Option("--lda", help="Elements from row to row of A.")] = -1,
    ldb: Annotated[int, typer.Option("--ldb", help="Elements from row to row of B.")] = -1,
    ldc: Annotated[int, typer.Option("--ldc", help="Elements from row to row of C.")] = -1,
    trans_a: Annotated[bool, typer.Option("--trans-a", help="A is stored transposed.")] = False,
    trans_b: Annotated[bool, typer.Option("--trans-b", help="B is stored transposed.")] = False,
    offsets: Annotated[str, typer.Option("--offsets", help="Elements to shift A, B, C off alignment: 1,0,3.")] = "",
    fill: Annotated[str, typer.Option("--fill", help="What the operands hold: normal, uniform, integers, …")] = "",
    mode: Annotated[str, typer.Option("--mode", help="Oracle: float, exact, bits, mod32 or projection.")] = "",
    device: DeviceName = "auto",
    schedule: ScheduleName = "lockstep",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    precision: PrecisionName = "",
    deterministic: Deterministic = True,
    seed: Seed = 0,
    schedule_seed: Annotated[int, typer.Option("--schedule-seed", help="Seed of the order; -1 takes --seed.")] = -1,
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    c: CText = "",
    strict: Strict = False,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Run a kernel once and verify the result; exits 1 if it is wrong. 'auto' is the kernel that matmul chooses."""
    options = UserOptions(entry, grid, block, smem, signature)
    if kernel == AUTO:
        check_nothing_set(config, preset, define, options)
    found = find_kernel(kernel, config, preset, define, options) if kernel != AUTO else None
    kind = input_type(dtype, precision, found[0].dtypes[0] if found is not None else FP32)
    problem = Problem(m, n, k, dtype=kind, out_dtype=dtype_named(out_dtype), alpha=alpha, beta=beta, lda=lda, ldb=ldb,
                      ldc=ldc, trans_a=trans_a, trans_b=trans_b, batch=batch, stride_a=0 if share_a else -1,
                      stride_b=0 if share_b else -1, bias=bias, activation=activation)  # fmt: skip
    filled = c_fill(c)
    order = seed if schedule_seed < 0 else schedule_seed
    where = find_device(device, schedule, order, mod32=mode == "mod32")
    if found is None:
        choice = chosen_for(problem, where, precision, deterministic)
        found = choice.spec, choice.config
    spec, chosen = found
    check_promise(spec, kind, precision)
    options = replace(options, defines=spec.extra_defines)
    started = time.perf_counter()
    oracle = mode or affordable_mode(problem)
    shifts, words = parse_offsets(offsets), repeat_words(options, device, c, strict, schedule, order)

    def judge(c_holds: str) -> Verdict:
        return verify_launch(where, spec, chosen, problem, compile_fn=Compiler(cache_dir), fill=fill or None,
                             seed=seed, offsets=shifts, mode=oracle, c=c_holds, launch=words)  # fmt: skip

    verdict, read = leniently(judge, is_lenient(spec, c, strict), filled)
    seconds = time.perf_counter() - started
    facts = launch_facts(spec, chosen, problem, options)
    causes = hints(spec, facts, options, verdict)
    notes = scalar_notes(problem, alpha, beta) + ([read] if read else [])
    if json:
        print_json(verdict.to_json() | {"launch": facts, "hints": causes, "notes": notes, "seconds": round(seconds, 3)})
    else:
        out = console()
        for cause in causes:
            out.print(cause, markup=False, style="yellow")
        out.print(str(verdict), markup=False, style="green" if verdict.trusted else "red")
        for note in notes:
            out.print(note, markup=False, style="yellow")
        if not spec.is_rung:
            out.print(launch_line(facts), markup=False, style="dim")
        out.print(f"[dim]{seconds:.2f} s, compiling, running and verifying included[/dim]")
    if not verdict.trusted:
        raise typer.Exit(1)


def parse_offsets(text: str) -> tuple[int, int, int]:
    """Three offsets in elements, for A, B and C."""
    if not text:
        return 0, 0, 0
    try:
        a, b, c = (int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--offsets {text!r} is not three integers", "write it as 1,0,3") from None
    return a, b, c
