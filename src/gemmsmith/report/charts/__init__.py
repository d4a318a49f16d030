"""Charts as inline SVG, drawn when the page is built: text stays text, colours are CSS classes, no script runs."""
