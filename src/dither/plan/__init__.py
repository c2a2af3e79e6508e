"""The public algebra of questions: what a plan means, its shape and its sensitivity. Sees the
catalog, never a row."""
