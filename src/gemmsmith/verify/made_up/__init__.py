"""Launches with made-up arguments: races within a block of kernels whose results nobody knows how to judge."""
