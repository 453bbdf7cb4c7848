#include "src/analysis/perf/kernel_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/perf/sheet.h"
#include "src/base/strings.h"
#include "src/profile/common/values.h"

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

// A name is of the first family with a word that it contains; special work comes first.
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

// Drops texts between an opening and its closing bracket that are long.
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

namespace {

using profile::kNoText;
using profile::TextId;
using report::Cell;
using enum report::NumberFormat;

// A kernel, or all of a family.
struct DeviceKernel : Difference {  // in us
  struct Side {
    double us = 0;
    int64_t calls = 0;
    // The operator (a name) and its shapes with the most time.
    std::string_view operation;
    std::string_view shapes;
    double average_us = 0;
  };
  std::string name;
  std::string_view family;
  std::string_view change_word;
  std::array<Side, 2> sides;

  double change() const { return sides[1].us - sides[0].us; }
};

void SortByChange(std::vector<DeviceKernel>& kernels) {
  std::stable_sort(kernels.begin(), kernels.end(),
                   [](const DeviceKernel& a, const DeviceKernel& b) {
                     return std::fabs(a.change()) > std::fabs(b.change());
                   });
}

using DeviceKernels = Ordered<std::string, DeviceKernel>;  // by neutral name

void AddSide(size_t side, const DeviceWork& work, DeviceKernels& kernels) {
  const profile::Profile& profile = work.profile();
  // Time by kernel, operator and shapes; these are numbers of this profile's texts.
  struct OwnedTime {
    std::array<TextId, 3> key;
    double us = 0;
    int64_t calls = 0;
  };
  std::vector<OwnedTime> parts;
  std::unordered_map<uint64_t, std::vector<size_t>> places;  // by kernel and operator
  for (const WorkItem& item : work.items()) {
    if (item.kernel == UINT32_MAX) {
      continue;
    }
    std::array<TextId, 3> key = {item.name, kNoText, kNoText};
    const uint32_t leaf = work.tree().OperatorOf(item.node);
    if (leaf != HostTree::kNone) {
      key[1] = work.tree()[leaf].name;
      key[2] = profile.operators[work.tree()[leaf].operation].shapes;
    } else if (item.kernel < profile.kernels.size()) {
      key[2] = profile.kernels[item.kernel].shapes;
    }
    std::vector<size_t>& candidates = places[uint64_t{key[0]} << 32U | key[1]];
    auto found = std::find_if(candidates.begin(), candidates.end(),
                              [&](size_t part) { return parts[part].key == key; });
    if (found == candidates.end()) {
      // Kernels of very many shapes are not distinguished by them.
      constexpr size_t kMostShapes = 64;
      if (candidates.size() >= kMostShapes) {
        found = candidates.begin();
      } else {
        candidates.push_back(parts.size());
        parts.push_back({key});
        found = candidates.end() - 1;
      }
    }
    parts[*found].us += item.us;
    ++parts[*found].calls;
  }
  std::unordered_map<size_t, double> largest;  // part of a kernel
  for (const OwnedTime& part : parts) {
    const std::string_view name = profile.texts[part.key[0]];
    const std::string neutral = NeutralName(name);
    const size_t place = kernels.PlaceOf(neutral, [&] {
      DeviceKernel kernel;
      kernel.name = neutral;
      kernel.family = KernelFamily(name);
      return kernel;
    });
    DeviceKernel::Side& sum = kernels[place].sides[side];
    sum.us += part.us;
    sum.calls += part.calls;
    const auto [most, is_first] = largest.try_emplace(place, part.us);
    if (is_first || part.us > most->second) {
      most->second = part.us;
      sum.operation = profile.texts[part.key[1]];
      sum.shapes = profile.texts[part.key[2]];
    }
  }
}

std::vector<DeviceKernel> FamiliesOf(const std::vector<DeviceKernel>& kernels) {
  Ordered<std::string_view, DeviceKernel> families;
  for (const DeviceKernel& kernel : kernels) {
    DeviceKernel& family = families.At(kernel.family);
    family.name = "[ TOTAL ]";
    family.family = kernel.family;
    for (size_t side = 0; side < family.sides.size(); ++side) {
      family.sides[side].us += kernel.sides[side].us;
      family.sides[side].calls += kernel.sides[side].calls;
    }
  }
  SortByChange(families.items());
  return std::move(families.items());
}

KernelChange ChangeOf(const DeviceKernel& kernel) {
  KernelChange change;
  change.family = kernel.family;
  change.name = kernel.name;
  change.base_ms = kernel.sides[0].us / kUsPerMs;
  change.comparison_ms = kernel.sides[1].us / kUsPerMs;
  change.base_calls = kernel.sides[0].calls;
  change.comparison_calls = kernel.sides[1].calls;
  return change;
}

SheetColumns<DeviceKernel> DeviceKernelColumns() {
  using Side = DeviceKernel::Side;
  return {{{"Order Id", 10, kInteger, kRowNumber},
           {"Family", 20, kGeneral, &DeviceKernel::family, true},
           {"Kernel", 60, kGeneral, &DeviceKernel::name, true},
           {"Change", 12, kGeneral, &DeviceKernel::change_word}},
          {{"Operator", 30, kGeneral, &Side::operation},
           {"Input Shape", 20, kGeneral, &Side::shapes},
           {"Calls", 10, kInteger, &Side::calls},
           {"Total Duration(us)", 20, kFixed2, &Side::us},
           {"Avg Duration(us)", 20, kFixed2, &Side::average_us}},
          {{"Diff Duration(us)", 20, kFixed2, &DeviceKernel::difference},
           {"Diff Ratio", 20, kPercent, &DeviceKernel::ratio}}};
}

}  // namespace

