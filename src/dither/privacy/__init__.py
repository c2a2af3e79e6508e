"""The privacy layer: exact noise, mechanisms, losses, accounting, ledger and the kernel."""
