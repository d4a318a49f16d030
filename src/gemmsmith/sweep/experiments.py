"""Experiments from the worklogs that the ladder follows, as data: each has a name to repeat it by.

Values that a rung refuses stay in if the worklog had them: a sweep lists them with the reason.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.gpus import cuda_limits, largest_smem


@dataclass(frozen=True)
class Experiment:
    """A sweep with a name.

    fixed    parameters that do not vary, as in --config
    vary     what varies, as in --vary
    shape    M×N×K, as in --shapes; empty: the sweep's default
    shows    the quantity to look at first on the simulator; on a GPU it is TFLOPS
    see      what the result shows, in a sentence or two
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
        asks="Which shape of a thread's tile keeps the FMA units busiest?",
        kernel="rectangular",
        fixed="BM=128,BN=128,BK=32,UNROLL=2,MIN_BLOCKS=1",
        vary=("TM,TN=4x4,8x4,8x8,16x4,16x8,4x32,8x64,8x128,16x16",),
        shows="instructions_per_ffma",
        see="Larger tiles read less shared memory per multiply-add, until their accumulators no longer fit into "
        f"{cuda_limits().registers_per_thread} registers: 16×16 and 8×64 spill, and local memory costs more "
        "than was gained. 8×128 is refused.",
    ),
    Experiment(
        name="unroll",
        asks="How many steps of k should one iteration of the inner loop take?",
        kernel="rectangular",
        vary=("UNROLL=1,2,4,8,16",),
        shows="instructions_per_ffma",
        see="Up to four steps, A is read along k as float2 and float4 instead of float; more steps save only loop "
        "overhead.",
    ),
    Experiment(
        name="registers",
        asks="What does it cost to limit a kernel to fewer registers?",
        kernel="vectorized",
        vary=("MIN_BLOCKS=1,2,3,4,5,6,8",),
        shows="spill_bytes",
        see="Each further block that must fit on an SM lowers the register limit. Occupancy rises in steps; once 64 "
        "accumulators and their operands no longer fit, spills rise too.",
    ),
    Experiment(
        name="padding",
        asks="Which shift of shared rows avoids bank conflicts?",
        kernel="padded",
        vary=("BK=8,16", "PAD=0,1,4,8"),
        shows="store_conflicts",
        see="For BK = 8, PAD = 4 puts the scattered stores into different banks; PAD = 8 shifts them by all banks, "
        "which changes nothing. PAD = 1 leaves rows unaligned, so A is read one float at a time. For BK = 16 no value "
        "of PAD removes every store conflict.",
    ),
    Experiment(
        name="bk",
        asks="How deep should a k-tile be?",
        kernel="padded",
        vary=("BK=8,16,32",),
        shows="barriers_per_kffma",
        see="Each doubling halves the barriers and doubles shared memory; traffic and arithmetic do not change.",
    ),
    Experiment(
        name="load-width",
        asks="What do float2 and float4 save over float?",
        kernel="vectorized",
        vary=("VEC=1,2,4",),
        shows="global_requests_per_kffma",
        see="The bytes do not change; requests to global memory fall to a half and a quarter.",
    ),
    Experiment(
        name="sizes",
        asks="How large must a matrix be to fill the GPU?",
        kernel="warp_tile",
        vary=("SIZE=64,128,256,512,1024,2048,4096,8192,16384",),
        shows="wave_efficiency",
        see="Small sizes launch fewer blocks than the GPU holds; large ones leave only the last wave partly empty. The "
        "cost of a multiply-add does not change.",
    ),
    Experiment(
        name="occupancy-registers",
        asks="How does occupancy fall with registers per thread?",
        kernel="register_block",
        vary=(f"registers=16,24,32,40,48,56,64,72,80,96,112,128,152,168,192,224,{cuda_limits().registers_per_thread}",),
        shows="occupancy",
        see="Steps, not a slope: a whole block fits or it does not.",
    ),
    Experiment(
        name="occupancy-smem",
        asks="How does occupancy fall with shared memory per block?",
        kernel="register_block",
        vary=(f"smem=0,8192,16384,24576,32768,49152,65536,98304,131072,163840,196608,{largest_smem()}",),
        shows="occupancy",
        see="Registers set the maximum. Shared memory lowers it as soon as fewer blocks fit.",
    ),
    Experiment(
        name="occupancy-threads",
        asks="How does occupancy depend on threads per block?",
        kernel="register_block",
        vary=(f"threads=32,64,96,128,160,192,256,320,384,512,640,768,{cuda_limits().threads_per_block}",),
        shows="occupancy",
        see="Large blocks leave room that no further block fits into; very large ones do not fit at all.",
    ),
    Experiment(
        name="tail-waves",
        asks="What does a nearly empty last wave cost?",
        kernel="warp_tile",
        shape="4096x4096x1024",
        vary=("WAVES=0.95,1,1.05,1.95,2,2.05,2.95,3,3.05",),
        shows="wave_efficiency",
        see="One row of tiles beyond a full wave costs another whole wave: a sawtooth, flatter with more waves.",
    ),
)


def experiment_named(name: str) -> Experiment:
    """The experiment called ``name``; an unknown name is refused with the nearest one and all of them."""
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"there is no experiment called {name!r}", f"{suggestion}the experiments: {', '.join(known)}")