KernelComparison CompareDeviceKernels(const DeviceWork& base, const DeviceWork& comparison,
                                      const PairOptions& options, size_t most) {
  DeviceKernels collected;
  AddSide(0, base, collected);
  AddSide(1, comparison, collected);
  std::vector<DeviceKernel>& kernels = collected.items();
  SortByChange(kernels);
  std::vector<DeviceKernel> families = FamiliesOf(kernels);
  KernelComparison result;
  for (const DeviceKernel& family : families) {
    KernelChange& change = result.families.emplace_back(ChangeOf(family));
    change.name.clear();
    for (const DeviceKernel& kernel : kernels) {
      if (kernel.family == family.family) {
        change.added += kernel.sides[0].calls == 0 ? 1 : 0;
        change.removed += kernel.sides[1].calls == 0 ? 1 : 0;
      }
    }
  }
  std::transform(kernels.begin(), kernels.begin() + std::min(most, kernels.size()),
                 std::back_inserter(result.kernels), ChangeOf);
  Sheet<DeviceKernel> sheet("Kernels", DeviceKernelColumns(), options);
  for (std::vector<DeviceKernel>* rows : {&families, &kernels}) {
    for (DeviceKernel& row : *rows) {
      auto& [before, after] = row.sides;
      for (DeviceKernel::Side* side : {&before, &after}) {
        side->average_us = side->calls > 0 ? side->us / static_cast<double>(side->calls) : 0;
      }
      row.change_word = before.calls == 0 ? "added" : after.calls == 0 ? "removed" : "both";
      static_cast<Difference&>(row) = Differ(before.us, after.us);
      sheet.Add(row);
    }
  }
  result.table = sheet.Take();
  return result;
}

