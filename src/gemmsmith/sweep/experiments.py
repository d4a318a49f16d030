"""The experiments that the worklogs behind the ladder ran, as data: one name each to repeat them.

Values that a rung refuses are left in where the worklog had them: a sweep lists them with the reason.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gemmsmith.errors import UsageError


@dataclass(frozen=True)
class Experiment:
    """A sweep with a name.

    fixed    parameters held beside what varies, as --config writes them
    vary     what varies, as --vary writes it
    shape    M×N×K, as --shapes writes it; empty takes the sweep's own
    shows    the quantity to look at first on the simulator; on a GPU it is TFLOPS
    see      what one sees, in a sentence or two
    """

    name: str
    asks: str
    kernel: str
    vary: tuple[str, ...]
    shows: str
    see: str
    fixed: str = ""
    shape: str = ""


EXPERIMENTS = (
    Experiment(
        name="thread-tile",
        asks="Which shape of a thread's tile feeds the arithmetic best?",
        kernel="rectangular",
        fixed="BM=128,BN=128,BK=32,UNROLL=2,MIN_BLOCKS=1",
        vary=("TM,TN=4x4,8x4,8x8,16x4,16x8,4x32,8x64,8x128,16x16",),
        shows="instructions_per_ffma",
        see="Larger tiles read less of shared memory for each multiplication, until their accumulators no longer fit "
        "into 255 registers: 16×16 and 8×64 spill, and local memory eats the gain. 8×128 is refused.",
    ),
    Experiment(
        name="unroll",
        asks="How many steps of k should a trip of the inner loop take?",
        kernel="rectangular",
        vary=("UNROLL=1,2,4,8,16",),
        shows="instructions_per_ffma",
        see="Up to four steps, A is read along k as float2 and float4 instead of float; beyond that only loop "
        "arithmetic is saved.",
    ),
    Experiment(
        name="registers",
        asks="What does it cost to press a kernel into fewer registers?",
        kernel="vectorized",
        vary=("MIN_BLOCKS=1,2,3,4,5,6,8",),
        shows="spill_bytes",
        see="Each further block that must fit on an SM lowers the cap on registers: occupancy rises in steps, and once "
        "64 accumulators and their operands no longer fit, so do the spills.",
    ),
    Experiment(
        name="padding",
        asks="Which shift of shared rows avoids bank conflicts?",
        kernel="padded",
        vary=("BK=8,16", "PAD=0,1,4,8"),
        shows="store_conflicts",
        see="PAD = 4 parts the banks of the scattered stores for BK = 8; PAD = 8 shifts them by a whole round, that "
        "is, not at all. PAD = 1 leaves rows unaligned, so that A is read one float at a time. For BK = 16 no "
        "shift of these frees every store.",
    ),
    Experiment(
        name="bk",
        asks="How deep should a slice be?",
        kernel="padded",
        vary=("BK=8,16,32",),
        shows="barriers_per_kffma",
        see="Each doubling halves the barriers and doubles shared memory; traffic and arithmetic stay the same.",
    ),
    Experiment(
        name="load-width",
        asks="What do float2 and float4 save over float?",
        kernel="vectorized",
        vary=("VEC=1,2,4",),
        shows="global_requests_per_kffma",
        see="The bytes stay the same; requests to global memory fall to a half and a quarter.",
    ),
    Experiment(
        name="sizes",
        asks="How large must a matrix be to fill the GPU?",
        kernel="warp_tile",
        vary=("SIZE=64,128,256,512,1024,2048,4096,8192,16384",),
        shows="wave_efficiency",
        see="Small sizes launch fewer blocks than the GPU has room for; from some size on only the last wave is not "
        "full. What a multiplication costs stays the same.",
    ),
    Experiment(
        name="occupancy-registers",
        asks="How does occupancy fall with registers a thread?",
        kernel="register_block",
        vary=("registers=16,24,32,40,48,56,64,72,80,96,112,128,152,168,192,224,255",),
        shows="occupancy",
        see="Steps, not a slope: a whole block fits or it does not.",
    ),
    Experiment(
        name="occupancy-smem",
        asks="How does occupancy fall with shared memory a block?",
        kernel="register_block",
        vary=("smem=0,8192,16384,24576,32768,49152,65536,98304,131072,163840,196608,232448",),
        shows="occupancy",
        see="Registers set the ceiling; shared memory lowers it from the size on at which fewer blocks find room.",
    ),
    Experiment(
        name="occupancy-threads",
        asks="How does occupancy depend on threads a block?",
        kernel="register_block",
        vary=("threads=32,64,96,128,160,192,256,320,384,512,640,768,1024",),
        shows="occupancy",
        see="Large blocks leave a rest that no further block fits into; very large ones do not fit at all.",
    ),
    Experiment(
        name="tail-waves",
        asks="What does a last wave cost that is nearly empty?",
        kernel="warp_tile",
        shape="4096x4096x1024",
        vary=("WAVES=0.95,1,1.05,1.95,2,2.05,2.95,3,3.05",),
        shows="wave_efficiency",
        see="One row of tiles beyond a full wave needs a whole further wave: a saw tooth, flatter with more waves.",
    ),
)


def experiment_named(name: str) -> Experiment:
    """The experiment called ``name``, or an error that lists the ones there are."""
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"there is no experiment called {name!r}", f"{suggestion}the experiments: {', '.join(known)}")
