"""The launches of a kernel: where they are, what they pass, and what is guessed where none is found."""
