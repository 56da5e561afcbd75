"""The dashboard: a Dash application over ``chakra_core``."""
