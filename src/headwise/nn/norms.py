"""The norm a configuration asks for: torch's LayerNorm or RMSNorm."""

from __future__ import annotations

from torch import nn

from headwise.nn.config import TransformerConfig

__all__ = ["LayerNorm", "RMSNorm", "make_norm"]

LayerNorm = nn.LayerNorm
RMSNorm = nn.RMSNorm


def make_norm(config: TransformerConfig) -> nn.Module:
    """A fresh norm over d_model: "layer" (mean and variance, weight and bias) or "rms"."""
    kind = RMSNorm if config.norm == "rms" else LayerNorm
    return kind(config.d_model, eps=config.norm_eps)
