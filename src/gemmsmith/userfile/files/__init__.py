"""The files around a user's kernel: includes, repository, copies."""
