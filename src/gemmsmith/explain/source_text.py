"""The source text that counters by line refer to."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.kernel.spec import KernelSpec


def source_lines(spec: KernelSpec, file: str) -> list[str]:
    """The lines of a kernel's source or of one of its headers; empty if not found, as for CUDA's own headers."""
    folder = spec.source.parent
    for path in (spec.source, folder / file, *sorted((folder / "include").rglob(Path(file).name))):
        if path.name == Path(file).name and path.is_file():
            return [line.expandtabs(4).rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    return []
