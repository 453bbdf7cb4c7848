#include "src/capture/risk_level.h"

#include <unordered_set>

namespace msprobe::capture {
namespace {

using Names = std::unordered_set<std::string_view>;

const Names& CoreApis() {
  static const Names names = {"_fused_adamw_",
                              "_fused_adam_",
                              "matmul",
                              "__matmul__",
                              "bmm",
                              "addmm",
                              "addmm_",
                              "addbmm",
                              "addbmm_",
                              "baddbmm",
                              "baddbmm_",
                              "mm",
                              "mv",
                              "addmv",
                              "addmv_",
                              "addr",
                              "addr_",
                              "linear",
                              "chain_matmul",
                              "conv1d",
                              "conv2d",
                              "conv3d",
                              "conv_transpose1d",
                              "conv_transpose2d",
                              "conv_transpose3d",
                              "conv_tbc",
                              "convolution",
                              "_convolution",
                              "bilinear",
                              "linalg.matmul",
                              "linalg.multi_dot",
                              "multi_dot",
                              "linalg.vecdot",
                              "vecdot",
                              "batch_norm",
                              "instance_norm",
                              "layer_norm",
                              "group_norm",
                              "local_response_norm",
                              "_batch_norm_impl_index",
                              "embedding",
                              "embedding_bag",
                              "multi_head_attention_forward",
                              "scaled_dot_product_attention"};
  return names;
}

const Names& ApisOfLowRisk() {
  static const Names names = {"squeeze",
                              "unsqueeze",
                              "reshape",
                              "reshape_as",
                              "view",
                              "view_as",
                              "flatten",
                              "unflatten",
                              "expand",
                              "expand_as",
                              "repeat",
                              "repeat_interleave",
                              "tile",
                              "transpose",
                              "permute",
                              "moveaxis",
                              "movedim",
                              "swapaxes",
                              "swapdims",
                              "chunk",
                              "unsafe_chunk",
                              "split",
                              "split_with_sizes",
                              "unsafe_split",
                              "unsafe_split_with_sizes",
                              "tensor_split",
                              "hsplit",
                              "vsplit",
                              "dsplit",
                              "unbind",
                              "stack",
                              "cat",
                              "concat",
                              "concatenate",
                              "hstack",
                              "vstack",
                              "dstack",
                              "column_stack",
                              "row_stack",
                              "align_as",
                              "align_to",
                              "atleast_1d",
                              "atleast_2d",
                              "atleast_3d",
                              "ravel",
                              "clamp",
                              "unfold",
                              "type_as",
                              "to",
                              "float",
                              "double",
                              "int",
                              "long",
                              "half",
                              "bfloat16",
                              "byte",
                              "char",
                              "bool",
                              "cfloat",
                              "numpy",
                              "empty",
                              "empty_like",
                              "zeros",
                              "zeros_like",
                              "ones",
                              "ones_like",
                              "full",
                              "full_like",
                              "arange",
                              "linspace",
                              "logspace",
                              "eye",
                              "identity",
                              "diag",
                              "diagflat",
                              "diag_embed",
                              "triu",
                              "tril",
                              "triu_indices",
                              "tril_indices",
                              "clone",
                              "__bool__",
                              "stride"};
  return names;
}

// Fused operators and collectives: each is a place where devices differ.
bool IsOfAccelerator(std::string_view kind) {
  return kind == "NPU" || kind == "Distributed" || kind == "MindSpeed" || kind == "Mindspeed" ||
         kind == "MintDistributed";
}

}  // namespace

bool IsAtRisk(RiskLevel level, std::string_view kind, std::string_view api) {
  switch (level) {
    case RiskLevel::kAll:
      return true;
    case RiskLevel::kFocus:
      return !ApisOfLowRisk().contains(api);
    case RiskLevel::kCore:
      return IsOfAccelerator(kind) || CoreApis().contains(api) || api.starts_with("batch_norm_");
  }
  return true;
}

}  // namespace msprobe::capture
