"""The gateway: questions over HTTP, answered from public facts and released values.

It holds no data, no ledger and no key: docs/how-to/deploy.md.
"""
