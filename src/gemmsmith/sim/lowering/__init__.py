"""From PTX instructions to operations on register files, with what ptxas fuses and contracts on the way."""
