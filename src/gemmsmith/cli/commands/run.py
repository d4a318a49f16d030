"""gemmsmith run: one launch, verified."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import typer
from rich.progress import Progress

from gemmsmith.choose.precision import check_promise
from gemmsmith.cli.estimate import Estimate, check_affordable, check_memory
from gemmsmith.cli.launch_report import hints, launch_facts, launch_line, repeat_words, scalar_notes
from gemmsmith.cli.options.device import DEFAULT_ARCH, CacheOptions, DeviceOptions
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelName, KernelOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.precision_options import AUTO, PrecisionOptions, check_auto_alone, input_type
from gemmsmith.cli.product_kernel import product_kernel
from gemmsmith.cli.render.output import item, print_json, progress, say, wrap
from gemmsmith.errors import UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import FP32, DType, Problem, dtype_named
from gemmsmith.sim.schedule import NAMES
from gemmsmith.verify.harness import affordable_mode, verify_launch
from gemmsmith.verify.leniency import is_lenient, verify_leniently
from gemmsmith.verify.verdict import Verdict

_SHAPE = ProblemOptions(256, 256, 256)
_WORTH_SAYING = 10.0  # seconds; a shorter run is over before its estimate is read


@dataclass(frozen=True)
class GemmOptions(OptionGroup):
    """The rest of C = alpha·op(A)·op(B) + beta·C: types, batch, epilogue, layout."""

    panel: ClassVar[str] = "Problem"

    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output type: fp32, fp16, bf16, int8 or int32, by input type.")
    ] = "fp32"
    batch: Annotated[int, typer.Option("--batch", help="Products in one launch.")] = 1
    share_a: Annotated[bool, typer.Option("--share-a", help="One A for the whole batch.")] = False
    share_b: Annotated[bool, typer.Option("--share-b", help="One B for the whole batch.")] = False
    bias: Annotated[str, typer.Option("--bias", help="Add a bias: row (one value per row) or column.")] = ""
    activation: Annotated[str, typer.Option("--activation", help="Apply relu, gelu or silu.")] = ""
    alpha: Annotated[float, typer.Option("--alpha", help="Factor of the product.")] = 1.0
    beta: Annotated[float, typer.Option("--beta", help="Factor of C; with 0, C is never read.")] = 0.0
    lda: Annotated[int, typer.Option("--lda", help="Elements from row to row of A; -1: no padding.")] = -1
    ldb: Annotated[int, typer.Option("--ldb", help="Elements from row to row of B; -1: no padding.")] = -1
    ldc: Annotated[int, typer.Option("--ldc", help="Elements from row to row of C; -1: no padding.")] = -1
    trans_a: Annotated[bool, typer.Option("--trans-a", help="A is stored transposed.")] = False
    trans_b: Annotated[bool, typer.Option("--trans-b", help="B is stored transposed.")] = False
    offsets: Annotated[str, typer.Option("--offsets", help="Elements to shift A, B, C off alignment: 1,0,3.")] = ""

    def problem(self, shape: ProblemOptions, dtype: DType, spec: KernelSpec | None = None) -> Problem:
        """The problem; what was not given is as ``spec``, a user's kernel, has it."""
        if spec is not None and not spec.is_rung:
            plain = GemmOptions()
            names = ("alpha", "beta", "lda", "ldb", "ldc", "trans_a", "trans_b", "batch", "bias", "activation")
            given = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(plain, name)}
            if self.out_dtype != plain.out_dtype:
                given["out_dtype"] = dtype_named(self.out_dtype)
            given |= {f"stride_{x}": 0 for x in "ab" if getattr(self, f"share_{x}")}
            return spec.problem(*shape.extents, dtype, **given)
        return Problem(
            *shape.extents, dtype=dtype, out_dtype=dtype_named(self.out_dtype), alpha=self.alpha, beta=self.beta,
            lda=self.lda, ldb=self.ldb, ldc=self.ldc, trans_a=self.trans_a, trans_b=self.trans_b, batch=self.batch,
            stride_a=0 if self.share_a else -1, stride_b=0 if self.share_b else -1, bias=self.bias,
            activation=self.activation,
        )  # fmt: skip


