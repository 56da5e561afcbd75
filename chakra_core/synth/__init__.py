"""Workloads made from a description of a model, without a recording."""
