"""The results database and recorded results."""
