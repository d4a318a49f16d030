"""Tables and plots for the terminal."""
