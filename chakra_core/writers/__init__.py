"""Writers: one module per format, Trace to bytes."""
