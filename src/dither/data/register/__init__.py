"""Registration: read the source, repair rows, keep within limits, write the prepared copy."""
