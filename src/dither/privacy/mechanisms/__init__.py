"""Mechanisms: exact integers and an exact sensitivity in; a random answer, its loss and its error law out."""
