"""The page in fewer bytes is the same document."""

from __future__ import annotations

from html.parser import HTMLParser

from report_sample import sample

from gemmsmith.report.compact import compact
from gemmsmith.report.machine_loop import folded
from gemmsmith.report.page import page


class Read(HTMLParser):
    """Tags with their attributes, and text, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.found.append((data,))


def test_a_compact_page_is_the_same_document() -> None:
    whole = page(sample())
    small = compact(whole)
    assert Read(small).found == Read(whole).found
    assert len(small) < 0.97 * len(whole)


def test_a_slash_after_a_value_is_not_taken_for_a_part_of_it() -> None:
    text = '<rect x="1" y="2"/><a href="a b" class="n">x="1"</a><script>f("<b class=\\"n\\">")</script>'
    assert compact(text).startswith('<rect x=1 y="2"/><a href="a b" class=n>x="1"</a>')
    assert compact(text).endswith('<script>f("<b class=\\"n\\">")</script>')


def test_long_runs_of_one_instruction_are_folded() -> None:
    run = [f"FFMA R{n}, R1, R2, R3" for n in range(20)]
    assert folded(["LDS R0, [R1]", *run, "@P0 BRA `(.L)"]) == [
        "LDS R0, [R1]", *run[:3], "⋯ 17 more FFMA", "@P0 BRA `(.L)"]  # fmt: skip
    assert folded(run[:8]) == run[:8]
