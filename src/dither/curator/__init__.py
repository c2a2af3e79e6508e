"""The curator process: data, kernel, ledger and keys behind a socket (docs/how-to/deploy.md)."""
