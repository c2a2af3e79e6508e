"""The console: pages of a gateway for people, written by templates on the server.

It is post-processing. A page is a function of public facts, of the question and of what the asker's
own budget has released. It opens no state, holds no session and can move no limit: docs/console.md.
"""
