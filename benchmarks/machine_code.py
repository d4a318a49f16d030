"""Digests of the machine code of every preset: to show that a change of names and comments changes no instruction.

    python benchmarks/machine_code.py record benchmarks/results/machine_code.json
    python benchmarks/machine_code.py compare benchmarks/results/machine_code.json [--write]

``record`` compiles every preset of every rung, in each input type and a few layouts and epilogues, and the kernels of
prologues, for sm_90. It keeps a digest of the disassembled instructions without symbol names, their number, the
registers, and digests of the sources. ``compare`` compiles the present sources and compares: exit code 1 if any code
differs. With ``--write`` it adds the pairs of source digests with equal machine code to
src/gemmsmith/kernel/equal_sources.json, so that results measured with the earlier sources count as the same code.

Both need no GPU and take about fifteen minutes of one core; ``--only warp_tile,naive`` is for some rungs. ``record``
then keeps what the file has of others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from gemmsmith.bench.kernel_contender import source_digest
from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.toolchain import find_nvdisasm, find_toolchain
from gemmsmith.kernel.equal_sources import equal_sources
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import DTYPES, FP32, Problem
from gemmsmith.prologue.align_copy import ALIGN_COPY
from gemmsmith.prologue.split_bf16 import SPLIT_BF16
from gemmsmith.prologue.split_fp16 import SPLIT_FP16, SPLIT_FP16_CLUSTER
from gemmsmith.prologue.transpose import TRANSPOSE
from gemmsmith.prologue.zero_workspace import ZERO_WORKSPACE

ARCH = "sm_90"
PROLOGUE = {spec.name: spec for spec in (ALIGN_COPY, SPLIT_BF16, SPLIT_FP16, SPLIT_FP16_CLUSTER, TRANSPOSE,
                                         ZERO_WORKSPACE)}  # fmt: skip
EQUAL_SOURCES = Path(__file__).parents[1] / "src" / "gemmsmith" / "kernel" / "equal_sources.json"


@dataclass(frozen=True)
class Code:
    """The machine code of one kernel. ``sources``: digests of the source as it is measured, and as it is tuned."""

    instructions: str
    count: int
    registers: int
    sources: tuple[str, ...] = ()


def keys() -> Iterator[str]:
    """What is compiled: 'warp_tile/64x64-8x4/fp32>fp32/NN//', rung, preset, types, layout, bias, activation."""
    for spec in rungs():
        for preset in spec.presets:
            for dtype in spec.dtypes:
                out = FP32 if FP32 in spec.out_dtypes else spec.out_dtypes[0]
                kinds = [(out, "NN", "", "")]
                if len(spec.layouts) > 1:
                    kinds += [(dtype if dtype in spec.out_dtypes else out, "NT", "", ""), (out, "TN", "", "")]
                if spec.epilogue:
                    kinds.append((out, "NN", "column", "gelu"))
                for to, layout, bias, activation in kinds:
                    yield f"{spec.name}/{preset.name}/{dtype.name}>{to.name}/{layout}/{bias}/{activation}"
    yield from (f"prologue/{name}" for name in PROLOGUE)


def code_of(key: str) -> Code:
    """Compile what ``key`` names."""
    name, rest = key.split("/", 1)
    if name == "prologue":
        spec = PROLOGUE[rest]
        return _code(compile_for(spec, spec.config(), Problem(1, 1, 1, spec.dtypes[0], spec.out_dtypes[0]), ARCH))
    preset, types, layout, bias, activation = rest.split("/")
    spec, (dtype, out) = rung_named(name), types.split(">")
    problem = Problem(1024, 1024, 1024, DTYPES[dtype], DTYPES[out], trans_a=layout[0] == "T", trans_b=layout[1] == "T",
                      bias=bias, activation=activation)  # fmt: skip
    given = spec.config(preset=preset)
    config, seen = aligned_code(spec, given, problem)
    digests = tuple(source_digest(spec, each, problem, ARCH) for each in dict.fromkeys((config, given)))
    return _code(compile_for(spec, config, seen, ARCH), digests)


def _code(compiled: CompiledKernel, sources: tuple[str, ...] = ()) -> Code:
    rows = _instructions(compiled)
    digest = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
    return Code(digest, len(rows), compiled.resources.registers, sources)


def _instructions(compiled: CompiledKernel) -> list[str]:
    """Disassembled instructions with their encoding and control bits; names of symbols are left out."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(compiled.cubin)
        command = [str(find_nvdisasm()), "--print-code", "-hex", str(cubin)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (row.strip() for row in text.splitlines())
    return [re.sub(r"`\([^)]*\)", "`()", row) for row in rows if row.startswith("/*")]


def compiled_codes(wanted: list[str], processes: int) -> dict[str, Code]:
    with ProcessPoolExecutor(processes) as pool:
        found = {}
        for key, code in zip(wanted, pool.map(code_of, wanted, chunksize=4), strict=True):
            found[key] = code
            print(f"\r{len(found)} of {len(wanted)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def record(path: Path, wanted: list[str], processes: int) -> int:
    toolchain = find_toolchain()
    head = {"compiler": toolchain.compiler, "build": toolchain.build, "arch": ARCH}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() and len(wanted) < len(list(keys())) else {}
    if before and {name: before[name] for name in head} != head:
        print(f"{path} was recorded with {before['compiler']} ({before['build']}), but this is {toolchain.compiler} "
              f"({toolchain.build}): record all rungs, or take another file", file=sys.stderr)  # fmt: skip
        return 1
    found = {key: asdict(code) for key, code in compiled_codes(wanted, processes).items()}
    write_record(path, {**head, "codes": merged(before.get("codes", {}), found)})
    return 0


def merged(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """``found``, and what ``before`` has of other rungs, in the order of ``keys``."""
    names = {key.split("/")[0] for key in found}
    codes = {key: code for key, code in before.items() if key.split("/")[0] not in names} | found
    return {key: codes[key] for key in keys() if key in codes}


def write_record(path: Path, data: dict[str, Any]) -> None:
    """One line a kernel."""
    rows = [f"  {json.dumps(key)}: {json.dumps(code)}" for key, code in data["codes"].items()]
    head = json.dumps({name: value for name, value in data.items() if name != "codes"}, indent=1)[:-2]
    path.write_text(f'{head},\n "codes": {{\n' + ",\n".join(rows) + "\n }\n}\n", encoding="utf-8")


def compare(path: Path, wanted: list[str], processes: int, write: bool) -> int:
    data = json.loads(path.read_text(encoding="utf-8"))
    before = {key: Code(**{**code, "sources": tuple(code["sources"])}) for key, code in data["codes"].items()}
    toolchain = find_toolchain()
    if [toolchain.compiler, toolchain.build] != [data["compiler"], data["build"]]:
        print(f"recorded with {data['compiler']} ({data['build']}), but this is {toolchain.compiler} "
              f"({toolchain.build}): other code may be the compiler's", file=sys.stderr)  # fmt: skip
    common = [key for key in wanted if key in before]
    now = compiled_codes(common, processes)
    different = [key for key in common if (before[key].instructions, before[key].registers) !=
                 (now[key].instructions, now[key].registers)]  # fmt: skip
    for key in different:
        print(f"different: {key}: {before[key].count} instructions, {before[key].registers} registers; now "
              f"{now[key].count}, {now[key].registers}")  # fmt: skip
    for key in sorted(set(wanted) - set(before)):
        print(f"not recorded: {key}")
    names = {key.split("/")[0] for key in wanted}
    for key in sorted(set(before) - set(wanted)):
        if key.split("/")[0] in names:
            print(f"recorded, but no longer there: {key}")
    print(f"{len(common) - len(different)} of {len(common)} kernels have the same machine code")
    if write:
        _write_pairs(before, now, set(different), toolchain.build)
    return 1 if different else 0


def _write_pairs(before: dict[str, Code], now: dict[str, Code], different: set[str], build: str) -> None:
    pairs = dict(equal_sources())
    for key, code in now.items():
        if key not in different:
            pairs |= {old: new for old, new in zip(before[key].sources, code.sources, strict=True) if old != new}
    text = json.dumps({"compiler": f"NVRTC {build}", "pairs": dict(sorted(pairs.items()))}, indent=1)
    EQUAL_SOURCES.write_text(text + "\n", encoding="utf-8")
    print(f"{len(pairs)} pairs in {EQUAL_SOURCES.name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--write", action="store_true", help="with compare: add pairs of equal sources")
    parser.add_argument("--only", default="", help="names of rungs, or 'prologue', separated by commas")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    names = set(filter(None, options.only.split(",")))
    wanted = [key for key in keys() if not names or key.split("/")[0] in names]
    run = partial(compare, write=options.write) if options.command == "compare" else record
    return run(options.file, wanted, options.processes)


if __name__ == "__main__":
    sys.exit(main())
