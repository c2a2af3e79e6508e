"""Catalogs and rows that tests share: what each dataset holds is said at the top of its module."""
