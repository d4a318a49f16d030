"""PTX as text: read into modules, entries and instructions. What they mean is not known here."""
