"""A question between its text and its answer: the queries it needs and the formulas over them."""
