"""The page names and links the sources of published figures."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from report_reading import Node, read
from report_sample import sample

from gemmsmith.report import page
from gemmsmith.store.published import published, sources_of


@cache
def section() -> Node:
    made = read(page(replace(sample(), published=published())))
    return next(n for n in made.all("section") if n.attributes.get("id") == "published")


def test_every_source_is_named_and_linked() -> None:
    sources = sources_of(published())
    assert {source.author for source in sources} >= {"evanking12", "ks", "Simon Boehm"}
    for source in sources:
        assert source.title in section().text
        assert (source.author or "author not named") in section().text
        links = [n.attributes["href"] for n in section().all("a") if n.text == source.title]
        assert links == ([source.link] if source.link else []), source


def test_a_source_links_only_to_https() -> None:
    odd = tuple(replace(p, title="t", link="javascript:alert(1)") for p in sample().published)
    assert "javascript:" not in page(replace(sample(), published=odd))


def test_every_published_figure_has_a_title() -> None:
    assert all(figure.title for figure in published())
    assert all(figure.link.startswith("https://") for figure in published() if figure.author)
