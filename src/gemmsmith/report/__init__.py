"""The page: a story as one self-contained HTML file, and the ladder as a picture."""

from gemmsmith.report.page import page, write_page

__all__ = ["page", "write_page"]
