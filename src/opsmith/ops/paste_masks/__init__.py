"""paste_masks_in_image: the masks of boxes as masks of an image, as torchvision has it, and in one step with a threshold."""

from opsmith.ops.paste_masks.functions import paste_binary_masks_in_image, paste_masks_in_image
from opsmith.ops.paste_masks.sized import pasted_binary_masks, pasted_masks, pasted_masks_backward

__all__ = [
    "paste_binary_masks_in_image",
    "paste_masks_in_image",
    "pasted_binary_masks",
    "pasted_masks",
    "pasted_masks_backward",
]
