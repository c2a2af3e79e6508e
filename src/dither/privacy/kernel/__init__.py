"""The kernel: price a request, charge it, measure, add noise, store the answer."""
