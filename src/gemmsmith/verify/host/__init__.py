"""What is judged of the host code around a launch, and what it restricts."""
