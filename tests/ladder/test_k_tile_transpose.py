"""simt_best with TRANSPOSED_COPY = 2: K-major operands transposed in registers; the bits are those of 4-byte copies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rung_launch import aligned, verified
from test_simt_best import checking, problem, small
from test_simt_transposed import FRESH, OFF, product

from gemmsmith.call.binding import specialized_config
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import ConfigError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.device import SimDevice

REGISTERS = {"TRANSPOSED_COPY": 2, "STAGES": 2}


def conflicts(device: SimDevice, name: str) -> int:
    """Wavefronts of an instruction beyond the fewest."""
    counters = device.counters
    assert counters is not None
    found = [c for operation, c in counters.items() if operation.profiled.sass == name]
    assert found
    return sum(c.wavefronts - c.groups for c in found)


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_ragged_edges(layout: str) -> None:
    """Rows start on 16 bytes, but K is no multiple of 4: the last chunk of a row is loaded in single numbers. Memory
    ends where a matrix does, so a read beyond it is seen, and nothing is launched before."""
    p = aligned(problem((33, 66, 21), layout, alpha=0.7, beta=-1.0))
    got, names = product(*small(**REGISTERS), p)
    assert len(names) == 1
    assert np.array_equal(got, product(*small(), p)[0]), "the bits of copies of 4 bytes"


@pytest.mark.parametrize("changes", [
    {}, {"BK": 16, "TEAMS": 2, "UNROLL": 2, "STAGES": 3}, {"BK": 32, "TEAMS": 4, "UNROLL": 2},
    {"BK": 64, "TEAMS": 8, "UNROLL": 2}, {"CLUSTER_K": 2},
], ids=str)  # fmt: skip
def test_no_races_and_no_bank_conflicts(changes: dict[str, int]) -> None:
    """Neither where chunks are stored nor where fragments are read."""
    device = checking("reversed")
    verified(*small(**REGISTERS | changes), problem((32, 64, 2 * changes.get("BK", 8) + 4), "NT"), device=device)
    assert conflicts(device, "LDS") == 0
    # The sums of teams and clusters are stored with an instruction of the same name.
    assert changes or conflicts(device, "STS") == 0


@pytest.mark.parametrize("layout", ["NN", "NT", "TT"])
def test_rows_that_start_on_8_bytes(layout: str) -> None:
    """Two loads for a chunk; K ends within one. The operand that is not K-major is copied by 4 bytes."""
    p = problem((33, 66, 22), layout, alpha=0.7, beta=-1.0)
    p = replace(p, lda=p.lda + p.lda % 2, ldb=p.ldb + p.ldb % 2)
    spec, config = small(**REGISTERS)
    assert specialized_config(spec, config, p, FRESH)["ALIGNED"] == 2
    got, names = product(spec, config, p)
    assert names == [f"simt_best {layout} 2"]
    assert np.array_equal(got, product(*small(), p)[0]), "the bits of copies of 4 bytes"
    verified(spec, config, p, offsets=(2, 6, 1))


def test_unaligned_operands_are_copied_by_4_bytes() -> None:
    spec, config = small(**REGISTERS)
    p = replace(problem((5, 9, 7)), lda=9)
    assert specialized_config(spec, config, p, FRESH)["ALIGNED"] == 0
    verified(spec, config, p, offsets=OFF)


def test_four_steps_are_unrolled_together() -> None:
    with pytest.raises(ConfigError, match="TRANSPOSED_COPY=2"):
        small(UNROLL=2, **REGISTERS)[0].check(small(UNROLL=2, **REGISTERS)[1])


def test_chunks_are_loaded_long_before_they_are_stored() -> None:
    """In the loop without guards, all fma of a k-tile but those of its last step lie between."""
    spec = rung_named("simt_best")
    config = spec.config({"BM": 64, "BN": 64, "BK": 32, "TEAMS": 4, "MIN_BLOCKS": 2, **REGISTERS})
    code = disassemble(compile_for(spec, config, problem((1024, 1024, 1024)), "sm_90")).instructions
    names = [i.base for i in code]
    stores = [n for n, name in enumerate(names) if name == "STS"]
    loads = [n for n, i in enumerate(code) if i.base == "LDG" and ".128" in i.opcode]
    distances = [min(later) - load for load in loads if (later := [n for n in stores if n > load])]
    assert max(distances) > 256
    used = compile_for(spec, config, problem((1024, 1024, 1024)), "sm_90").resources
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
