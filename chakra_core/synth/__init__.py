"""Workloads made from a description of a model, without a recording."""

from __future__ import annotations

from chakra_core.synth.transformer import TransformerConfig, transformer_run, transformer_trace

__all__ = ["TransformerConfig", "transformer_run", "transformer_trace"]
