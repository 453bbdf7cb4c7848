"""timm needs torchvision, whose package has kernels for CUDA only and does not load beside PyTorch for the CPU. Its Python parts
do once the operators that those kernels would define are there by name; no model here calls one."""
import torch

_library = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms", "roi_align", "qroi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d",
              "_roi_align_backward", "_roi_pool_backward", "_ps_roi_align_backward", "_ps_roi_pool_backward",
              "_deform_conv2d_backward"):
    _library.define(_name + "(Tensor x) -> Tensor")
