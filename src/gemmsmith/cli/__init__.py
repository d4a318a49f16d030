"""The command line: commands/ one file each, options/ that commands share, render/ for tables and text."""
