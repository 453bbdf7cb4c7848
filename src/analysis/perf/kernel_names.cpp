#include "src/analysis/perf/kernel_names.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include "src/base/strings.h"
#include "src/profile/common/texts.h"

namespace msprobe::analysis::perf {
namespace {

using Words = std::initializer_list<std::string_view>;

bool StartsWithAny(std::string_view lower, Words words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return lower.starts_with(word); });
}

// Vendors' names of runtime calls that do the same; where only the prefix differs none is needed.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSameCalls = {{
    {"hipMemcpyWithStream", "cudaMemcpyAsync"},
    {"hipExtLaunchKernel", "cudaLaunchKernel"},
    {"hipExtModuleLaunchKernel", "cuLaunchKernel"},
    {"hipModuleLaunchKernel", "cuLaunchKernel"},
    {"cuLaunchKernelEx", "cuLaunchKernel"},
    {"cudaLaunchKernelExC", "cudaLaunchKernel"},
}};

// The first family that one of whose words stands in the name; words of special work first.
struct Family {
  std::string_view name;
  Words words;
};
const std::array<Family, 19>& Families() {
  static const std::array<Family, 19> families = {{
      {"attention",
       {"attention", "attn", "fmha", "flash_fwd", "flash_bwd", "flashinfer", "mha_", "_mha",
        "paged_kv", "fused_sdp", "sdpa"}},
      {"mixture of experts", {"moe", "expert", "topk_gating"}},
      {"convolution", {"conv", "wgrad", "dgrad", "winograd", "implicit_gemm", "naive_conv"}},
      {"quantization", {"quantize", "quant_", "_quant", "per_token_group"}},
      {"matmul",
       {"gemm", "cijk_", "cublas", "cutlass", "matmul", "nvjet", "gemv", "splitk", "wvsplit",
        "marlin", "machete", "xmma", "dot_kernel", "_mm_kernel", "scaled_mm"}},
      {"optimizer",
       {"multi_tensor_apply", "adam", "sgd", "lamb", "optimizer", "fused_apply_momentum"}},
      {"normalization", {"norm", "welford", "bn_fw", "bn_bw", "batch_norm"}},
      {"softmax", {"softmax"}},
      {"embedding and indexing",
       {"embedding", "index", "gather", "scatter", "take_along", "masked_select"}},
      {"position encoding", {"rotary", "rope"}},
      {"loss", {"nll_loss", "cross_entropy", "mse_loss", "bce"}},
      {"activation", {"silu", "gelu", "relu", "swiglu", "act_and_mul", "sigmoid", "tanh"}},
      {"sorting and sampling", {"sort", "topk", "radix", "sampl", "argmax", "cumsum", "scan"}},
      {"random numbers", {"philox", "dropout", "distribution", "random", "bernoulli"}},
      {"layout", {"transpose", "permute", "catarray", "copy_kernel", "direct_copy", "reshape"}},
      {"reduction", {"reduce"}},
      {"pooling", {"pool"}},
      {"elementwise", {"elementwise", "pointwise", "vectorized", "functor"}},
      {"generated", {"triton_", "fused_"}},
  }};
  return families;
}

// Drops what stands between an opening and its closing bracket, where that is long.
std::string WithoutLongBrackets(std::string_view text, char opening, char closing, size_t longest) {
  std::string result;
  size_t at = 0;
  while (at < text.size()) {
    const size_t begin = text.find(opening, at);
    result += text.substr(at, begin == std::string_view::npos ? begin : begin - at);
    if (begin == std::string_view::npos) {
      break;
    }
    size_t end = begin;
    for (int64_t depth = 0; end < text.size(); ++end) {
      depth += text[end] == opening ? 1 : text[end] == closing ? -1 : 0;
      if (depth == 0) {
        break;
      }
    }
    const std::string_view inside = text.substr(begin, std::min(end + 1, text.size()) - begin);
    if (inside.size() <= longest) {
      result += inside;
    } else if (opening == '<') {
      result += std::string(inside.substr(0, longest)) + "...>";
    }
    at = begin + inside.size();
  }
  return result;
}

}  // namespace

bool IsCommunicationKernel(std::string_view name) {
  const std::string lower = base::AsciiLower(name);
  return StartsWithAny(lower, {"nccl", "rccl", "msccl"}) ||
         base::ContainsAny(
             lower, {"nccldevkernel", "ncclkernel", "rcclkernel", "rcclgenerickernel",
                     "cross_device_reduce", "allreduce", "all_reduce", "allgather", "all_gather",
                     "reducescatter", "reduce_scatter", "alltoall", "all_to_all", "multimem_",
                     "nvshmem", "deep_ep::", "mscclpp", "rcclx"});
}

bool IsCopyKernel(std::string_view name) {
  return StartsWithAny(
      base::AsciiLower(name),
      {"memcpy", "memset", "hipmemcpy", "copyhosttodevice", "copydevicetohost",
       "copydevicetodevice", "fillbuffer", "__amd_rocclr_copybuffer", "__amd_rocclr_fillbuffer"});
}

bool IsGraphLaunch(std::string_view name) {
  return base::ContainsAny(base::AsciiLower(name), {"graphlaunch"});
}

std::string NeutralName(std::string_view name) {
  for (const auto& [call, same] : kSameCalls) {
    if (name == call) {
      return std::string(same);
    }
  }
  const auto starts_with_call = [&](std::string_view prefix) {
    return name.size() > prefix.size() && name.starts_with(prefix) && name[prefix.size()] >= 'A' &&
           name[prefix.size()] <= 'Z';
  };
  if (starts_with_call("hip")) {
    return "cuda" + std::string(name.substr(3));
  }
  if (name.starts_with("rccl")) {
    return "nccl" + std::string(name.substr(4));
  }
  return profile::WithoutAddresses(name);
}

std::string_view KernelFamily(std::string_view name) {
  if (IsCommunicationKernel(name)) {
    return "communication";
  }
  if (IsCopyKernel(name)) {
    return "copy";
  }
  const std::string lower = base::AsciiLower(name);
  for (const Family& family : Families()) {
    if (base::ContainsAny(lower, family.words)) {
      return family.name;
    }
  }
  return "other";
}

std::string ShortKernelName(std::string_view name, size_t longest) {
  std::string text(name.starts_with("void ") ? name.substr(5) : name);
  text = base::ReplaceAll(text, "(anonymous namespace)::", "");
  constexpr size_t kTemplate = 40;
  constexpr size_t kCopyDirection = 40;  // "Memcpy HtoD (Pageable -> Device)"
  text = WithoutLongBrackets(text, '<', '>', kTemplate);
  text = WithoutLongBrackets(text, '(', ')', name.starts_with("Mem") ? kCopyDirection : 0);
  if (text.size() > longest) {
    text = text.substr(0, longest - 3) + "...";
  }
  return text;
}

}  // namespace msprobe::analysis::perf
