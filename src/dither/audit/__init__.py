"""What tests, attacks and teaches: unreachable from the kernel."""
