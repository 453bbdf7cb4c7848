#include "src/dump/call_facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "src/base/strings.h"

namespace msprobe::dump {
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

struct ApiFacts {
  std::string_view api;
  uint32_t facts;  // of CallFact
};
// In the order of names, for the binary search.
constexpr std::array kApis = {
    ApiFacts{"__setitem__", kTakesConstant | kToolUnjudged},
    ApiFacts{"_npu_dropout", kRandom},
    ApiFacts{"alpha_dropout", kRandom},
    ApiFacts{"astype", kCasts},
    ApiFacts{"bernoulli", kRandom},
    ApiFacts{"bernoulli_", kRandom | kOverwrites},
    ApiFacts{"bfloat16", kCasts},
    ApiFacts{"cast", kCasts},
    ApiFacts{"cauchy_", kOverwrites},
    ApiFacts{"chunk", kSplits},
    ApiFacts{"constant_pad_nd", kTakesConstant},
    ApiFacts{"copy_", kOverwrites},
    ApiFacts{"data_ptr", kMetadata},
    ApiFacts{"dim", kMetadata},
    ApiFacts{"double", kCasts},
    ApiFacts{"dropout", kRandom},
    ApiFacts{"dropout1d", kRandom},
    ApiFacts{"dropout2d", kRandom},
    ApiFacts{"dropout3d", kRandom},
    ApiFacts{"dropout_", kRandom},
    ApiFacts{"element_size", kMetadata},
    ApiFacts{"empty", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"empty_like", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"empty_permuted", kRawMemory},
    ApiFacts{"empty_strided", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"empty_with_format", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"exponential_", kRandom | kOverwrites},
    ApiFacts{"eye_", kOverwrites},
    ApiFacts{"feature_dropout", kRandom},
    ApiFacts{"fill", kTakesConstant},
    ApiFacts{"fill_", kOverwrites | kTakesConstant},
    ApiFacts{"fill_diagonal_", kTakesConstant},
    ApiFacts{"float", kCasts},
    ApiFacts{"full", kTakesConstant},
    ApiFacts{"full_like", kTakesConstant},
    ApiFacts{"geometric_", kOverwrites},
    ApiFacts{"get_device", kMetadata},
    ApiFacts{"gumbel_softmax", kRandom},
    ApiFacts{"half", kCasts},
    ApiFacts{"index_fill", kTakesConstant},
    ApiFacts{"index_fill_", kTakesConstant},
    ApiFacts{"index_put", kTakesConstant},
    ApiFacts{"index_put_", kTakesConstant},
    ApiFacts{"is_complex", kMetadata},
    ApiFacts{"is_contiguous", kMetadata},
    ApiFacts{"is_floating_point", kMetadata},
    ApiFacts{"is_signed", kMetadata},
    ApiFacts{"itemsize", kMetadata},
    ApiFacts{"log_normal_", kOverwrites},
    ApiFacts{"masked_fill", kTakesConstant},
    ApiFacts{"masked_fill_", kTakesConstant},
    ApiFacts{"masked_scatter", kTakesConstant},
    ApiFacts{"multinomial", kRandom},
    ApiFacts{"narrow", kSplits},
    ApiFacts{"native_dropout", kRandom},
    ApiFacts{"ndimension", kMetadata},
    ApiFacts{"nelement", kMetadata},
    ApiFacts{"new_empty", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"new_empty_strided", kRawMemory | kToolRawMemory | kToolUnjudged},
    ApiFacts{"new_full", kTakesConstant},
    ApiFacts{"new_tensor", kTakesConstant},
    ApiFacts{"normal", kRandom},
    ApiFacts{"normal_", kRandom | kOverwrites},
    ApiFacts{"npu_dropout", kRandom},
    ApiFacts{"numel", kMetadata},
    ApiFacts{"numpy", kToolUnjudged},
    ApiFacts{"ones_", kOverwrites},
    ApiFacts{"pad", kTakesConstant},
    ApiFacts{"rand", kRandom},
    ApiFacts{"rand_like", kRandom},
    ApiFacts{"randint", kRandom},
    ApiFacts{"randint_like", kRandom},
    ApiFacts{"randn", kRandom},
    ApiFacts{"randn_like", kRandom},
    ApiFacts{"random_", kRandom | kOverwrites},
    ApiFacts{"randperm", kRandom},
    ApiFacts{"scalar_tensor", kTakesConstant},
    ApiFacts{"scatter", kTakesConstant},
    ApiFacts{"scatter_", kTakesConstant},
    ApiFacts{"select_scatter", kTakesConstant},
    ApiFacts{"set_", kOverwrites},
    ApiFacts{"size", kMetadata},
    ApiFacts{"split", kSplits},
    ApiFacts{"split_with_sizes", kSplits},
    ApiFacts{"storage_offset", kMetadata},
    ApiFacts{"stride", kMetadata},
    ApiFacts{"tensor", kTakesConstant},
    ApiFacts{"tensor_split", kSplits},
    ApiFacts{"threshold", kTakesConstant},
    ApiFacts{"threshold_", kTakesConstant},
    ApiFacts{"to", kCasts | kToolUnjudged},
    ApiFacts{"type", kCasts},
    ApiFacts{"type_as", kCasts},
    ApiFacts{"uniform_", kRandom | kOverwrites},
    ApiFacts{"unsafe_chunk", kSplits},
    ApiFacts{"unsafe_split", kSplits},
    ApiFacts{"where", kTakesConstant},
    ApiFacts{"zero_", kOverwrites},
};
static_assert(std::is_sorted(kApis.begin(), kApis.end(),
                             [](const ApiFacts& a, const ApiFacts& b) { return a.api < b.api; }));

// "input.1" -> "1", "kwargs.weight" -> "weight", "input.0.3" -> "0.3".
std::string_view BelowSection(std::string_view argument) {
  const size_t dot = argument.find('.');
  return dot == std::string_view::npos ? std::string_view() : argument.substr(dot + 1);
}

constexpr CommunicationKind kCollective = CommunicationKind::kCollective;
constexpr CommunicationKind kSend = CommunicationKind::kSend;
constexpr CommunicationKind kReceive = CommunicationKind::kReceive;
constexpr CommunicationKind kBatch = CommunicationKind::kBatch;
constexpr uint8_t kObjects = CommunicationApi::kCarriesObjects;
constexpr uint8_t kInPlace = CommunicationApi::kInPlace;
constexpr uint8_t kToolFills = CommunicationApi::kToolFillsInputs;

// name, kind, pair, rank, graph_rank, buffer, its position, flags
constexpr CommunicationApi kCommunicationApis[] = {
    {"send", kSend, "recv", "dst", "dst"},
    {"isend", kSend, "irecv", "dst", "dst"},
    {"send_object_list", kSend, "recv_object_list", "dst", "", "", "", kObjects},
    {"recv", kReceive, "send", "src", "src", "tensor", "0"},
    {"irecv", kReceive, "isend", "src", "src", "tensor", "0"},
    {"recv_object_list", kReceive, "send_object_list", "src", "", "object_list", "0", kObjects},
    {"batch_isend_irecv", kBatch, "", "", "", "", "", kToolFills},

    {"broadcast", kCollective, "", "src", "1", "tensor", "0", kInPlace},
    {"batch_broadcast", kCollective, "", "src"},
    {"broadcast_object_list", kCollective, "", "src", "", "object_list", "0", kObjects | kInPlace},
    {"scatter", kCollective, "", "src", "src", "tensor", "0"},
    {"scatter_object_list", kCollective, "", "src", "", "scatter_object_output_list", "0",
     kObjects},
    {"reduce", kCollective, "", "dst", "1"},
    {"gather", kCollective, "", "dst", "dst", "gather_list", "1"},
    {"gather_object", kCollective, "", "dst", "", "object_gather_list", "1", kObjects},

    {"all_reduce"},
    {"all_gather", kCollective, "", "", "", "tensor_list", "0"},
    {"all_gather_object", kCollective, "", "", "", "object_list", "0", kObjects},
    {"all_gather_into_tensor", kCollective, "", "", "", "output_tensor", "0"},
    {"_all_gather_base", kCollective, "", "", "", "output_tensor", "0", kToolFills},
    {"reduce_scatter", kCollective, "", "", "", "output", "0"},
    {"reduce_scatter_tensor", kCollective, "", "", "", "output", "0"},
    {"_reduce_scatter_base", kCollective, "", "", "", "output", "0", kToolFills},
    {"all_to_all", kCollective, "", "", "", "output_tensor_list", "0"},
    {"all_to_all_single", kCollective, "", "", "", "output", "0", kToolFills},
};

// Beginnings of the first fields of such a name, and words found anywhere in it: MindSpore and
// newer releases have more functions than the table ("gather_into_tensor", "all_gather_coalesced").
constexpr std::string_view kPrefixes[] = {"Distributed", "MintDistributed", "Mint.distributed",
                                          "Communication"};
constexpr std::string_view kWords[] = {"send",    "recv",   "broadcast", "reduce",
                                       "scatter", "gather", "all_to_all"};

bool IsOrLiesIn(std::string_view argument, std::string_view container) {
  return !container.empty() && argument.starts_with(container) &&
         (argument.size() == container.size() || argument[container.size()] == '.');
}

}  // namespace

