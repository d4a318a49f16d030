"""Every mistake of the Hopper rungs under every schedule of the simulator, and the rungs without a mistake.

    PYTHONPATH=src python benchmarks/hopper_schedules.py benchmarks/results/hopper_schedules.json --jobs 16

Needs no GPU. Each pair is one launch with hazards on, in strict mode, as in tests/mutants/test_hopper_hazards.py. Pairs
are written as they finish, so a run that is cut short leaves what it has; ``--known`` goes on from there. A launch that
raises an exception is a row with "error": it is a failure, and is run again by ``--known``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mutants"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from hopper_catalogue import MISTAKES
from hopper_mistake import Mistake
from mutant import Mutant, Trial, words_of
from ptx_only import compile_to_ptx

from gemmsmith import __version__
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import NAMES, schedule_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

_SAID = 160  # characters of a report that are kept
# Rows on 16 bytes, then rows that need align_copy or copies by threads.
SHAPES = ((72, 136, 200), (70, 133, 131))
_LARGEST = 2048  # outputs in one direction: such launches come last, with those that start a block per SM


@dataclass(frozen=True)
class Clean:
    """A rung without a mistake. ``config`` changes the small configuration."""

    rung: str
    shape: tuple[int, int, int]
    config: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        changed = "".join(f" {key}={value}" for key, value in self.config)
        return f"{self.rung} {'x'.join(map(str, self.shape))}{changed}"


CLEAN = [Clean(spec.name, shape) for spec in rungs() if spec.arch_specific for shape in SHAPES]
CLEAN += [Clean("simt_best", shape, (("TRANSPOSED_COPY", 1),)) for shape in SHAPES]  # the prologue 'transpose'


def judged(spec: KernelSpec, trial: Trial, schedule: str, config: tuple[tuple[str, int], ...]) -> Verdict:
    device = SimDevice("sm_90a", schedule_named(schedule), hazards=True, strict=True)
    chosen = spec.config({**dict(spec.small), **dict(config)})
    return verify_launch(device, spec, chosen, trial.problem(spec), compile_fn=compile_to_ptx, fill="integers",
                         mode="exact")  # fmt: skip


def run(item: Mistake | Clean, schedule: str) -> dict[str, Any]:
    begun = time.process_time()
    if isinstance(item, Mistake):
        trial = Trial(item.shape, out_dtype=item.out_dtype, layout=item.layout)
        with tempfile.TemporaryDirectory() as folder:
            spec = Mutant(item.name, item.rung, item.name, item.edits, trial, "race").write(Path(folder))
            verdict = judged(spec, trial, schedule, item.config)
    else:
        out = "fp32" if rung_named(item.rung).dtypes[0].name == "fp32" else "fp16"
        verdict = judged(rung_named(item.rung), Trial(item.shape, out_dtype=out), schedule, item.config)
    said = words_of(verdict)
    return {
        "name": item.name, "rung": item.rung, "schedule": schedule, "alarm": not verdict.trusted,
        "seconds": round(time.process_time() - begun, 2), "said": said[:_SAID],
        **({"words": item.words, "by_name": item.is_named_in(said)} if isinstance(item, Mistake) else {}),
    }  # fmt: skip


def run_or_error(item: Mistake | Clean, schedule: str) -> dict[str, Any]:
    """A defect of the simulator must not cost the other pairs their results."""
    try:
        return run(item, schedule)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"
        return {
            "name": item.name, "rung": item.rung, "schedule": schedule, "alarm": False, "error": said[:_SAID],
            **({"words": item.words, "by_name": False} if isinstance(item, Mistake) else {}),
        }  # fmt: skip


def _pairs(known: set[tuple[str, str]]) -> list[tuple[Mistake | Clean, str]]:
    """Short launches first."""
    items: list[Mistake | Clean] = sorted([*CLEAN, *MISTAKES], key=lambda item: (_is_long(item), "fp32" in item.rung))
    return [(item, name) for item in items for name in NAMES if (item.name, name) not in known]


def _is_long(item: Mistake | Clean) -> bool:
    return max(item.shape[:2]) > _LARGEST or item.rung == "wgmma_stream_k"


def _record(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(rows, key=lambda row: (row["name"], row["schedule"]))
    return {
        "what": "mistakes of the Hopper rungs under every schedule of the simulator", "origin": "simulated",
        "gemmsmith": __version__, "date": datetime.date.today().isoformat(),
        "mistakes": [row for row in ordered if "words" in row],
        "without_a_mistake": [row for row in ordered if "words" not in row],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--known", type=Path, help="a recording whose pairs are not run again")
    parser.add_argument("--rung", action="append", default=[], help="only this rung; may be repeated")
    options = parser.parse_args()
    old = json.loads(options.known.read_text()) if options.known else {}
    rows: list[dict[str, Any]] = [*old.get("mistakes", []), *old.get("without_a_mistake", [])]
    rows = [row for row in rows if "error" not in row]
    missing = _pairs({(row["name"], row["schedule"]) for row in rows})
    pairs = [pair for pair in missing if not options.rung or pair[0].rung in options.rung]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        started = [pool.submit(run_or_error, item, name) for item, name in pairs]
        written = time.monotonic()
        for future in as_completed(started):
            rows.append(future.result())
            if time.monotonic() - written > 5:
                options.output.write_text(json.dumps(_record(rows), indent=1) + "\n", encoding="utf-8")
                written = time.monotonic()
    options.output.write_text(json.dumps(_record(rows), indent=1) + "\n", encoding="utf-8")
    return report(rows)


def report(rows: list[dict[str, Any]]) -> int:
    """Print what is not as it should be, and the exit status."""
    kinds = {
        "without an alarm": [row for row in rows if "words" in row and not row["alarm"] and "error" not in row],
        "not by name": [row for row in rows if "words" in row and row["alarm"] and not row["by_name"]],
        "false alarms": [row for row in rows if "words" not in row and row["alarm"]],
        "errors": [row for row in rows if "error" in row],
    }
    print(f"{len(rows)} launches")
    for kind, some in kinds.items():
        print(f"{kind}: {[row['name'] + ' under ' + row['schedule'] for row in some] or 'none'}")
    return 1 if any(kinds.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
