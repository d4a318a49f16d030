"""gemmsmith warm: compile ahead what shapes or a model will need, so that no call waits for the compiler."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith.cli.names import gpu_from, shapes_from
from gemmsmith.cli.options.device import DEFAULT_GPU, CacheOptions
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem, dtype_named

_LAYOUTS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class WarmOptions(OptionGroup):
    """What will be multiplied."""

    panel: ClassVar[str] = "Products"

    shapes: Annotated[str, typer.Option("--shapes", help="Shapes: MxNxK,… or the name of a suite.")] = ""
    model: Annotated[
        str,
        typer.Option("--model", help="module:factory, a function that returns a torch model and sample inputs for it."),
    ] = ""
    training: Annotated[bool, typer.Option("--training", help="With --model: the gradients' products too.")] = False
    dtype: Annotated[str, typer.Option("--dtype", help="Input types, comma-separated.")] = "bf16"
    layout: Annotated[str, typer.Option("--layout", help="NN, NT, TN or TT, comma-separated.")] = "NN,NT"
    first_calls: Annotated[
        bool, typer.Option("--first-calls", help="Also the kernels that first calls of any other shape run.")
    ] = False
    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output types, comma-separated. Default: the input type.")
    ] = ""


@dataclass(frozen=True)
class WhereOptions(OptionGroup):
    """For which GPU, and where to."""

    panel: ClassVar[str] = "Device"

    gpu: Annotated[
        str, typer.Option("--gpu", help=f"The GPU to compile for. Default: this machine's, or {DEFAULT_GPU}.")
    ] = ""
    into: Annotated[
        Path | None, typer.Option("--into", help="A folder of its own instead of the cache: for a wheel, or CI.")
    ] = None
    jobs: Annotated[int, typer.Option("--jobs", min=0, show_default="one per core, 16 at most", help="Processes.")] = 0


def command(asked: WarmOptions, where: WhereOptions, cache: CacheOptions, output: OutputOptions) -> None:
    """Compile the kernels that your shapes or your model will need.

    The kernels are those that calls will choose on the GPU; a machine without one can compile for it. Exits 1 if a
    kernel fails to compile.
    """
    from gemmsmith.tune.warm import first_call_jobs, warm, warm_jobs

    if (asked.shapes and asked.model) or not (asked.shapes or asked.model or asked.first_calls):
        raise UsageError("pass either --shapes or --model", "--shapes 4096x4096x4096, or --model my_module:make_model")
    gpu, name = _gpu(where.gpu)
    problems = _of_shapes(asked) if asked.shapes else _of_model(asked) if asked.model else []
    jobs = warm_jobs(problems, gpu, name)
    if asked.first_calls:
        jobs += first_call_jobs([dtype_named(word.strip()) for word in asked.dtype.split(",")])
    if not jobs:
        raise UsageError("there is nothing to compile", "the model has no linear layers of a type that is computed")
    started, failed, compiled = time.perf_counter(), [], 0
    with progress() as bar:
        task = bar.add_task(f"compiling for {gpu.name}", total=len(jobs))
        for done in warm(jobs, f"sm_{gpu.arch}", where.into or cache.cache_dir, where.jobs):
            bar.advance(task)
            compiled += done.compiled
            if done.error:
                failed.append((done.job.name, done.error))
    seconds = time.perf_counter() - started
    if output.json:
        print_json({"gpu": gpu.name, "products": len(problems), "kernels": len(jobs), "compiled": compiled,
                    "seconds": round(seconds, 3),
                    "failed": [{"kernel": kernel, "error": why} for kernel, why in failed],
                    "jobs": [{"kernel": job.name, "products": job.products} for job in jobs]})  # fmt: skip
    else:
        extra = sum(job.stands_in for job in jobs)
        also = f", first calls of others {extra}" if extra else ""
        kernels, products = len(jobs) - extra, len(problems)
        needed = (f"{products} product{'s need' if products != 1 else ' needs'} {kernels} kernel{'s' * (kernels != 1)} "
                  f"on {gpu.name}")  # fmt: skip
        say(f"{needed}{also}: {f'{compiled} compiled' if compiled else 'nothing to compile'}, {seconds:.1f} s")
        for kernel, why in failed:
            say(f"failed: {kernel}: {why}")
    if failed:
        raise typer.Exit(1)


def _gpu(asked: str) -> tuple[Any, str]:
    """The GPU in the table, and the name that its driver gives it."""
    from gemmsmith.choose.models import known_gpu
    from gemmsmith.run.cuda import cuda_device, gpu_available

    if not asked and gpu_available():
        device = cuda_device()
        known = known_gpu(device.name, device.sms)
        if known is not None:
            return known, device.name
    gpu = gpu_from(asked or DEFAULT_GPU)
    return gpu, f"NVIDIA {gpu.name}"


def _of_shapes(asked: WarmOptions) -> list[Problem]:
    layouts = [word.strip().upper() for word in asked.layout.split(",")]
    for word in layouts:
        if word not in _LAYOUTS:
            raise UsageError(f"unknown layout {word!r}", f"use one of {', '.join(_LAYOUTS)}")
    types = [dtype_named(word.strip()) for word in asked.dtype.split(",")]
    outputs = [dtype_named(word.strip()) for word in asked.out_dtype.split(",") if word]
    return [
        Problem(m, n, k, kind, out, trans_a=word[0] == "T", trans_b=word[1] == "T")
        for kind in types for out in (outputs or [kind]) for word in layouts for m, n, k in shapes_from(asked.shapes)
    ]  # fmt: skip


def _of_model(asked: WarmOptions) -> list[Problem]:
    from gemmsmith.frameworks import needed

    needed("torch")
    from gemmsmith.frameworks.torch.shapes_of_model import products_of

    module, _, factory = asked.model.partition(":")
    if not factory:
        raise UsageError(f"--model {asked.model} names no factory", "write module:factory, as in my_models:gpt2")
    sys.path.insert(0, "")  # modules of the current folder, as python -c finds them
    try:
        made = getattr(import_module(module), factory)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"--model {asked.model}: {error}", "write module:factory, as in my_models:gpt2") from None
    found = made()
    if not isinstance(found, tuple) or len(found) != 2:
        raise UsageError(f"{asked.model} returned a {type(found).__name__}", "return the model and its sample inputs")
    return products_of(*found, asked.training)
