"""Where an instruction may begin in PTX, for expressions with ``re.M``: in a new line, or behind another one, as inline
assembly writes several in a line."""

START = r"(?:^|(?<=;))[\s{]*(?:@!?%?\w+\s+)?"
