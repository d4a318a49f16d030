"""Charts as inline SVG, drawn at build time: text stays text, colours are CSS classes, nothing runs in the browser."""
