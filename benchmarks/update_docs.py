"""Write the tables, figures and shown output in README.md and docs/.

    python benchmarks/update_docs.py            rewrite everything between markers, and the generated files
    python benchmarks/update_docs.py --check    exit 1 if a table or file differs from its record

A block stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Tables come from ``benchmarks/results/``, so a
figure cannot differ from its record. Shown output comes from running the tool; ``--check`` leaves that to
``tests/docs``, which runs the same commands.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from doc_tables import (
    checks,
    choice,
    cluster,
    frameworks,
    ladder,
    machine_code,
    made_for,
    shapes,
    time_model,
    time_model_before,
    vectors,
    worklogs,
)
from doc_tables.records import ROOT, load
from doc_tables.shown import SHOWN, file_block

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
TABLES: dict[str, Callable[[], str]] = {
    "results": choice.readme_results,
    "ladder": ladder.ladder_table,
    "tensor rungs": ladder.tensor_table,
    "hopper": choice.hopper_table,
    "hopper means": choice.hopper_means,
    "fp32": choice.fp32_table,
    "fp32 means": choice.fp32_means,
    "accuracy": checks.accuracy_table,
    "simulator speed": checks.speed_table,
    "ncu agreement": checks.agreement_table,
    "mutants": checks.mutant_table,
    "fuzz": checks.fuzz_table,
    "gates": checks.gate_table,
    "models": frameworks.models_table,
    "host cost": frameworks.host_cost_table,
    "machine counts": machine_code.counts_table,
    "micro benchmarks": machine_code.micro_table,
    "time model summary": time_model.summary_table,
    "time model ladder": time_model.ladder_table,
    "time model others": time_model.others_table,
    "time model before": time_model_before.before_table,
    "time model public": time_model_before.public_table,
    "time model second": time_model_before.second_table,
    "time model third": time_model_before.third_table,
    "time model fourth": time_model_before.fourth_table,
    "time model fifth": time_model_before.fifth_table,
    "time model sixth": time_model_before.sixth_table,
    "time model seventh": time_model_before.seventh_table,
    "time model eighth": time_model_before.eighth_table,
    "time model ninth": time_model_before.ninth_table,
    "time model tenth": time_model_before.tenth_table,
    "time model public stalls": time_model_before.public_stalls_table,
    "time model steps": time_model.steps_text,
    "time model stalls": time_model.stalls_table,
    "untuned shapes": shapes.means_table,
    "tuned shapes": shapes.tuned_table,
    "untuned kinds": shapes.kinds_table,
    "untuned fp32": shapes.fp32_kinds_table,
    "vectors": vectors.means_table,
    "vectors by shape": vectors.shapes_table,
    "cluster overhead": cluster.overhead_table,
    "cluster speedup": cluster.speedup_table,
    "cluster on paper": cluster.paper_table,
    "worklogs": worklogs.ladders_table,
    "worklog claims": worklogs.claims_text,
    "shown kernel": lambda: file_block("tile.cu", "cuda"),
    "shown rung source": lambda: file_block("my_idea/29_my_idea.cu", "cuda"),
    "shown rung spec": lambda: file_block("my_idea/my_idea.py", "python"),
}
OUTPUT: dict[str, Callable[[], str]] = {name: shown.markdown for name, shown in SHOWN.items()}


def picture() -> str:
    """The ladder as an SVG, from its record."""
    from gemmsmith.gpus import gpu_named
    from gemmsmith.ladder.registry import rungs
    from gemmsmith.problem import Problem
    from gemmsmith.report.collect import ladder_config
    from gemmsmith.report.ladder_picture import ladder_picture
    from gemmsmith.report.report_model import Made, ReportModel, Rung
    from gemmsmith.store.run_file import run_from_json

    (run,) = (run_from_json(data) for data in load("h200_ladder.json")["runs"])
    timed = {measurement.identity.name for measurement in run.measurements}
    told = tuple(Rung(s.rung, s.name, s.summary, s.teaches, s.source.name, "", str(ladder_config(s)),
                      s.dtypes[0].name, tensor_cores=s.tensor_cores)
                 for s in rungs() if s.name in timed)  # fmt: skip
    made = Made(run.command, run.started, run.gemmsmith, run.machine)
    return ladder_picture(ReportModel(gpu_named("H200"), Problem(4096, 4096, 4096), told, made, recorded=(run,)))


def packaged() -> str:
    """The part of the ladder's record that the package ships: what the page shows."""
    from gemmsmith.store.recorded import as_text, reduced
    from gemmsmith.store.run_file import run_from_json

    (run,) = (run_from_json(data) for data in load("h200_ladder.json")["runs"])
    return as_text(reduced(run))


def packaged_choice() -> str:
    """What the page shows of gemmsmith.matmul's choice, from its two records."""
    from gemmsmith.store.tuned_choice import as_text, reduced

    return as_text(reduced(load("h200_hopper.json"), load("h200_fp32.json")))


# Files that are generated whole.
PACKAGED = ROOT / "src" / "gemmsmith" / "store" / "data"
WORKLOGS = ROOT / "src" / "gemmsmith" / "learn" / "worklogs" / "data"
MADE: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "ladder.svg": picture,
    ROOT / "docs" / "time-model.svg": time_model.picture,
    PACKAGED / "h200_ladder.json": packaged,
    PACKAGED / "h200_choice.json": packaged_choice,
    PACKAGED / "h200_time_model.json": time_model.packaged,
    PACKAGED / "h200_made_for.json": made_for.packaged,
    ROOT / "src" / "gemmsmith" / "sim" / "timing" / "errors.toml": time_model.error_ranges,
    WORKLOGS / "predicted.json": worklogs.packaged_predictions,
    WORKLOGS / "h200.json": worklogs.packaged_measurements,
}


def updated(text: str, blocks: Mapping[str, Callable[[], str]]) -> str:
    """The text with every known block written anew; an unknown name between markers is an error."""

    def written(found: re.Match[str]) -> str:
        name = found.group(2)
        if name not in TABLES and name not in OUTPUT:
            raise SystemExit(f"no table is called {name!r}")
        return f"{found.group(1)}{blocks[name]()}\n{found.group(3)}" if name in blocks else found.group(0)

    return re.sub(r"(<!-- begin ([\w ]+) -->\n).*?(<!-- end \2 -->)", written, text, flags=re.S)


def main() -> int:
    check = "--check" in sys.argv
    blocks = TABLES if check else {**TABLES, **OUTPUT}
    wanted = {page: updated(page.read_text(encoding="utf-8"), blocks) for page in PAGES}
    wanted |= {path: make() for path, make in MADE.items()}
    stale = [path for path, text in wanted.items()
             if not path.exists() or path.read_text(encoding="utf-8") != text]  # fmt: skip
    if check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"not what benchmarks/results/ says: {names}; run python benchmarks/update_docs.py")
        return 1
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
