"""Which unit of an SM executes an instruction, under ncu's names of pipes.

The table is data for counts and, later, for time. ``docs/machine-code.md`` says which rows agree with ncu's
``sm__inst_executed_pipe_*`` on an H200.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from gemmsmith.sim.sass.syntax import MachineInstruction


class Pipe(StrEnum):
    """A unit of an SM, as ncu names it."""

    ALU = "alu"  # integer, logic, comparison
    FMA = "fma"  # fp32, fp16 and integer multiply-add
    FP64 = "fp64"
    XU = "xu"  # special functions and conversions
    LSU = "lsu"  # loads, stores, shuffles
    ADU = "adu"  # constants by address, barriers, special registers
    CBU = "cbu"  # ends and convergence
    UNIFORM = "uniform"
    TENSOR = "tensor"
    TMA = "tma"
    NONE = "none"  # takes an issue slot only


_PIPES: dict[Pipe, str] = {
    Pipe.FMA: "FFMA FMUL FADD IMAD VIADD FSWZADD IDP HFMA2 HADD2 HMUL2",
    Pipe.ALU: "IADD3 IADD LOP3 LEA ISETP FSETP FSET SEL FSEL SHF PRMT MOV IMNMX VIMNMX VIMNMX3 VIADDMNMX IABS FMNMX "
              "PLOP3 P2R R2P BMSK SGXT VABSDIFF I2FP F2FP FCHK VOTE R2UR ELECT CS2R HMNMX2 HSETP2 HSET2",
    Pipe.FP64: "DADD DMUL DFMA DSETP",
    Pipe.XU: "MUFU I2F F2I F2F FRND POPC FLO BREV F2IP",
    Pipe.LSU: "LDG STG LDS STS LDL STL LD ST LDGSTS LDGDEPBAR LDSM STSM MOVM SHFL ATOM ATOMG ATOMS RED REDG MATCH "
              "MEMBAR FENCE",
    Pipe.ADU: "LDC BAR REDUX B2R S2R S2UR VOTEU SYNCS ARRIVES",
    Pipe.CBU: "EXIT BSSY BSYNC BREAK BMOV CALL RET WARPSYNC BRX NANOSLEEP",
    Pipe.UNIFORM: "UIADD3 UIADD UIMAD ULOP3 ULEA USHF UISETP USEL UPRMT UPLOP3 UFLO UPOPC UBREV USGXT UBMSK UVIADD "
                  "UIMNMX UVIMNMX UVIADDMNMX",
    Pipe.TENSOR: "HMMA IMMA DMMA QMMA HGMMA IGMMA QGMMA BGMMA",
    Pipe.TMA: "UTMALDG UTMASTG UTMAREDG UBLKCP UTMACCTL UTMAPF",
}  # fmt: skip
# The special registers that load/store units give; others come from the address divergence unit.
_LANE_REGISTERS = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_LANEID")


@cache
def _by_opcode() -> dict[str, Pipe]:
    return {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}


def pipe_of(i: MachineInstruction) -> Pipe:
    """The unit that executes an instruction; NONE for what no unit counts, such as BRA, UMOV and NOP."""
    if i.opcode == "HFMA2" and "MMA" in i.modifiers:
        return Pipe.TENSOR
    if i.opcode == "S2R" and str(i.operands[-1]) in _LANE_REGISTERS:
        return Pipe.LSU
    return _by_opcode().get(i.opcode, Pipe.NONE)
