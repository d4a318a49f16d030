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
    FMA = "fma"  # fp32 and integer multiply-add
    FP16 = "fp16"
    FP64 = "fp64"
    XU = "xu"  # special functions and conversions
    LSU = "lsu"  # loads, stores, shuffles
    ADU = "adu"  # constants by address, barriers
    CBU = "cbu"  # branches and convergence
    UNIFORM = "uniform"
    TENSOR = "tensor"
    TMA = "tma"
    NONE = "none"  # takes an issue slot only


_PIPES: dict[Pipe, str] = {
    Pipe.FMA: "FFMA FMUL FADD IMAD FSWZADD FFMA2 FMUL2 FADD2 IDP",
    Pipe.ALU: "IADD3 IADD LOP3 LEA ISETP FSETP FSET SEL FSEL SHF PRMT MOV IMNMX VIMNMX VIMNMX3 VIADDMNMX VIADD IABS FMNMX "
              "PLOP3 P2R R2P BMSK SGXT VABSDIFF I2FP F2FP FCHK VOTE CS2R HMNMX2 R2UR VOTEU",
    Pipe.FP16: "HFMA2 HADD2 HMUL2 HSETP2 HSET2",
    Pipe.FP64: "DADD DMUL DFMA DSETP",
    Pipe.XU: "MUFU I2F F2I F2F FRND POPC FLO BREV F2IP",
    Pipe.LSU: "LDG STG LDS STS LDL STL LD ST LDGSTS LDSM STSM SHFL ATOM ATOMG ATOMS RED REDG MATCH SYNCS ARRIVES S2R S2UR",
    Pipe.ADU: "LDC BAR MEMBAR REDUX B2R",
    Pipe.CBU: "BRA EXIT BSSY BSYNC BREAK BMOV CALL RET WARPSYNC BRX YIELD NANOSLEEP ELECT",
    Pipe.UNIFORM: "UIADD3 UIADD UIMAD ULOP3 ULEA USHF UISETP USEL UMOV UPRMT UPLOP3 ULDC UFLO UPOPC UBREV USGXT UBMSK "
                  "UP2UR UR2UP UVIADD UIMNMX UVIMNMX UVIADDMNMX CS2UR USETMAXREG",
    Pipe.TENSOR: "HMMA IMMA DMMA QMMA HGMMA IGMMA QGMMA BGMMA MOVM",
    Pipe.TMA: "UTMALDG UTMASTG UTMAREDG UBLKCP UTMACCTL UTMAPF",
}  # fmt: skip


@cache
def _by_opcode() -> dict[str, Pipe]:
    return {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes.split()}


def pipe_of(i: MachineInstruction) -> Pipe:
    """The unit that executes an instruction; NONE for what no unit does, such as NOP."""
    return _by_opcode().get(i.opcode, Pipe.NONE)
