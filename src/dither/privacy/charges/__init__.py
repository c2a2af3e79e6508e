"""What a loss takes from a budget, in exact numbers rounded up."""
