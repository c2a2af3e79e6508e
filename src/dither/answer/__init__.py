"""From releases to tables that a person can use.

Postprocessing: no raw data, no privacy decision.
"""
