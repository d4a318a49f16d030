"""The page's charts: each function takes the story and answers with a chart, or None where there is nothing to draw."""
