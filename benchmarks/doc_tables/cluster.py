"""What tasks cost, the speed-up of a sweep, and the simulation on paper."""

from __future__ import annotations

from doc_tables.records import load, table


def overhead_table() -> str:
    """Milliseconds per task."""
    record = load("cluster_overhead.json")
    rows = [[name, f"{cost['wall_ms']:.2f}", f"{cost['driver_ms']:.2f}", f"{cost['start_s']:.1f}"]
            for name, cost in record["overhead"].items()]  # fmt: skip
    columns = ["where", "per task, ms", "of the driver's core, ms", "first task after, s"]
    return "\n".join([*table(columns, "lrrr", rows), "", _source(record)])


def speedup_table() -> str:
    """A simulated sweep on one and two workers."""
    record = load("cluster_overhead.json")
    runs, rows = record["sweep"]["runs"], []
    for where in ("processes", "ray"):
        one, two = runs[f"{where} 1"], runs[f"{where} 2"]
        rows.append([where, f"{one['seconds']:.1f}", f"{two['seconds']:.1f}", f"{one['seconds'] / two['seconds']:.2f}",
                     f"{one['core_seconds']:.1f}", f"{two['core_seconds']:.1f}", f"{two['busiest']:.1f}",
                     f"{two['core_seconds'] / two['busiest']:.2f}"])  # fmt: skip
    columns = ["where", "1 worker, s", "2 workers, s", "speed-up", "1 worker, s of a core", "2 workers, s of cores",
               "of the busier", "speed-up in core time"]  # fmt: skip
    note = (
        f"{record['sweep']['points']} points of a sweep of `padded` on the simulator, compiled beforehand, on workers "
        f"that were there; the better of two rounds. Other programs used the two cores meanwhile (load "
        f"{record['load'][0]}), so the clock says little: core time is what two idle cores would show."
    )
    return "\n".join([*table(columns, "lrrrrrrr", rows), "", note])


def paper_table() -> str:
    """Efficiency to 1,000 workers, on paper."""
    record = load("cluster_overhead.json")
    paper = record["paper"]
    workers = list(paper["rows"][0]["efficiency"])
    rows = [[f"{row['seconds']:g} s", *(f"{row['efficiency'][name]:.0%}" for name in workers),
             f"{row['workers_until_the_driver_is_full']:,}"] for row in paper["rows"]]  # fmt: skip
    columns = ["a task takes", *(f"{int(name):,}" for name in workers), "driver is full at"]
    note = (
        f"Share of the workers' time that is work, {paper['tasks_per_worker']} tasks per worker. The driver handles at "
        f"most {paper['most_tasks_per_second']:,} tasks a second; one look at 1,000 running tasks takes it "
        f"{paper['look_ms']:.1f} ms."
    )
    return "\n".join([*table(columns, "l" + "r" * (len(workers) + 1), rows), "", note])


def _source(record: dict[str, object]) -> str:
    return (
        f"Tasks that do nothing, {record['tasks']} on one worker, the best of three rounds. Measured on "
        f"{record['machine']} (Python {record['python']}, Ray {record['ray']}, {record['date']}) by "
        f'`{record["command"]}`; "recorded" is with every result durable in the results database.'
    )
