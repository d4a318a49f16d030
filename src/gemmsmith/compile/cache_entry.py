"""A cache entry's bytes: magic, header length, JSON header, PTX, cubin, and a SHA-256 over all of that."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import asdict

from gemmsmith.compile.compiled import CompiledKernel, Resources

SCHEMA = 1
_MAGIC = b"GEMMSMITH-KERNEL\n"
_DIGEST = 32


def encode(compiled: CompiledKernel) -> bytes:
    """The entry that stores ``compiled``."""
    ptx = compiled.ptx.encode()
    header = json.dumps(
        {
            "schema": SCHEMA,
            "key": compiled.key,
            "entry": compiled.entry,
            "arch": compiled.arch,
            "compiler": compiled.compiler,
            "log": compiled.log,
            "resources": asdict(compiled.resources),
            "ptx_bytes": len(ptx),
            "cubin_bytes": len(compiled.cubin),
        }
    ).encode()
    body = _MAGIC + struct.pack("<I", len(header)) + header + ptx + compiled.cubin
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, key: str) -> CompiledKernel | None:
    """The kernel stored under ``key``; None unless ``data`` is a complete, intact entry of that key."""
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if not body.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        return None
    try:
        start = len(_MAGIC) + 4
        (length,) = struct.unpack_from("<I", body, len(_MAGIC))
        header = json.loads(body[start : start + length])
        ptx_end = start + length + header["ptx_bytes"]
        if (header["schema"], header["key"]) != (SCHEMA, key) or ptx_end + header["cubin_bytes"] != len(body):
            return None
        return CompiledKernel(
            entry=header["entry"],
            arch=header["arch"],
            ptx=body[start + length : ptx_end].decode(),
            cubin=body[ptx_end:],
            resources=Resources(**header["resources"]),
            log=header["log"],
            compiler=header["compiler"],
            key=key,
            cached=True,
            cache_path="",
        )
    except (KeyError, TypeError, ValueError, struct.error):
        return None  # intact, but written by something else with the same magic
