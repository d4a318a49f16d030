"""Every command: its name, its module, and its line in ``gemmsmith --help``. Light to import."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandEntry:
    """A command whose module is imported when it is called; ``summary`` begins the docstring of its function."""

    name: str
    panel: str
    summary: str

    @property
    def module(self) -> str:
        return f"gemmsmith.cli.commands.{'list_' if self.name == 'list' else self.name}"


_LADDER, _VERIFY, _EXPLAIN, _MEASURE = "Ladder", "Verify", "Explain", "Measure"
COMMANDS = {
    entry.name: entry
    for entry in (
        CommandEntry("list", _LADDER, "List the rungs of the ladder, from the naive kernel up."),
        CommandEntry("show", _LADDER, "Show a kernel: its idea, parameters and resources, or its source, PTX or SASS."),
        CommandEntry("climb", _LADDER, "Climb the ladder: verify every rung, count what it does, time it on a GPU."),
        CommandEntry("report", _LADDER, "Write climb's page from recorded timings and simulated counts."),
        CommandEntry("learn", _LADDER, "Learn by mending kernels: ten tasks with goals, hints and grades."),
        CommandEntry(
            "worklogs",
            _LADDER,
            "Show published ladders beside ours, and run what they claim.",
        ),
        CommandEntry("check", _VERIFY, "Check your own kernels: compile them, simulate them under several schedules."),
        CommandEntry("run", _VERIFY, "Run a kernel once and verify the result."),
        CommandEntry("verify", _VERIFY, "Verify kernels at tile edges, with special values, scalars and strides."),
        CommandEntry("accuracy", _VERIFY, "Measure a kernel's rounding errors over kinds of data and K."),
        CommandEntry("explain", _EXPLAIN, "Say what bounds a kernel on a GPU, at which line, and what to change."),
        CommandEntry("profile", _EXPLAIN, "Count sectors, wavefronts, bank conflicts and instructions of a launch."),
        CommandEntry("view", _EXPLAIN, "Animate a launch: who computes what, accesses lane by lane, the k-loop."),
        CommandEntry("compare", _EXPLAIN, "Compare two kernels: resources, memory, instructions, main loop."),
        CommandEntry(
            "occupancy",
            _EXPLAIN,
            "Show how many blocks fit on an SM, what limits them, and the number of waves.",
        ),
        CommandEntry("sweep", _EXPLAIN, "Run a kernel over a grid of parameters and sizes."),
        CommandEntry("bench", _MEASURE, "Time kernels against baselines on this machine's GPU."),
        CommandEntry("tune", _MEASURE, "Find the fastest kernel and configuration for your shapes on this GPU."),
        CommandEntry("warm", _MEASURE, "Compile the kernels that your shapes or your model will need."),
        CommandEntry("timeline", _MEASURE, "Show where a program's time on the GPU went: CUDA calls, kernels, copies."),
        CommandEntry("history", _MEASURE, "List, show, compare, export and repair recorded measurements."),
        CommandEntry("doctor", "Setup", "Say what this machine has and lacks, and how to get it."),
    )
}
