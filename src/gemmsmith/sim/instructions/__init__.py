"""The instructions that the simulator knows: one record each, one file per family (see ``docs/instructions.md``)."""
