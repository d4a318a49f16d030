"""``python -m gemmsmith`` is the command line."""

from gemmsmith.cli.main import main

main()
