"""gemmsmith list, show and doctor: tables, JSON, code; help and version; the installed program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_output import Say

from gemmsmith.cli.main import run_command
from gemmsmith.cli.render.output import bytes_text
from gemmsmith.ladder.registry import rungs
from gemmsmith.run.cuda import gpu_available

NAMES = [spec.name for spec in rungs()]


def test_list(say: Say) -> None:
    said = say("list")
    assert (said.code, said.err) == (0, "")
    assert said.widest <= 100
    for name in NAMES:
        assert name in said.out
    found = say("list", "--json").json["rungs"]
    assert [rung["name"] for rung in found] == NAMES
    keys = {"rung", "name", "summary", "teaches", "dtypes", "layouts", "min_arch", "parameters", "presets"}
    assert all(keys <= rung.keys() for rung in found)
    assert found[0]["parameters"][0]["legal"] == [8, 16, 32]


@pytest.mark.parametrize("name", ["naive", "warp_tile_mixed"])
def test_show(say: Say, name: str) -> None:
    said = say("show", name)
    assert said.code == 0, said.err
    assert said.widest <= 125  # pictures in a header keep the line length of their source
    for text in ("Idea", "Try next", "parameter", "preset", "registers", "sm_90"):
        assert text in said.out
    facts = say("show", name, "--json").json
    keys = {"name", "rung", "idea", "config", "arch", "compiler", "resources", "grid", "block", "ptx", "source"}
    assert keys <= facts.keys()
    assert facts["resources"]["registers"] > 0
    assert facts["sass_counts"]["FFMA"] > 0


@pytest.mark.parametrize(
    ("option", "text"),
    [("--source", "__global__"), ("--ptx", ".visible .entry gemm"), ("--sass", "EXIT"), ("--loop", "FFMA")],
)
def test_show_code(say: Say, option: str, text: str) -> None:
    said = say("show", "naive", option)
    assert said.code == 0, said.err
    assert text in said.out


def test_show_another_architecture(say: Say) -> None:
    facts = say("show", "naive", "--arch", "sm_86", "--config", "TILE=16", "--json").json
    assert facts["arch"] == "sm_86"
    assert facts["config"] == {"TILE": 16}
    assert facts["threads"] == 256


def test_doctor(say: Say) -> None:
    said = say("doctor")
    assert said.code == 0
    assert said.widest <= 100
    facts = say("doctor", "--json").json
    states = {finding["what"]: finding["state"] for finding in facts["findings"]}
    assert facts["ok"] is True
    assert states["compiler"] == states["python"] == states["compile cache"] == "ok"
    assert states["GPU"] == ("ok" if gpu_available() else "absent")
    assert all(f["advice"] for f in facts["findings"] if f["state"] != "ok")


@pytest.mark.parametrize(("option", "text"), [("--sass", "EXIT"), ("--loop", "FFMA")])
def test_show_machine_code_as_json(say: Say, option: str, text: str) -> None:
    facts = say("show", "naive", option, "--json").json
    code = facts[option.removeprefix("--")]
    assert text in code
    assert code + "\n" == say("show", "naive", option).out
    assert not {"sass", "loop"} & say("show", "naive", "--json").json.keys(), "only on request"


def test_a_hopper_rung_is_shown_compiled_for_its_architecture(say: Say) -> None:
    facts = say("show", "wgmma_cluster", "--json").json
    assert (facts["arch"], facts["cluster"], facts["persistent"]) == ("sm_90a", [2, 1, 1], True)
    assert facts["sass_counts"]["HGMMA"] == 4
    narrow = say("show", "wgmma_cluster", "--out-dtype", "fp16", "--json").json
    for shown in (facts, narrow):
        assert shown["config"]["STORE_MODE"] == 2
        assert shown["sass_counts"]["UTMASTG"] > 0
    loop = say("show", "wgmma_cluster", "--loop").out
    assert loop.count("HGMMA.64x256x16.F32") == 4
    assert "STG" not in loop
    said = say("show", "wgmma_cluster", "--arch", "sm_80")
    assert (said.code, "only sm_90 has" in said.err) == (2, True)


def test_bytes_for_people() -> None:
    sizes = (1023, 1024, 233_472, 1024**2 - 1, 1024**2, 180_342_784)
    assert [*map(bytes_text, sizes)] == ["1023 B", "1.0 KB", "228.0 KB", "1024.0 KB", "1.0 MB", "172.0 MB"]


def test_help_and_version(say: Say) -> None:
    said = say("--version")
    assert (said.code, said.out.split()[0]) == (0, "gemmsmith")
    for command in ("list", "show", "run", "verify", "check", "doctor", "climb", "report"):
        said = say(command, "-h")
        assert said.code == 0
        assert "--json" in said.out


def test_as_a_program() -> None:
    """The installed entry and ``python -m``: the exit code is the process's own, and no traceback is printed."""
    program = Path(sys.executable).with_name("gemmsmith")
    for words in ([str(program)], [sys.executable, "-m", "gemmsmith"]):
        done = subprocess.run([*words, "run", "nonsuch"], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith("error: there is no rung called 'nonsuch'")
        assert "Traceback" not in done.stderr


def test_show_takes_a_file_that_writes_fp16(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "halves.cu"
    parameters = "const half* A, const half* B, half* C, int M, int N, int K"
    file.write_text(
        f"#include <cuda_fp16.h>\n__global__ void halves({parameters}) {{ C[threadIdx.x] = A[0] * B[0]; }}\n"
    )
    assert run_command(["show", str(file), "--block", "32", "--grid", "1", "--ptx"]) == 0
    assert ".entry" in capsys.readouterr().out
