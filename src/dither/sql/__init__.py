"""From SQL text to queries and a recipe.

No data, no privacy decision: mistakes here cost utility, never privacy.
"""
