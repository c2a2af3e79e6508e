"""Sessions of Spark, with the settings on which the meaning of SQL depends.

Which cluster runs them is said by SPARK_REMOTE (Spark Connect), else by DITHER_SPARK_MASTER; else
it is this machine with two threads.
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
    # no type of a column may follow from the values of some rows
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # a file that cannot be read ends the statement: what it counts without it is another number
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
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
    kept = {setting: session.conf.get(setting) for setting in _SETTINGS}
    if kept != _SETTINGS:
        changed = ", ".join(sorted(name for name in kept if kept[name] != _SETTINGS[name]))
        raise ClusterError(
            "this Spark keeps other settings than sums and types need, so it is not used: "
            + changed
        )
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
    application = builder.getOrCreate()
    if not os.environ.get("SPARK_REMOTE"):
        # what Spark writes about a failure may quote rows, and whoever asks may read it
        application.sparkContext.setLogLevel("OFF")
    return application
