"""Machine code on NumPy lanes: SASS of a cubin, decoded, executed and counted.

It is part of ``sim`` because it is a second front end of the same machine: an instruction is lowered to the same
operations on rows of register files, and memory, barriers, schedules, the race detector and the counters are those of
the PTX simulation. A record names the PTX instruction whose meaning it has wherever there is one (``meaning.py``), so
that arithmetic is written once.

``reader`` and ``syntax``: instructions as nvdisasm prints them. ``control``: stall counts and scoreboards. ``image``:
what a cubin holds besides code. ``code``: registers as rows. ``instructions``: one record for each opcode. ``program``:
a kernel, lowered. ``device``: the device that runs it. ``pipes``: which unit executes what.
"""
