"""Generated kernels (tests/fuzz) on a GPU: their results, compute-sanitizer's reports, and what ``check`` says of them.

    PYTHONPATH=src python benchmarks/fuzz_on_gpu.py OUTPUT.json [--seeds 150] [--mutants 2] [--jobs 16]
    PYTHONPATH=src python benchmarks/fuzz_on_gpu.py RECORDED.json --again

Every seed gives a correct kernel and some mutants. Each is checked by gemmsmith (on the simulator), launched on random
data and compared with a product in float64, and run under memcheck, racecheck, synccheck and initcheck. The table says
where they agree; disagreements are listed with their reason.

``--again`` needs no GPU: what ``check`` did not see or not accept is checked by today's ``check``, and what the GPU and
compute-sanitizer gave stays as recorded. The file says which cases these are.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FUZZ = Path(__file__).parents[1] / "tests" / "fuzz"
sys.path.insert(0, str(FUZZ))

from cases import Case, cases_of  # noqa: E402
from generated.kernel import Generated  # noqa: E402

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
_CHUNK_S = 100
# A launch that never ends must not hold up the others: where memcheck ends a thread, those that it meets wait for ever.
_START_S, _CASE_S = 12, 1.5
_WRITE_EVERY_S = 5
_NAMED = re.compile(r"_fz(\d+)\b")
RIGHT, NOTHING = "right", "nothing"
# Why the GPU and compute-sanitizer do not see a fault, by its kind.
_UNSEEN = {
    "accumulator": "registers that were never set held zeros; no tool watches registers",
    "tail": "shared memory that was never set held finite numbers, times zero; initcheck watches global memory alone",
    "guard": "an access outside the matrix that stays inside its allocation, or whose value is multiplied by zero",
    "launch": "a block gets shared memory in larger units than the bytes that were asked for",
    "wait": "the copies arrived in time; racecheck does not watch cp.async",
}


@dataclass
class Seen:
    """What was found out about one case on the GPU."""

    result: str = ""
    tools: dict[str, str] = field(default_factory=dict)


def cases(first: int, seeds: int, mutants: int) -> list[Case]:
    return [case for seed in range(first, first + seeds) for case in cases_of(seed, mutants)]


# --- in a process of its own: launches


def launch_chunk(arguments: argparse.Namespace) -> int:
    """Launch the cases with these numbers; prints a line before and after each."""
    from launched import run_trial, trials

    from gemmsmith.call.any_kernel.kernel import compile_launch
    from gemmsmith.errors import GemmsmithError
    from gemmsmith.run.cuda import cuda_device
    from gemmsmith.userfile.kernels.user_kernel import launched_name

    known = cases(arguments.first, arguments.seeds, arguments.mutants)
    device = cuda_device()
    with tempfile.TemporaryDirectory() as folder:
        for number in map(int, arguments.launch.split(",")):
            print(f"\n@begin {number}", flush=True)
            kernel = known[number].generated()
            file = Path(folder) / f"{number}.cu"
            # compute-sanitizer's reports name the kernel, and so the case.
            file.write_text(kernel.text.replace(kernel.entry, f"{kernel.entry}_fz{number}"), encoding="utf-8")
            said = RIGHT
            try:
                name = launched_name(file, f"{kernel.entry}_fz{number}")
                loaded = device.load(compile_launch(str(file), name, {}, (), device.arch).compiled)
                for trial in trials(kernel.recipe, small=arguments.small):
                    if wrong := run_trial(device, loaded, kernel, trial, guards=not arguments.small):
                        said = f"{trial.name}: {wrong}"
                        break
            except GemmsmithError as error:
                said = f"fault: {error.message}"
            print(f"\n@end {number} {json.dumps(said)}", flush=True)
            if said.startswith("fault"):
                return 1  # the context may be lost
    return 0


def run_chunk(numbers: Sequence[int], tool: str, arguments: argparse.Namespace) -> dict[int, str]:
    """Run cases in child processes, a new one after each that ends early; what each gave, or compute-sanitizer said."""
    left, found = list(numbers), {}
    end = time.monotonic() + _CHUNK_S
    while left and time.monotonic() < end:
        command = [sys.executable, __file__, "--launch", ",".join(map(str, left)), "--first", str(arguments.first),
                   "--seeds", str(arguments.seeds), "--mutants", str(arguments.mutants)]  # fmt: skip
        if tool:
            sanitizer = ["compute-sanitizer", "--tool", tool, "--kernel-regex", "kernel_substring=_fz"]
            # Padding between allocations: what lies past one must not be another.
            sanitizer += ["--destroy-on-device-error", "kernel", "--padding", "8192"] if tool == "memcheck" else []
            command = [*sanitizer, *command, "--small"]
        try:
            limit = min(_CHUNK_S, _START_S + _CASE_S * len(left))
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
            said = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        begun = [int(n) for n in re.findall(r"@begin (\d+)", said)]
        ended = dict(re.findall(r"@end (\d+) (.*)", said))
        for number in begun:
            result = json.loads(ended[str(number)]) if str(number) in ended else "the process ended"
            found[number] = _reported(said, number) if tool else result
        if not begun:
            found |= dict.fromkeys(left[:1], f"could not run: {said[-200:]}")
            begun = left[:1]
        left = [number for number in left if number not in begun]
    return found | dict.fromkeys(left, "not run: out of time")


def _reported(said: str, number: int) -> str:
    """The first report of compute-sanitizer that names this case's kernel."""
    lines = said.splitlines()
    for i, line in enumerate(lines):
        if line.startswith("=========") and str(number) in _NAMED.findall(line):
            above = [
                other
                for other in lines[max(0, i - 3) : i + 1]
                if re.search(r"(?i)invalid|error|race|uninit|warning|hazard|barrier|misaligned", other)
            ]
            return (above[0] if above else line).strip("= ")[:160]
    return NOTHING


