"""Timing on other hardware: durations from the catalogue's numbers, and projection of measured runs."""
