"""Turning launches into results that can be trusted, kept and compared."""