namespace {

using profile::Profile;

struct Durations {
  double total_us = 0;
  double average_us = 0;
  double max_us = 0;
  double min_us = 0;
  double count = 0;
  bool is_there = false;
};

// Kernels of one kind by variant (shapes, core).
struct KernelVariant {
  std::string_view name;
  Durations durations;
};
struct KernelKind {
  std::string_view name;
  Ordered<std::string_view, KernelVariant> variants;
};
using SideKinds = Ordered<std::string_view, KernelKind>;

Durations& DurationsOf(SideKinds& kinds, std::string_view kind, std::string_view variant) {
  return kinds.At(kind,
                  [&] {
                    return KernelKind{kind, {}};
                  })
      .variants.At(variant,
                   [&] {
                     return KernelVariant{variant, {}};
                   })
      .durations;
}

const Durations* FindDurations(const SideKinds& kinds, std::string_view kind,
                               std::string_view variant) {
  const KernelKind* found = kinds.Find(kind);
  const KernelVariant* of_kind = found == nullptr ? nullptr : found->variants.Find(variant);
  return of_kind == nullptr ? nullptr : &of_kind->durations;
}

struct KernelPair {
  std::string_view kind;
  std::string_view variant;
  std::array<Durations, 2> sides;
};

// The base's kinds with their partners, then those that only the comparison has.
std::vector<KernelPair> Join(const SideKinds& base, const SideKinds& comparison) {
  std::vector<KernelPair> pairs;
  for (const KernelKind& kind : base.items()) {
    for (const auto& [variant, durations] : kind.variants.items()) {
      const Durations* partner = FindDurations(comparison, kind.name, variant);
      pairs.push_back({kind.name, variant, {durations, partner ? *partner : Durations()}});
    }
  }
  for (const KernelKind& kind : comparison.items()) {
    for (const auto& [variant, durations] : kind.variants.items()) {
      if (FindDurations(base, kind.name, variant) == nullptr) {
        pairs.push_back({kind.name, variant, {Durations(), durations}});
      }
    }
  }
  return pairs;
}

struct KernelRow {
  struct Side {
    double total_us = 0;
    double average_us = 0;
    Cell max_us, min_us, count;
  };
  std::string_view kind;
  std::string_view variant;
  std::array<Side, 2> sides;
  double total_ratio = 1;
  double average_ratio = 1;
};

report::FormattedTable KernelSheet(std::string_view name, std::string_view kind,
                                   std::string_view variant, const std::vector<KernelPair>& pairs,
                                   bool blank_where_missing, const PairOptions& options) {
  using Side = KernelRow::Side;
  Sheet<KernelRow> sheet(name,
                         {{{"Order Id", 10, kInteger, kRowNumber},
                           {kind, 30, kGeneral, &KernelRow::kind, true},
                           {variant, 20, kInteger, &KernelRow::variant}},
                          {{"Total Duration(us)", 20, kFixed2, &Side::total_us},
                           {"Avg Duration(us)", 20, kFixed2, &Side::average_us},
                           {"Max Duration(us)", 20, kFixed2, &Side::max_us},
                           {"Min Duration(us)", 20, kFixed2, &Side::min_us},
                           {"Calls", 20, kInteger, &Side::count}},
                          {{"Diff Total Ratio", 20, kFixed2, &KernelRow::total_ratio},
                           {"Diff Avg Ratio", 20, kFixed2, &KernelRow::average_ratio}}},
                         options);
  for (const KernelPair& pair : pairs) {
    KernelRow row = {pair.kind, pair.variant, {}};
    for (size_t i = 0; i < pair.sides.size(); ++i) {
      const Durations& side = pair.sides[i];
      row.sides[i] = {side.total_us, side.average_us, Cell(), Cell(), Cell()};
      if (side.is_there || !blank_where_missing) {
        row.sides[i].max_us = Cell::Number(side.max_us);
        row.sides[i].min_us = Cell::Number(side.min_us);
        row.sides[i].count = Cell::Number(side.count);
      }
    }
    const auto& [base, comparison] = pair.sides;
    row.total_ratio = Differ(base.total_us, comparison.total_us).ratio;
    row.average_ratio = Differ(base.average_us, comparison.average_us).ratio;
    sheet.Add(row);
  }
  return sheet.Take();
}

// Kernels by type and shapes.
SideKinds CollectKernels(const Profile& side, const std::optional<std::string>& step,
                         std::vector<std::string>& warnings) {
  SideKinds kinds;
  // Databases were filtered while they were read, and name only kernels.
  const bool is_database = side.source == profile::Source::kDatabase;
  const bool filter = step.has_value() && !is_database;
  bool in_step = false;
  for (const profile::KernelDetail& row : side.kernel_details) {
    if (filter && side.texts[row.step] != *step) {
      continue;
    }
    in_step = true;
    const std::string_view type = side.texts[row.type];
    if (type.empty() || (type == "N/A" && !is_database)) {
      continue;
    }
    const std::string_view shapes = side.texts[row.shapes];
    Durations& kind = DurationsOf(kinds, type, shapes.empty() ? "N/A" : shapes);
    kind.max_us = kind.is_there ? std::max(kind.max_us, row.duration_us) : row.duration_us;
    kind.min_us = kind.is_there ? std::min(kind.min_us, row.duration_us) : row.duration_us;
    kind.total_us += row.duration_us;
    kind.count += 1;
    kind.is_there = true;
  }
  if (filter && !in_step && !side.kernel_details.empty()) {
    warnings.push_back(
        fmt::format("{}: no kernels of step {} in its kernel details", side.path.string(), *step));
  }
  return kinds;
}

report::FormattedTable ByShapes(const Profile& base, const Profile& comparison,
                                const PairOptions& options, std::vector<std::string>& warnings) {
  const SideKinds base_kinds = CollectKernels(base, options.base_step, warnings);
  const SideKinds comparison_kinds = CollectKernels(comparison, options.comparison_step, warnings);
  std::vector<KernelPair> pairs;
  if (!base_kinds.items().empty() && !comparison_kinds.items().empty()) {
    pairs = Join(base_kinds, comparison_kinds);
  }
  for (KernelPair& pair : pairs) {
    for (Durations& side : pair.sides) {
      if (side.is_there) {
        side.total_us = RoundToDigits(side.total_us, 2);
        side.average_us = RoundToDigits(side.total_us / side.count, 2);
        side.max_us = RoundToDigits(side.max_us, 2);
        side.min_us = RoundToDigits(side.min_us, 2);
      }
    }
  }
  return KernelSheet("KernelCompare", "Kernel", "Input Shape", pairs, /*blank_where_missing=*/true,
                     options);
}

SideKinds CollectStatistics(const Profile& side) {
  SideKinds kinds;
  for (const profile::OperatorStatistic& row : side.operator_statistics) {
    DurationsOf(kinds, side.texts[row.type], side.texts[row.core_type]) = {
        row.total_us, row.average_us, row.max_us, row.min_us, row.count, true};
  }
  return kinds;
}

report::FormattedTable ByCore(const Profile& base, const Profile& comparison,
                              const PairOptions& options) {
  std::vector<KernelPair> pairs = Join(CollectStatistics(base), CollectStatistics(comparison));
  const auto ratio = [](const KernelPair& pair) {
    return Differ(pair.sides[0].total_us, pair.sides[1].total_us).ratio;
  };
  std::stable_sort(pairs.begin(), pairs.end(), [&ratio](const KernelPair& a, const KernelPair& b) {
    return ratio(a) > ratio(b);
  });
  return KernelSheet("KernelTypeCompare", "Kernel Type", "Core Type", pairs,
                     /*blank_where_missing=*/false, options);
}

}  // namespace

report::FormattedTable KernelCompare(const Profile& base, const Profile& comparison,
                                     const PairOptions& options,
                                     std::vector<std::string>& warnings) {
  if (base.device != profile::Device::kNpu || comparison.device != profile::Device::kNpu) {
    return {};
  }
  return options.use_kernel_type ? ByCore(base, comparison, options)
                                 : ByShapes(base, comparison, options, warnings);
}

}  // namespace msprobe::analysis::perf