# --- gemmsmith's own opinion


def check_case(number: int, case: Case, folder: str) -> tuple[int, dict[str, Any]]:
    from fuzz import run_case

    found = run_case(case, Path(folder)).outcome
    return number, {"status": found.status, "layout": found.layout, "judged": found.judged,
                    "summary": found.summary[:240], "seconds": found.seconds}  # fmt: skip


def checked(
    known: Sequence[Case], jobs: int, folder: Path, seconds: float,
    came: Callable[[int, dict[str, Any]], None] = lambda *_: None,
) -> dict[int, dict[str, Any]]:  # fmt: skip
    """What ``check`` says of each case, as far as it is known after so many seconds; ``came`` is told at once."""
    end = time.monotonic() + seconds
    found: dict[int, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [pool.submit(check_case, n, case, str(folder)) for n, case in enumerate(known)]
        try:
            for future in as_completed(futures, None if seconds == math.inf else seconds):
                number, facts = future.result()
                found[number] = facts
                came(number, facts)
        except TimeoutError:
            print(f"{len(known) - len(found)} cases are not checked after {seconds:.0f} s", flush=True)
        left = [future for future in futures if not future.done()]
        if left and time.monotonic() >= end:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():  # these are this pool's own
                process.terminate()
    return found


# --- the table


def row(number: int, case: Case, facts: dict[str, Any], seen: Seen) -> dict[str, Any]:
    kernel = case.generated()
    kind = kernel.fault.kind if kernel.fault else ""
    reports = [
        tool for tool, said in seen.tools.items() if said != NOTHING and not said.startswith(("not run", "could"))
    ]
    wrong = seen.result != RIGHT and not seen.result.startswith(("not run", "could"))
    accepted = facts["status"] in ("right", "column_major", "whole_tiles", "square_only", "aligned_rows")
    caught = facts["judged"] == "true" if not kernel.innocent else not accepted
    agree = caught == (wrong or bool(reports))
    reason = "" if agree else _reason(kernel, kind, case.fault, facts, reports, wrong)
    if agree and facts["judged"] == "true":
        facts = {name: value for name, value in facts.items() if name != "summary"}
    return {"number": number, "seed": case.seed, "fault": case.fault, "kind": kind, "innocent": kernel.innocent,
            "check": facts, "gpu": seen.result, "sanitizer": {tool: seen.tools[tool] for tool in reports},
            "not_run": [tool for tool, said in seen.tools.items() if said.startswith(("not run", "could"))],
            "agree": agree, "reason": reason}  # fmt: skip


def _reason(kernel: Generated, kind: str, fault: str, facts: dict[str, Any], reports: list[str], wrong: bool) -> str:
    innocent, specialised = kernel.innocent, kernel.recipe.pipeline == "specialised"
    if facts["judged"] == "equivalent mutant":
        return "the mutant compiles to the same code; the report is on the kernel without the fault, too"
    if innocent:
        if kind == "harmless" and reports == ["synccheck"]:
            return "synccheck reports barriers of whole warps at two places, which PTX allows"
        if specialised and reports == ["racecheck"]:
            return "racecheck does not follow producers and consumers that bar.arrive and bar.sync order"
        return f"{', '.join(reports) or 'the result'} is against it" if wrong or reports else "check does not accept it"
    if facts["judged"] == "surviving mutant":
        return "check does not see it: " + fault
    if facts["judged"] == "mutant refused":
        return "check gives no verdict"
    if facts["status"] == "racy" and kind != "wait":
        return "a race that did not change the result on the GPU, and that racecheck does not report"
    return _UNSEEN.get(kind, "seen on the simulator alone")


def record(rows: list[dict[str, Any]], arguments: argparse.Namespace, seconds: float) -> dict[str, Any]:
    from gemmsmith import __version__
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    return {
        "what": "generated kernels: check, results on a GPU, and compute-sanitizer", "origin": "measured",
        "gpu": device.name, "driver_cuda": device.driver_version, "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/fuzz_on_gpu.py OUTPUT.json --first {arguments.first} --seeds {arguments.seeds} "
                   f"--mutants {arguments.mutants}",
        "seconds": round(seconds), "rows": rows,
    }  # fmt: skip


def check_again(file: Path, jobs: int) -> int:
    """Check the cases of a record whose verdict was not true, and write them into it."""
    data = json.loads(file.read_text(encoding="utf-8"))
    first, seeds, mutants = (int(n) for n in re.findall(r"--(?:first|seeds|mutants) (\d+)", data["command"]))
    known = cases(first, seeds, mutants)
    left = [number for number, old in enumerate(data["rows"]) if old["check"]["judged"] != "true"]
    numbers = [data["rows"][at]["number"] for at in left]
    with tempfile.TemporaryDirectory() as folder:
        facts = checked([known[number] for number in numbers], jobs, Path(folder), math.inf)
    for place, at in enumerate(left):
        old = data["rows"][at]
        tools = dict.fromkeys(TOOLS, NOTHING) | dict.fromkeys(old["not_run"], "not run") | old["sanitizer"]
        data["rows"][at] = row(old["number"], known[old["number"]], facts[place], Seen(old["gpu"], tools))
    data["checked_again"] = {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "numbers": numbers}
    file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print_table(data["rows"])
    return 0


def print_table(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        if not row["agree"] or row["check"]["judged"] not in ("true", "equivalent mutant"):
            said = f"{row['check']['status']} ({row['check']['judged']})"
            print(f"seed {row['seed']}, {row['fault'] or 'no fault'}: check {said}; "
                  f"GPU {row['gpu']}; {row['sanitizer'] or 'sanitizer silent'}; {row['reason']}")  # fmt: skip
    counts = Counter((row["innocent"], row["check"]["judged"], row["agree"]) for row in rows)
    for (innocent, judged, agree), number in sorted(counts.items()):
        print(
            f"{number:4} {'correct kernels' if innocent else 'mutants'}: {judged}, {'agree' if agree else 'DISAGREE'}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--mutants", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--check-seconds", type=float, default=600, help="cases that check has not reached are left out"
    )
    parser.add_argument("--again", action="store_true", help="check what had no true verdict once more; no GPU")
    parser.add_argument("--launch", default="", help=argparse.SUPPRESS)
    parser.add_argument("--small", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.launch:
        return launch_chunk(arguments)
    if arguments.again and arguments.output is not None:
        return check_again(arguments.output, arguments.jobs)
    if arguments.output is None or shutil.which("compute-sanitizer") is None:
        print("give an output file; compute-sanitizer must be on PATH", file=sys.stderr)
        return 3
    return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    """The GPU first, which takes the least time; then ``check``. A row is written soon after its case is checked: what
    is cut short leaves the rows until then, and ``cases`` says how many there should be."""
    start = time.monotonic()
    known = cases(arguments.first, arguments.seeds, arguments.mutants)
    seen = on_gpu(len(known), arguments, start)
    rows: dict[int, dict[str, Any]] = {}
    written = [0.0]

    def write() -> None:
        data = record([rows[n] for n in sorted(rows)], arguments, time.monotonic() - start)
        part = arguments.output.with_suffix(".part")
        part.write_text(json.dumps(data | {"cases": len(known)}, indent=1) + "\n", encoding="utf-8")
        part.replace(arguments.output)
        written[0] = time.monotonic()

    def came(number: int, facts: dict[str, Any]) -> None:
        rows[number] = row(number, known[number], facts, seen[number])
        if time.monotonic() - written[0] > _WRITE_EVERY_S:
            write()
            print(f"checked {len(rows)} of {len(known)}: {time.monotonic() - start:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        checked(known, arguments.jobs, Path(folder), arguments.check_seconds, came)
    write()
    print_table([rows[n] for n in sorted(rows)])
    return 0


def on_gpu(count: int, arguments: argparse.Namespace, start: float) -> list[Seen]:
    """Every case launched, plainly and under each tool."""
    seen = [Seen() for _ in range(count)]
    chunks = [[n for n in range(count) if n % arguments.jobs == i] for i in range(arguments.jobs)]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for tool in ("", *TOOLS):
            for found in pool.map(lambda chunk, tool=tool: run_chunk(chunk, tool, arguments), chunks):
                for number, said in found.items():
                    if tool:
                        seen[number].tools[tool] = said
                    else:
                        seen[number].result = said
            print(f"{tool or 'results'}: {time.monotonic() - start:.0f} s", flush=True)
    return seen


if __name__ == "__main__":
    sys.exit(main())
