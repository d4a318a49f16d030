"""Render a report model as one self-contained HTML page, and the ladder as an SVG picture."""

from gemmsmith.report.page import page, write_page

__all__ = ["page", "write_page"]
