"""What an encoder of sound reads first: two convolutions over the frames of its features."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headwise.names import ShapeError
from headwise.nn.config import TransformerConfig

__all__ = ["Features"]


class Features(nn.Module):
    """Frames of features to the stream, one position for every two frames (Radford et al. 2022).

    Each convolution sees a frame and its two neighbours, and is followed by a GELU.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.conv_in = nn.Conv1d(config.features, config.d_model, kernel_size=3, padding=1)
        self.conv_half = nn.Conv1d(
            config.d_model, config.d_model, kernel_size=3, stride=2, padding=1
        )

    def forward(
        self, features: Float[Tensor, "batch feature frame"]
    ) -> Float[Tensor, "batch position d_model"]:
        """The stream before positions are added.

        Raises:
            ShapeError: not [batch, features, frame] in floating point.
        """
        count = self.conv_in.in_channels
        if (
            features.dim() != 3
            or features.shape[1] != count
            or not features.dtype.is_floating_point
        ):
            raise ShapeError(
                f"features must be real numbers [batch, features={count}, frame], came "
                f"{list(features.shape)} of {str(features.dtype).removeprefix('torch.')}"
            )
        return F.gelu(self.conv_half(F.gelu(self.conv_in(features)))).transpose(1, 2)
