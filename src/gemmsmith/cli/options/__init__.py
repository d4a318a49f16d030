"""Option groups that commands share: kernel, problem, device, precision, record, output."""
