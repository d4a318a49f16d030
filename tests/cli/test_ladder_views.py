"""climb --views: a folder of views beside the page, and links to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from report_sample import sample

from gemmsmith.cli import ladder_views
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.ladder_views import check_folder, views_folder, with_links, write_ladder_views
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UsageError
from gemmsmith.gpus import gpu_named
from gemmsmith.report.collect import count_rung, rungs_of
from gemmsmith.report.page import page


def test_views_lie_beside_the_page_which_links_to_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder_views, "_WORKERS", 1)
    folder = views_folder(tmp_path / "climb.html")
    written = write_ladder_views(folder, ["coalesced"], "sm_90", gpu_named("H200"), Compiler(None))
    assert written == [tmp_path / "climb-views" / "coalesced.html"]
    assert "Who owns what" in written[0].read_text()
    linked = page(with_links(sample(), folder, ["coalesced"]))
    assert linked.count('href="climb-views/') == 1
    assert 'href="climb-views/coalesced.html"' in linked


def test_a_collected_rung_moves_on_the_page() -> None:
    step = count_rung("naive", 64, "sm_90", compile_for)
    assert 'class="moving"' in step.animation
    (rung,) = rungs_of([step], gpu_named("H200"))
    shown = page(replace(sample(), rungs=(rung,)))
    assert shown.count('<figure class="moving">') == 1


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "climb-views").write_text("")
    with pytest.raises(UsageError, match="is a file"):
        check_folder(views_folder(tmp_path / "climb.html"))
