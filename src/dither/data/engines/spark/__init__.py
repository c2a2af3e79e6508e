"""Spark 4: the prepared copy as Parquet, clustered by owner; one machine or any cluster.

`dialect.py` has its words, `session.py` sessions with the settings on which sums depend,
`engine.py` runs statements, `source.py` reads tables into registration, `copy.py` writes and drops
the prepared copy. No randomness, no noise and no Python runs on executors. pyspark is imported when
a session is opened, and not before.
"""
