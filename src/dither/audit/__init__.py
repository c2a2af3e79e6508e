"""What checks, attacks and teaches. Unreachable from the kernel (an import contract says so)."""