bool HasFact(std::string_view api, CallFact fact) {
  const auto* const found = std::lower_bound(
      kApis.begin(), kApis.end(), api,
      [](const ApiFacts& entry, std::string_view name) { return entry.api < name; });
  return found != kApis.end() && found->api == api && (found->facts & fact) != 0;
}

std::string_view ArgumentOf(std::string_view entry_name, std::string_view row_name) {
  return row_name.size() > entry_name.size() && row_name.starts_with(entry_name)
             ? row_name.substr(entry_name.size() + 1)
             : std::string_view();
}

LayerState::LayerState(const EntryName& call) {
  if (call.is_module || call.direction != Direction::kForward) {
    return;
  }
  const auto* found =
      std::find_if(kStateArguments.begin(), kStateArguments.end(),
                   [&](const StateArguments& entry) { return entry.name == call.subject; });
  positions_ = found == kStateArguments.end() ? 0 : found->positions;
}

bool LayerState::Has(std::string_view argument) const {
  if (positions_ == 0 || argument.starts_with("output.")) {
    return false;
  }
  const std::string_view position = BelowSection(argument);
  if (position.size() == 1 && position[0] >= '0' && position[0] <= '9') {
    return ((positions_ >> static_cast<uint32_t>(position[0] - '0')) & 1U) != 0;
  }
  return base::IsOneOf(position, kStateKeywords);
}

