"""Check random kernels for a while: every correct one must pass, every mutant must be caught or proven equivalent.

    python tests/fuzz/fuzz.py --seconds 60                 new seeds, from the clock
    python tests/fuzz/fuzz.py --first 1000 --count 20      these seeds
    python tests/fuzz/fuzz.py --show 1007                  print a seed's kernel and the faults that it offers
    python tests/fuzz/fuzz.py --show 1007 --fault NAME     print a mutant

A failure's file, its shrunk form and a line for seeds.toml are written to build/fuzz/. Exit code 1 if there was one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from cases import Case, cases_of
from equivalence import same_code
from generated.draw import draw
from generated.kernel import generate
from outcome import NOT_JUDGED, SURVIVED, TRUE, Outcome, outcome
from shrink import shrink

_AS_USER = 25  # one case in so many is checked by a process of its own
EQUIVALENT = "equivalent mutant"


@dataclass(frozen=True)
class Result:
    case: Case
    outcome: Outcome

    @property
    def failed(self) -> bool:
        return self.outcome.failed


def run_case(case: Case, folder: Path, *, as_user: bool = False) -> Result:
    """Check one kernel; a mutant that survives is compared with its original."""
    found = outcome(case.generated(), folder / f"{case.name}.cu", as_user=as_user)
    if found.judged == SURVIVED and same_code(case, folder):
        found = replace(found, judged=EQUIVALENT)
    return Result(case, found)


def numbered(first: int, mutants: int) -> Iterator[tuple[int, Case]]:
    seed = first
    number = 0
    while True:
        for case in cases_of(seed, mutants):
            yield number, case
            number += 1
        seed += 1


def campaign(options: argparse.Namespace, folder: Path) -> list[Result]:
    """Keep ``jobs`` processes busy until the time is over or all seeds are done."""
    first = options.first if options.first is not None else int(time.time())
    end = time.monotonic() + options.seconds
    print(f"seeds from {first} on, {options.jobs} at a time", flush=True)
    queue = numbered(first, options.mutants)
    results: list[Result] = []
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        more = True
        while more or running:
            while more and len(running) < options.jobs:
                number, case = next(queue)
                more = time.monotonic() < end and (not options.count or case.seed < first + options.count)
                if more:
                    running.add(pool.submit(run_case, case, folder, as_user=number % _AS_USER == _AS_USER - 1))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                results.append(future.result())
                _tell(results[-1])
    return results


def _tell(result: Result) -> None:
    if result.failed:
        case, found = result.case, result.outcome
        meant = f"{case.recipe.status}, {case.recipe.layout}"
        what = f"seed {case.seed}, {case.fault or 'no fault'}"
        said = f"check says {found.status}, {found.layout} (the kernel without a fault: {meant})"
        print(f"{found.judged}: {what}: {said}\n  {found.summary}", flush=True)


def summary(results: list[Result]) -> str:
    correct = [result for result in results if result.case.generated().innocent]
    mutants = [result for result in results if not result.case.generated().innocent]
    told = Counter(result.outcome.judged for result in results if result.failed)
    caught, same, refused = (sum(result.outcome.judged == judged for result in mutants)
                             for judged in (TRUE, EQUIVALENT, NOT_JUDGED))  # fmt: skip
    seconds = sum(result.outcome.seconds for result in results)
    lines = [f"{len(correct)} correct kernels and {len(mutants)} mutants in {seconds:.0f} s of checking: "
             f"{sum(not r.failed for r in correct)} accepted, {caught} caught, {same} proven equivalent, "
             f"{refused} refused"]  # fmt: skip
    return "\n".join([*lines, *(f"  {number} × {judged}" for judged, number in told.items())])


def write_failures(results: list[Result], folder: Path, shrink_s: float) -> None:
    """Shrink each failure, and write what seeds.toml needs."""
    end = time.monotonic() + shrink_s
    for result in (result for result in results if result.failed):
        case, judged = result.case, result.outcome.judged

        def fails(other: Case, judged: str = judged) -> bool:
            return time.monotonic() < end and run_case(other, folder).outcome.judged == judged

        small = shrink(case, fails)
        file = folder / f"failure-{case.name}.cu"
        file.write_text(
            f"// {judged}: {result.outcome.summary}\n// {small.toml()}\n{small.generated().text}", encoding="utf-8"
        )
        print(f"{file}\n  {small.toml()}", flush=True)


def show(seed: int, fault: str) -> None:
    kernel = generate(draw(seed), fault)
    print(kernel.text)
    print("// faults: " + "; ".join(f"{f.name} ({f.kind})" for f in kernel.faults))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, help="the first seed")
    parser.add_argument("--count", type=int, default=0, help="how many seeds; 0: until the time is over")
    parser.add_argument("--mutants", type=int, default=3, help="mutants of each kernel")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--shrink-seconds", type=float, default=120, help="0: failures are written as they are")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--fault", default="")
    options = parser.parse_args()
    if options.show is not None:
        show(options.show, options.fault)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.count:
        options.seconds = max(options.seconds, 1e9)
    results = campaign(options, options.folder)
    write_failures(results, options.folder, options.shrink_seconds)
    print(summary(results))
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
