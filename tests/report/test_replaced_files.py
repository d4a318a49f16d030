"""Files that are replaced as a whole."""

from __future__ import annotations

from pathlib import Path

from gemmsmith.report.files import replace_file


def test_bytes_of_a_command_line_that_are_no_utf8_are_escaped(tmp_path: Path) -> None:
    assert replace_file(tmp_path / "page.html", "--cluster \udcff").read_text(encoding="utf-8") == r"--cluster \udcff"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
