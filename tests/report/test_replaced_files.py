"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

from gemmsmith.report.files import replace_file


def test_bytes_of_a_command_line_that_are_no_utf8_are_escaped(tmp_path: Path) -> None:
    assert replace_file(tmp_path / "page.html", "--cluster \udcff").read_text(encoding="utf-8") == r"--cluster \udcff"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.symlink_to(os.devnull)
    replace_file(target, "text")
    assert target.is_symlink()
    assert not Path(os.devnull).is_file()
