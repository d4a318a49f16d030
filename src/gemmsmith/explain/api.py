"""``gemmsmith.profile`` and ``gemmsmith.compare``: what the commands count and predict, as objects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial

from gemmsmith.call.binding import aligned_code, needs_simulator
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain import comparison
from gemmsmith.explain.comparison import Comparison
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.sampling import affordable
from gemmsmith.explain.simulated_profile import Level, counted_alike, simulate
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.userfile.kernels.kernel_named import kernel_named

Kernel = str | os.PathLike[str]
Shape = tuple[int, int, int]
Values = Mapping[str, int | str]
_GPU = "H200"
_SIZE, _LARGE = 512, 4096  # as the commands have them
_BLOCKS, _DEPTH = 1, 128  # of each kind of block, and of K: as gemmsmith compare counts


def profile(
    kernel: Kernel, m: int = _SIZE, n: int = _SIZE, k: int = _SIZE, *, config: Values | None = None, entry: str = "",
    gpu: str = _GPU,
) -> Profile:  # fmt: skip
    """What one launch of a rung or of the kernel of a .cu file does, counted on the simulator.

    ``config`` are a rung's parameters, or a file's macros, and ``entry`` names the kernel of a file that has several.
    It is compiled for ``gpu``.
    """
    return _counted(kernel, (m, n, k), config, entry, gpu_named(gpu), quick=False)[0]


def compare(
    x: Kernel, y: Kernel, m: int = _LARGE, n: int = _LARGE, k: int = _LARGE, *, x_config: Values | None = None,
    y_config: Values | None = None, gpu: str = _GPU,
) -> Comparison:  # fmt: skip
    """Two kernels side by side on ``gpu``: counts are simulated, times predicted. Neither is checked."""
    model = gpu_named(gpu)
    named = ((x, x_config), (y, y_config))
    both = counted_alike([partial(_counted, kernel, (m, n, k), config, "", model, True) for kernel, config in named])
    return comparison.compare(both[0], both[1], model)


def _counted(
    kernel: Kernel, shape: Shape, config: Values | None, entry: str, gpu: GPU, quick: bool, level: Level = Level.AUTO
) -> tuple[Profile, Sass]:
    spec, values = kernel_named(kernel, config, entry)
    problem = spec.problem(*shape)
    if not spec.geometry(problem, values).blocks:
        raise UsageError(f"{problem} launches no block, so there is nothing to count", "give M and N of at least 1")
    needs_simulator(spec, problem, "gemmsmith profile --device gpu measures it on a GPU with ncu")
    fitted, seen = aligned_code(spec, values, problem)
    compiled = compile_for(spec, fitted, seen, f"sm_{gpu.arch}")
    sass = disassemble(compiled)
    blocks, depth = (_BLOCKS, _DEPTH) if quick else affordable(spec.geometry(problem, fitted), problem)
    return simulate(spec, fitted, problem, compiled, sample=blocks, depth=depth, sass=sass, level=level), sass