bool IsLayerStateArgument(const EntryName& call, std::string_view argument) {
  return LayerState(call).Has(argument);
}

bool IsRunningStatistic(const EntryName& call, std::string_view argument) {
  const std::string_view position = BelowSection(argument);
  return position == "running_mean" || position == "running_var" ||
         ((call.subject == "batch_norm" || call.subject == "instance_norm") &&
          (position == "1" || position == "2"));
}

bool IsCast(const EntryName& call) { return !call.is_module && HasFact(call.subject, kCasts); }

bool IsRandomCall(const EntryName& call) {
  if (call.is_module) {
    return call.class_name.find("Dropout") != std::string_view::npos;
  }
  return HasFact(call.subject, kRandom);
}

bool IsUninitialisedCall(const EntryName& call) {
  return !call.is_module && HasFact(call.subject, kRawMemory);
}

bool IsPartingCall(const EntryName& call) {
  return !call.is_module && call.direction == Direction::kForward && HasFact(call.subject, kSplits);
}

bool IsDescribingCall(const EntryName& call) {
  return !call.is_module && call.direction == Direction::kForward &&
         HasFact(call.subject, kMetadata);
}

bool IsCommunicationCall(const EntryName& call) {
  return call.kind == "Distributed" || call.kind == "MintDistributed";
}

bool IsReceiveBuffer(const EntryName& call, std::string_view argument) {
  const std::string_view position = BelowSection(argument);
  if (!call.is_module && call.direction == Direction::kForward &&
      (position == "out" || position.starts_with("out.") ||
       (position == "0" && HasFact(call.subject, kOverwrites)))) {
    return true;
  }
  const CommunicationApi* facts =
      IsCommunicationCall(call) ? FindCommunicationApi(call.subject) : nullptr;
  return facts != nullptr &&
         (IsOrLiesIn(position, facts->buffer) || IsOrLiesIn(position, facts->buffer_position));
}

const CommunicationApi* FindCommunicationApi(std::string_view api) {
  const auto* row =
      std::find_if(std::begin(kCommunicationApis), std::end(kCommunicationApis),
                   [api](const CommunicationApi& known) { return known.name == api; });
  return row == std::end(kCommunicationApis) ? nullptr : row;
}

CollectiveEffect EffectOf(std::string_view api) {
  constexpr std::pair<std::string_view, CollectiveEffect> kEffects[] = {
      {"reduce_scatter", CollectiveEffect::kScatteredSum},
      {"all_reduce", CollectiveEffect::kSum},
      {"all_gather", CollectiveEffect::kGather},
      {"allgather", CollectiveEffect::kGather},
      {"all_to_all", CollectiveEffect::kExchange}};
  for (const auto& [word, effect] : kEffects) {
    if (api.find(word) != std::string_view::npos) {
      return effect;
    }
  }
  return CollectiveEffect::kOther;
}

bool MovesDataBetweenRanks(std::string_view entry_name) {
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return entry_name.starts_with(prefix); }) &&
         std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
           return entry_name.find(word) != std::string_view::npos;
         });
}

}  // namespace msprobe::dump
