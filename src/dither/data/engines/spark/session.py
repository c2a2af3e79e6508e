"""Sessions of Spark, with the settings on which the meaning of SQL depends.

Which cluster runs them is said where Spark's users say it: SPARK_REMOTE for Spark Connect, else
`spark.master` in spark-defaults.conf, else DITHER_SPARK_MASTER, else this machine with two threads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dither.errors import DitherError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Of a session that is started here: nobody else sees statements or how many rows they read."""


_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class ClusterError(DitherError):
    """No session of Spark can be had; quotes no row."""


def open_session() -> SparkSession:
    """Open a session of its own, with our settings, in the application that runs or a new one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ClusterError(
            "the engine spark needs pyspark: pip install 'dither[spark]', and Java 17 (Debian: "
            "openjdk-17-jre-headless)"
        ) from None
    try:
        session: SparkSession = _start(SparkSession).newSession()
        for setting, value in _SETTINGS.items():
            session.conf.set(setting, value)
    except Exception as error:  # of Java, of py4j or of the network
        raise ClusterError(
            f"Spark cannot be started or reached ({type(error).__name__}): check JAVA_HOME (Java "
            "17), SPARK_REMOTE or DITHER_SPARK_MASTER"
        ) from None
    if session.conf.get("spark.sql.ansi.enabled") != "true":
        raise ClusterError("this Spark keeps ANSI mode off: sums could wrap, so it is not used")
    return session


def _start(kind: Any) -> Any:
    """Start an application, or take the one that this process has."""
    builder = kind.builder.appName("dither")
    if not os.environ.get("SPARK_REMOTE"):
        master = os.environ.get("DITHER_SPARK_MASTER", "local[2]")
        builder = builder.master(master)
        local = _LOOPBACK if master.startswith("local") else {}
        for setting, value in {**_QUIET, **local}.items():
            builder = builder.config(setting, value)
    return builder.getOrCreate()
