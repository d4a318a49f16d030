"""Tasks of benchmarks/check_repositories.py: whether a kernel that is no product compiles, and can be simulated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gemmsmith.cli.tasks.files import seen
from gemmsmith.errors import GemmsmithError


def do_load(parameters: dict[str, Any], folder: Path) -> Any:
    """{"loaded": whether the simulator knows all of its instructions, "why": the error}."""
    from gemmsmith.call.any_kernel.kernel import compile_launch
    from gemmsmith.sim.device import SimDevice
    from gemmsmith.userfile.kernels.user_kernel import launched_name

    if "cwd" in parameters:
        os.chdir(parameters["cwd"])
    file = seen(parameters["file"], folder)
    try:
        name = launched_name(Path(file), parameters["entry"])
        SimDevice().load(compile_launch(file, name, {}, (), "sm_90").compiled)
    except GemmsmithError as error:
        return {"loaded": False, "why": f"{type(error).__name__}: {error.message}"}
    return {"loaded": True, "why": ""}
