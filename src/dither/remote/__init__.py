"""Access to a curator in another process: the same connection, over a socket or over HTTP."""
