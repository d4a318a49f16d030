"""Tasks of ``verify``: some cases of one kernel each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.tasks.files import seen, seen_options
from gemmsmith.cli.verify_run import KernelVerification, Part, VerifyAsked
from gemmsmith.cluster.codec import decode, encode


def do_verify(parameters: dict[str, Any], folder: Path) -> Any:
    """The verdicts on a part of a kernel's cases."""
    asked = decode(VerifyAsked, parameters["asked"])
    asked = replace(asked, options=seen_options(asked.options, folder))
    where = DeviceOptions("gpu" if parameters["on_gpu"] else "sim").open(asked.schedule)
    kernel = KernelVerification(seen(parameters["kernel"], folder), asked, where, CacheOptions())
    return encode(kernel.run(Part(**parameters["part"])))
