"""What is launched before a kernel."""
