#include "src/analysis/compare/call_traits.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/base/strings.h"

namespace msprobe::analysis::compare {
namespace {

constexpr uint32_t At(std::initializer_list<uint32_t> positions) {
  uint32_t bits = 0;
  for (const uint32_t position : positions) {
    bits |= uint32_t{1} << position;
  }
  return bits;
}

struct StateArguments {
  std::string_view name;
  uint32_t positions;  // bit i: positional argument i
};
constexpr std::array kStateArguments = {
    StateArguments{"linear", At({1, 2})},
    StateArguments{"dense", At({1, 2})},
    StateArguments{"bilinear", At({2, 3})},
    StateArguments{"conv1d", At({1, 2})},
    StateArguments{"conv2d", At({1, 2})},
    StateArguments{"conv3d", At({1, 2})},
    StateArguments{"conv_transpose1d", At({1, 2})},
    StateArguments{"conv_transpose2d", At({1, 2})},
    StateArguments{"conv_transpose3d", At({1, 2})},
    StateArguments{"embedding", At({1})},
    StateArguments{"embedding_bag", At({1})},
    StateArguments{"layer_norm", At({2, 3})},
    StateArguments{"group_norm", At({2, 3})},
    StateArguments{"rms_norm", At({1, 2})},
    StateArguments{"batch_norm", At({1, 2, 3, 4})},
    StateArguments{"instance_norm", At({1, 2, 3, 4})},
    StateArguments{"prelu", At({1})},
    StateArguments{"npu_linear", At({1, 2})},
    StateArguments{"npu_rms_norm", At({1})},
    StateArguments{"npu_add_rms_norm", At({2})},
};
constexpr std::array<std::string_view, 5> kStateKeywords = {"weight", "bias", "gamma",
                                                            "running_mean", "running_var"};

constexpr std::array<std::string_view, 26> kRandomNames = {
    "dropout",        "dropout_",        "dropout1d",      "dropout2d",   "dropout3d",
    "alpha_dropout",  "feature_dropout", "native_dropout", "npu_dropout", "_npu_dropout",
    "rand",           "rand_like",       "randn",          "randn_like",  "randint",
    "randint_like",   "randperm",        "normal",         "normal_",     "uniform_",
    "random_",        "bernoulli",       "bernoulli_",     "multinomial", "exponential_",
    "gumbel_softmax",
};
constexpr std::array<std::string_view, 9> kCastNames = {
    "to", "type", "type_as", "float", "half", "bfloat16", "double", "astype", "cast"};
constexpr std::array<std::string_view, 6> kUninitialisedNames = {
    "empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided",
};
constexpr std::array<std::string_view, 7> kPartingNames = {
    "chunk", "unsafe_chunk", "split", "unsafe_split", "split_with_sizes", "tensor_split", "narrow",
};
constexpr std::array<std::string_view, 15> kDescribingNames = {
    "size",
    "stride",
    "dim",
    "ndimension",
    "numel",
    "nelement",
    "element_size",
    "itemsize",
    "storage_offset",
    "data_ptr",
    "is_floating_point",
    "is_complex",
    "is_contiguous",
    "get_device",
    "is_signed",
};
// Their first argument is filled; what it held takes no part.
constexpr std::array<std::string_view, 10> kFillingNames = {
    "zero_",   "fill_",        "copy_",   "normal_",    "uniform_",
    "random_", "exponential_", "cauchy_", "bernoulli_", "geometric_",
};
constexpr std::array<std::string_view, 13> kReceivingNames = {
    "recv",
    "irecv",
    "broadcast",
    "all_gather",
    "scatter",
    "all_gather_into_tensor",
    "reduce_scatter",
    "_all_gather_base",
    "all_to_all",
    "reduce_scatter_tensor",
    "gather",
    "_reduce_scatter_base",
    "all_to_all_single",
};

// "input.1" -> "1", "kwargs.weight" -> "weight", "input.0.3" -> "0.3".
std::string_view BelowSection(std::string_view argument) {
  const size_t dot = argument.find('.');
  return dot == std::string_view::npos ? std::string_view() : argument.substr(dot + 1);
}

}  // namespace

std::string_view ArgumentOf(std::string_view entry_name, std::string_view row_name) {
  return row_name.size() > entry_name.size() && row_name.starts_with(entry_name)
             ? row_name.substr(entry_name.size() + 1)
             : std::string_view();
}

bool IsLayerStateArgument(const dump::EntryName& call, std::string_view argument) {
  if (call.is_module || call.direction != dump::Direction::kForward ||
      argument.starts_with("output.")) {
    return false;
  }
  const auto* found =
      std::find_if(kStateArguments.begin(), kStateArguments.end(),
                   [&](const StateArguments& entry) { return entry.name == call.subject; });
  if (found == kStateArguments.end()) {
    return false;
  }
  const std::string_view position = BelowSection(argument);
  if (position.size() == 1 && position[0] >= '0' && position[0] <= '9') {
    return ((found->positions >> static_cast<uint32_t>(position[0] - '0')) & 1U) != 0;
  }
  return base::IsOneOf(position, kStateKeywords);
}

bool IsRunningStatistic(const dump::EntryName& call, std::string_view argument) {
  const std::string_view position = BelowSection(argument);
  return position == "running_mean" || position == "running_var" ||
         ((call.subject == "batch_norm" || call.subject == "instance_norm") &&
          (position == "1" || position == "2"));
}

bool IsCast(const dump::EntryName& call) {
  return !call.is_module && base::IsOneOf(call.subject, kCastNames);
}

bool IsRandomCall(const dump::EntryName& call) {
  if (call.is_module) {
    return call.class_name.find("Dropout") != std::string_view::npos;
  }
  return base::IsOneOf(call.subject, kRandomNames);
}

bool IsUninitialisedCall(const dump::EntryName& call) {
  return !call.is_module && base::IsOneOf(call.subject, kUninitialisedNames);
}

bool IsPartingCall(const dump::EntryName& call) {
  return !call.is_module && call.direction == dump::Direction::kForward &&
         base::IsOneOf(call.subject, kPartingNames);
}

bool IsDescribingCall(const dump::EntryName& call) {
  return !call.is_module && call.direction == dump::Direction::kForward &&
         base::IsOneOf(call.subject, kDescribingNames);
}

bool IsCommunicationCall(const dump::EntryName& call) {
  return call.kind == "Distributed" || call.kind == "MintDistributed";
}

bool IsReceiveBuffer(const dump::EntryName& call, std::string_view argument) {
  const std::string_view position = BelowSection(argument);
  if (!call.is_module && call.direction == dump::Direction::kForward &&
      (position == "out" || position.starts_with("out.") ||
       (position == "0" && base::IsOneOf(call.subject, kFillingNames)))) {
    return true;
  }
  if (!IsCommunicationCall(call) || !base::IsOneOf(call.subject, kReceivingNames)) {
    return false;
  }
  // gather(tensor, gather_list): the list is filled; everywhere else the first argument is.
  const char filled = call.subject == "gather" ? '1' : '0';
  if (!position.empty() && position[0] == filled && (position.size() == 1 || position[1] == '.')) {
    return true;
  }
  return position.starts_with("gather_list") || position.starts_with("tensor_list") ||
         position.starts_with("output");
}

}  // namespace msprobe::analysis::compare
