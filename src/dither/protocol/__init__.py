"""The protocol between a curator and those who ask it: messages, frames, and documents in them.

Both sides import it. It knows neither data nor engines: docs/reference/protocol.md.
"""
