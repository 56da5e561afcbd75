"""ASTRA-sim's analytical network and system model: its configuration files, its collective times, its replay."""
