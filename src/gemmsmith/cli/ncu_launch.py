"""A launch of any kernel measured by ncu on this machine's GPU, for profile and compare."""

from __future__ import annotations

import os
from pathlib import Path

from gemmsmith.call.any_kernel.kernel import TEXT_NAME, is_text
from gemmsmith.call.launch import Launch
from gemmsmith.cli.launch_once import words_for
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.explain.launch_profile import NO_PRODUCT
from gemmsmith.explain.ncu import measure
from gemmsmith.explain.profile import Profile
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.cuda import cuda_device


def measured_launch(word: str, launch: Launch, options: KernelOptions, args: str, *, lines: bool = False) -> Profile:
    """Run the launch once under ncu, in a process of its own; ``lines`` also counts by source line."""
    kernel = launch.compile(cuda_device().arch)
    path = Path(TEXT_NAME) if is_text(launch.source) else Path(os.fspath(launch.source))
    spec = KernelSpec(kernel.name, path, kernel.name, "", lambda problem, config: launch.geometry, entry=kernel.name)  # noqa: ARG005
    words = words_for(word, options, args, launch.cooperative and bool(args), _cluster_words(launch) if args else "")
    return measure(spec, Config(()), NO_PRODUCT, kernel.compiled, words, lines=lines)


def _cluster_words(launch: Launch) -> str:
    cluster = launch.geometry.cluster
    return "" if cluster == (1, 1, 1) else ",".join(map(str, cluster))
