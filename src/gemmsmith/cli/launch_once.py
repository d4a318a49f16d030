"""Run one launch on the GPU, in a process of its own, for ncu: ``python -m gemmsmith.cli.launch_once WORD OPTIONS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gemmsmith.cli.error_output import report_error
from gemmsmith.cli.launch_files import one_launch
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.errors import GemmsmithError


def words_for(word: str, options: KernelOptions, args: str, cooperative: bool = False, cluster: str = "") -> list[str]:
    """The words after the interpreter's name that run the launch."""
    given = {"kernel": asdict(options), "args": args, "cooperative": cooperative, "cluster": cluster}
    return ["-m", "gemmsmith.cli.launch_once", word, json.dumps(given, default=str)]


def main(words: Sequence[str]) -> int:
    word, text = words
    given = json.loads(text)
    if folders := given["kernel"].get("include"):
        given["kernel"]["include"] = [Path(folder) for folder in folders]
    try:
        own = ArgumentOptions(args=given["args"], cooperative=given["cooperative"], cluster=given["cluster"])
        launch = one_launch(word, KernelOptions(**given["kernel"]), own)
        launch.run("gpu")
    except GemmsmithError as error:
        return report_error(error, as_json=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