@dataclass(frozen=True)
class LaunchOptions(OptionGroup):
    """The data, the oracle, and the order of warps on the simulator."""

    panel: ClassVar[str] = "Verification"

    fill: Annotated[str, typer.Option("--fill", help="Values of the operands: normal, uniform, integers, …")] = ""
    mode: Annotated[str, typer.Option("--mode", help="Oracle: float, exact, bits, mod32 or projection.")] = ""
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random operands.")] = 0
    schedule: Annotated[
        str, typer.Option("--schedule", help=f"Order of warps on the simulator: {', '.join(NAMES)}.")
    ] = "lockstep"
    schedule_seed: Annotated[int, typer.Option("--schedule-seed", help="Seed of a random order; -1 takes --seed.")] = -1
    yes: Annotated[bool, typer.Option("--yes", help="Simulate even if it takes hours.")] = False

    @property
    def order(self) -> int:
        return self.seed if self.schedule_seed < 0 else self.schedule_seed


def command(
    kernel: KernelName,
    options: KernelOptions,
    shape: ProblemOptions = _SHAPE,
    *,
    gemm: GemmOptions,
    device: DeviceOptions,
    precision: PrecisionOptions,
    launch: LaunchOptions,
    checks: VerificationOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Run a kernel once and verify the result.

    Exits 1 if the result is wrong. The name auto is the kernel that matmul chooses.
    """
    if kernel == AUTO:
        check_auto_alone(options)
    found = product_kernel(kernel, options, cache.compiler, DEFAULT_ARCH) if kernel != AUTO else None
    if found is not None and not found[0].is_rung and gemm.activation:  # the user says what the kernel applies
        computed = replace(found[0].signature, activation=gemm.activation)
        found = replace(found[0], known_signature=computed), found[1]
    kind = input_type(shape.dtype, precision.precision, found[0].dtypes[0] if found is not None else FP32)
    problem = gemm.problem(shape, kind, found[0] if found is not None else None)
    offsets = parse_offsets(gemm.offsets)
    with progress() as bar:
        task = bar.add_task("compiling", total=None)

        def blocks_done(done: int, blocks: int) -> None:
            bar.update(task, description="simulating blocks", completed=done, total=blocks)

        where = device.open(launch.schedule, launch.order, mod32=launch.mode == "mod32", listener=blocks_done)
        if found is None:
            choice = precision.choose(problem, where)
            found = choice.spec, choice.config
        spec, config = found
        check_promise(spec, kind, precision.precision)
        check_accepts(spec, problem)
        device.check_runs(spec, problem)
        check_memory(problem)
        if where.kind == "sim":
            _announce(check_affordable(spec, config, problem, launch.yes), bar)
        user = replace(options.launch, defines=spec.extra_defines)
        words = repeat_words(user, device.device, checks, launch.schedule, launch.order)
        started = time.perf_counter()

        def judge(c: str) -> Verdict:
            return verify_launch(where, spec, config, problem, compile_fn=cache.compiler, fill=launch.fill or None,
                                 seed=launch.seed, offsets=offsets, mode=launch.mode or affordable_mode(problem), c=c,
                                 launch=words)  # fmt: skip

        verdict, note = verify_leniently(judge, is_lenient(spec, checks.c, checks.strict), checks.fill)
        seconds = time.perf_counter() - started
    facts = launch_facts(spec, config, problem, user)
    causes = hints(spec, facts, user, verdict)
    notes = scalar_notes(problem, gemm.alpha, gemm.beta) + ([note] if note else [])
    if output.json:
        print_json(verdict.to_json() | {"launch": facts, "hints": causes, "notes": notes, "seconds": round(seconds, 3)})
    else:
        _print(verdict, causes, notes, "" if spec.is_rung else launch_line(facts), seconds)
    if not verdict.trusted:
        raise typer.Exit(1)


def _print(verdict: Verdict, causes: list[str], notes: list[str], launched: str, seconds: float) -> None:
    for cause in causes:
        say(cause, "yellow")
    item(str(verdict), "green" if verdict.trusted else "red")
    for note in notes:
        say(note, "yellow")
    if launched:
        item(launched, "dim")
    say(f"{seconds:.2f} s to compile, run and verify", "dim")


def _announce(expected: Estimate, bar: Progress) -> None:
    if expected.seconds >= _WORTH_SAYING:
        bar.console.print(wrap(f"simulating takes {expected}", bar.console.width), style="dim", markup=False)


def parse_offsets(text: str) -> tuple[int, int, int]:
    """Three offsets in elements, for A, B and C."""
    if not text:
        return 0, 0, 0
    try:
        a, b, c = (int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--offsets {text!r} is not three integers", "write it as 1,0,3") from None
    return a, b, c
