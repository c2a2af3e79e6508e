"""Registration in Spark: source tables, repaired and limited where they lie, and the copy."""
