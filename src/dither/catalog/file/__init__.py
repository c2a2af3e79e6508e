"""Catalogs as files.

Read YAML with the line of each mistake, draft a first one, import other formats.
"""
