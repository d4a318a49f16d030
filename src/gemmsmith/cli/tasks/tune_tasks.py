"""Tasks of ``tune``: one shape each, on one GPU. The tuning file's lines about it travel with the task and back."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from gemmsmith.bench.rig import cuda_rig
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.tune_plan import TuneOptions, tuned_problems, workshop_on
from gemmsmith.cluster.codec import decode, encode
from gemmsmith.run.cuda import cuda_device
from gemmsmith.tune.compile_ahead import CompilePool
from gemmsmith.tune.plan import Tuned, TuningPlan
from gemmsmith.tune.tuning import tune


@dataclass(frozen=True)
class TunedShape:
    """The result for a shape, and the lines that tuning added."""

    gpu: str
    tuned: Tuned
    notes: tuple[str, ...]
    lines: tuple[str, ...]


def do_tune(parameters: dict[str, Any], folder: Path) -> Any:  # noqa: ARG001
    """Tune one shape. Its steps are kept on this node until it is done: a candidate that ends the process is known
    when the task is tried again here."""
    problem = tuned_problems(decode(TuneOptions, parameters["asked"]))[parameters["problem"]]
    plan = decode(TuningPlan, parameters["plan"])
    file = TuningFile(_steps(parameters), any_order=parameters["fastest"])
    file.add_lines(parameters["known"])
    notes: list[str] = []
    device = cuda_device()
    with ExitStack() as stack:
        rig = stack.enter_context(cuda_rig(device, lambda _: None, notes.append))
        pool = stack.enter_context(CompilePool(device.arch))
        shop = workshop_on(device, rig, pool, Compiler(), not parameters["fastest"], plan.precision)
        (found,) = tune([problem], shop, file, plan)
    known = set(parameters["known"])
    lines = tuple(line for line in file.lines_of(shape_key(problem, plan.precision)) if line not in known)
    file.path.unlink(missing_ok=True)
    return encode(TunedShape(device.name, found, tuple(notes), lines))


def _steps(parameters: dict[str, Any]) -> Path:
    what = {name: value for name, value in parameters.items() if name != "known"}
    name = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]
    return Path(platformdirs.user_cache_dir("gemmsmith")) / "tune-tasks" / f"{name}.jsonl"
