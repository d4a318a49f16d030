"""Compile candidates in parallel processes: NVRTC needs seconds for each and uses one core.

The processes only fill the compile cache on disk, where this process finds the kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType

from gemmsmith.choose.candidates import Candidate
from gemmsmith.problem import Problem
from gemmsmith.tune.warm import compile_product, problem_fields, usable_cores

_MOST_PROCESSES = 16  # one core is left for the timing process


@dataclass
class CompilePool:
    """A context manager; processes start with the first candidates and end with it.

    folder   the compile cache's folder; None is the user's
    """

    arch: str
    folder: Path | None = None
    processes: int = field(default_factory=lambda: max(1, min(_MOST_PROCESSES, usable_cores() - 1)))
    _pool: ProcessPoolExecutor | None = None
    _jobs: dict[tuple[Problem, tuple[str, str]], Future[str]] = field(default_factory=dict)

    def __enter__(self) -> CompilePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def begin(self, problem: Problem, candidates: Sequence[Candidate]) -> None:
        """Queue candidates that will be needed later."""
        self._submit(problem, candidates)

    def is_compiled(self, problem: Problem, candidate: Candidate) -> bool:
        """Whether the candidate's job has ended, well or not."""
        job = self._jobs.get((problem, candidate.name))
        return job is not None and job.done()

    def __call__(self, problem: Problem, candidates: Sequence[Candidate]) -> Mapping[tuple[str, str], str]:
        """Compile candidates; returns the reason for each that fails, by name.

        If a process dies, the remaining candidates are compiled on demand in this process.
        """
        failures = {}
        for name, job in self._submit(problem, candidates).items():
            try:
                if why := job.result():
                    failures[name] = why
            except BrokenProcessPool:
                if self._pool is not None:
                    self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
                self._jobs.clear()
                break
        return failures

    def _submit(self, problem: Problem, candidates: Sequence[Candidate]) -> dict[tuple[str, str], Future[str]]:
        """The jobs of all candidates; starts those that are not running."""
        if not candidates:
            return {}
        if self._pool is None:
            # Spawned, not forked: a fork of a process that opened the GPU cannot use it, and may hang.
            self._pool = ProcessPoolExecutor(self.processes, get_context("spawn"))
        folder = str(self.folder) if self.folder is not None else ""
        fields = problem_fields(problem)
        found = {}
        for candidate in candidates:
            known = self._jobs.get((problem, candidate.name))
            if known is None:
                config = dict(candidate.config)
                known = self._pool.submit(compile_product, candidate.spec.name, config, fields, self.arch, folder)
                self._jobs[problem, candidate.name] = known
            found[candidate.name] = known
        return found
