"""The page's charts. Each function takes the report model and returns a chart, or None without data."""
