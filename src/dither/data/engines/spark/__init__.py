"""Spark 4: the prepared copy as Parquet, clustered by owner; one machine or any cluster.

`dialect.py` has its words, `session.py` sessions with the settings on which sums depend,
`tables.py` opens the copy, `engine.py` runs statements; registration is in `register/spark/`. No
randomness, no noise and no Python runs on executors. pyspark is imported when a session is opened,
and not before.
"""
