"""A small StyleGAN2: generator and discriminator, from the operators that StyleGAN's own networks use.

Karras et al., "Analyzing and Improving the Image Quality of StyleGAN", CVPR 2020. `impl` is "cuda" for opsmith's kernels
(on every device) and "ref" for their definitions in PyTorch. Per-pixel noise and the lower learning rate of the mapping
network are left out.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from opsmith.ops.bias_act import bias_act
from opsmith.ops.stylegan.conv2d_resample import conv2d_resample
from opsmith.ops.upfirdn2d import setup_filter, upsample2d

CLAMP = 256.0  # what StyleGAN2 limits activations to, for float16's sake


class Dense(nn.Module):
    """A linear layer, bias and activation; the weights' scale is applied as it runs (equalised learning rate)."""

    def __init__(self, inputs: int, outputs: int, act: str = "lrelu", *, bias: float = 0.0, impl: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.full((outputs,), bias))
        self.act, self.impl, self.scale = act, impl, 1 / math.sqrt(inputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return [N, outputs] for [N, inputs]."""
        return bias_act(x @ (self.weight * self.scale).T, self.bias, act=self.act, impl=self.impl)


class Convolution(nn.Module):
    """A convolution with resampling, then bias, activation, gain and clamp; modulated by a style where it has styles.

    The style scales the channels that come in, and demodulation those that go out, to the size that they would have for
    normally distributed input (section 2.2).
    """

    f: Tensor | None

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int = 3,
        act: str = "lrelu",
        *,
        up: int = 1,
        down: int = 1,
        styles: int = 0,
        demodulate: bool = True,
        gain: float = 1.0,
        impl: str,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, kernel, kernel))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.scale = 1 / math.sqrt(inputs * kernel**2)
        self.affine = Dense(styles, inputs, "linear", bias=1.0, impl=impl) if styles else None
        self.register_buffer("f", setup_filter([1, 3, 3, 1]) if up > 1 or down > 1 else None)
        self.up, self.down, self.demodulate, self.act, self.impl = up, down, demodulate, act, impl
        self.gain = gain * (math.sqrt(2) if act == "lrelu" else 1.0)

    def forward(self, x: Tensor, w: Tensor | None = None) -> Tensor:
        """Return [N, outputs, H * up / down, W * up / down] for [N, inputs, H, W] and latents [N, styles]."""
        weight = self.weight * self.scale
        if self.affine is not None:
            style = self.affine(w)
            x = x * style[:, :, None, None]
        padding = self.weight.shape[2] // 2
        x = conv2d_resample(x, weight, self.f, up=self.up, down=self.down, padding=padding, impl=self.impl)
        if self.affine is not None and self.demodulate:
            size = (style.square() @ weight.square().sum((2, 3)).T + 1e-8).rsqrt()
            x = x * size[:, :, None, None]
        return bias_act(x, self.bias, act=self.act, gain=self.gain, clamp=CLAMP * self.gain, impl=self.impl)


class Generator(nn.Module):
    """Draws grey pictures of `size` x `size` (4 times a power of 2) from a latent z and a label."""

    f: Tensor

    def __init__(self, latents: int, labels: int, channels: int, size: int, impl: str) -> None:
        super().__init__()
        self.impl = impl
        self.embedding = nn.Embedding(labels, latents)
        self.mapping = nn.Sequential(*(Dense(n, latents, impl=impl) for n in (2 * latents, latents)))
        self.constant = nn.Parameter(torch.randn(channels, 4, 4))
        self.first = Convolution(channels, channels, styles=latents, impl=impl)
        self.steps = size.bit_length() - 3
        blocks = range(self.steps)
        self.ups = nn.ModuleList(Convolution(channels, channels, up=2, styles=latents, impl=impl) for _ in blocks)
        self.sames = nn.ModuleList(Convolution(channels, channels, styles=latents, impl=impl) for _ in blocks)
        self.greys = nn.ModuleList(
            Convolution(channels, 1, 1, "linear", styles=latents, demodulate=False, impl=impl)
            for _ in range(self.steps + 1)
        )
        self.register_buffer("f", setup_filter([1, 3, 3, 1]))

    def forward(self, z: Tensor, label: Tensor) -> Tensor:
        """Return pictures [N, 1, size, size], about -1 to 1, for z [N, latents] and labels [N]."""
        w = self.mapping(torch.cat([_normalised(z), _normalised(self.embedding(label))], dim=1))
        x = self.first(self.constant.expand(len(z), -1, -1, -1), w)
        picture = self.greys[0](x, w)
        for up, same, grey in zip(self.ups, self.sames, self.greys[1:], strict=True):
            x = same(up(x, w), w)
            picture = upsample2d(picture, self.f, impl=self.impl) + grey(x, w)
        return picture


class Discriminator(nn.Module):
    """Tells drawn pictures from real ones, given the label by projection (Miyato and Koyama, ICLR 2018)."""

    def __init__(self, labels: int, channels: int, size: int, impl: str) -> None:
        super().__init__()
        half = math.sqrt(0.5)  # of the variance, for each of two terms
        blocks = range(size.bit_length() - 3)
        self.grey = Convolution(1, channels, 1, impl=impl)
        self.sames = nn.ModuleList(Convolution(channels, channels, impl=impl) for _ in blocks)
        self.downs = nn.ModuleList(Convolution(channels, channels, down=2, gain=half, impl=impl) for _ in blocks)
        self.skips = nn.ModuleList(
            Convolution(channels, channels, 1, "linear", down=2, gain=half, impl=impl) for _ in blocks
        )
        self.last = Convolution(channels + 1, channels, impl=impl)
        self.dense = Dense(channels * 16, channels, impl=impl)
        self.embedding = nn.Embedding(labels, channels)
        self.out = Dense(channels, 1, "linear", impl=impl)

    def forward(self, picture: Tensor, label: Tensor) -> Tensor:
        """Return the logits [N] of being real, for pictures [N, 1, size, size] and labels [N]."""
        x = self.grey(picture)
        for same, down, skip in zip(self.sames, self.downs, self.skips, strict=True):
            x = down(same(x)) + skip(x)
        # How different the pictures of a batch are, as one more channel (Karras et al., ICLR 2018, section 3).
        spread = (x.var(dim=0, correction=0) + 1e-8).sqrt().mean()
        x = self.last(torch.cat([x, spread.expand(len(x), 1, *x.shape[2:])], dim=1))
        x = self.dense(x.flatten(1))
        projection = (x * self.embedding(label)).sum(dim=1) / math.sqrt(x.shape[1])
        return self.out(x)[:, 0] + projection


def _normalised(x: Tensor) -> Tensor:
    """Return rows of mean square 1."""
    return x * (x.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()
