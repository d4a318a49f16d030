"""A kernel measured by ncu on this machine's GPU, for profile and compare."""

from __future__ import annotations

import shutil

from gemmsmith.cli.options.device import DeviceOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.subject import Subject
from gemmsmith.explain.ncu import find_ncu, measure
from gemmsmith.explain.profile import Profile
from gemmsmith.run.cuda import cuda_device, gpu_available


def measured_on(device: DeviceOptions) -> bool:
    """Whether to profile on the GPU. 'auto' does where there are a GPU and ncu; for 'gpu' both must be there."""
    if device.device == "gpu":
        cuda_device()
        find_ncu()
    return device.device == "gpu" or (device.device == "auto" and shutil.which("ncu") is not None and gpu_available())


def measured(subject: Subject, *, lines: bool = False) -> Profile:
    """Run the kernel once under ncu, in a process of its own; ``lines`` also counts by source line."""
    problem = subject.problem
    words = ["-m", "gemmsmith", "run", subject.name, "--device", "gpu", "--dtype", problem.dtype.name,
             "--m", str(problem.m), "--n", str(problem.n), "--k", str(problem.k)]  # fmt: skip
    return measure(subject.spec, subject.config, problem, subject.compiled, words + option_words(subject.options),
                   lines=lines)  # fmt: skip
