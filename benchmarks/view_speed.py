"""How long recording a block takes, and how long the views take to draw a frame.

    python benchmarks/view_speed.py [OUTPUT.json] [--rung NAME …]      (frames need Chromium and playwright)

Records one block of every rung at 256×256×256 on one core, in CPU seconds and without compiling. Then times the
scripting of a frame of each view of a kernel with blocks of 256 threads, in CPU milliseconds: the median and the
longest of 40 frames, each of another step.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from gemmsmith import __version__
from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.source_text import source_lines
from gemmsmith.explain.timing.cycles import BlockCycles
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rungs
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import write_view
from gemmsmith.report.view.registry import built
from gemmsmith.report.view.timed import cycles_of
from gemmsmith.trace.launch_trace import LaunchTrace
from gemmsmith.trace.recording.record import record_product

SIZE, FRAMES = 256, 40
DRAWN = "vectorized"  # blocks of 256 threads
# One frame: the player is moved to another step, and all drawing happens within the event.
FRAME = """([n, count]) => {
  const scrub = document.querySelector('.scrub');
  scrub.value = String(Math.round(Number(scrub.max) * n / count));
  scrub.dispatchEvent(new Event('input'));
}"""


def recorded(spec: KernelSpec) -> tuple[LaunchTrace, float]:
    """A rung's trace and the seconds that recording it took."""
    problem = spec.problem(SIZE, SIZE, SIZE)
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compile_for(spec, config, seen, "sm_90")
    start = time.process_time()
    trace = record_product(spec, config, problem, compiled, title=spec.name,
                           text_of=lambda file: "\n".join(source_lines(spec, file)))  # fmt: skip
    return trace, time.process_time() - start


def timed(spec: KernelSpec, trace: LaunchTrace) -> BlockCycles | None:
    """When the block does what, by the time model: the k-loop is drawn on its cycles."""
    problem = spec.problem(SIZE, SIZE, SIZE)
    config, _ = aligned_code(spec, spec.config(), problem)
    return cycles_of(spec, config, problem, gpu_named("H200"), trace)


def frames(trace: LaunchTrace, cycles: BlockCycles | None) -> dict[str, Any]:
    """Milliseconds of scripting a frame, by view; empty where there is no browser."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        return {}
    from playwright.sync_api import sync_playwright

    subject = ViewSubject(trace, cycles=cycles)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        page = write_view(Path(folder) / "view.html", subject)
        running = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = running.new_page(viewport={"width": 1280, "height": 900})
        shown.goto(page.as_uri())
        found: dict[str, Any] = {"browser": f"Chromium {running.version}", "page_bytes": page.stat().st_size}
        session = shown.context.new_cdp_session(shown)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        for name in built(subject):
            times = sorted(_frames(shown, session, name))
            found[name] = {"median_ms": round(times[len(times) // 2], 2), "longest_ms": round(times[-1], 2)}
        running.close()
    return found


def _frames(shown: Any, session: Any, name: str) -> list[float]:
    """Milliseconds of CPU time that the page's scripts take for each frame."""

    def spent() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(float(each["value"]) for each in metrics if each["name"] == "ScriptDuration")

    shown.evaluate("name => { location.hash = name + ':1'; }", name)
    shown.wait_for_timeout(200)
    times = []
    for n in range(FRAMES):
        before = spent()
        shown.evaluate(FRAME, [n, FRAMES])
        times.append(1000 * (spent() - before))
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", nargs="?", type=Path, help="JSON file to write")
    parser.add_argument("--rung", action="append", default=[], help="only this rung; may be repeated")
    asked = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    seconds, drawn = {}, {}
    for spec in rungs():
        if asked.rung and spec.name not in asked.rung:
            continue
        trace, seconds[spec.name] = recorded(spec)
        print(f"{spec.name:24} {seconds[spec.name]:6.2f} s", flush=True)
        if spec.name == DRAWN:
            drawn = {"kernel": DRAWN, "threads": trace.threads, **frames(trace, timed(spec, trace))}
    record: dict[str, Any] = {
        "what": f"recording one block of each rung at {SIZE}x{SIZE}x{SIZE} on one core, and scripting of a frame",
        "origin": "measured", "machine": platform.machine(), "python": platform.python_version(),
        "gemmsmith": __version__, "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/view_speed.py",
        "recording_seconds": {name: round(value, 2) for name, value in seconds.items()}, "frames": drawn,
    }  # fmt: skip
    print(json.dumps(drawn, indent=1))
    if asked.output is not None:
        asked.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
