#include "src/analysis/perf/kernel_compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <map>
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

namespace {

using profile::kNoText;
using profile::TextId;
using report::Cell;
using enum report::NumberFormat;

constexpr std::array<SheetColumn, 16> kKernelColumns = {{{"Order Id", 10, kInteger},
                                                         {"Family", 20, kGeneral, true},
                                                         {"Kernel", 60, kGeneral, true},
                                                         {"Change", 12, kGeneral},
                                                         {"Operator", 30, kGeneral},
                                                         {"Input Shape", 20, kGeneral},
                                                         {"Calls", 10, kInteger},
                                                         {"Total Duration(us)", 20, kFixed2},
                                                         {"Avg Duration(us)", 20, kFixed2},
                                                         {"Operator", 30, kGeneral},
                                                         {"Input Shape", 20, kGeneral},
                                                         {"Calls", 10, kInteger},
                                                         {"Total Duration(us)", 20, kFixed2},
                                                         {"Avg Duration(us)", 20, kFixed2},
                                                         {"Diff Duration(us)", 20, kFixed2},
                                                         {"Diff Ratio", 20, kPercent}}};

struct KernelTotals {
  double us = 0;
  int64_t calls = 0;
  // Of the operator (a name) and its shapes with the most time.
  std::string operation;
  std::string shapes;
};

struct DeviceKernel {
  std::string name;
  std::string_view family;
  std::array<KernelTotals, 2> sides;
  double change() const { return sides[1].us - sides[0].us; }
};

std::string_view ChangeWord(const std::array<KernelTotals, 2>& sides) {
  return sides[0].calls == 0 ? "added" : sides[1].calls == 0 ? "removed" : "both";
}

class Collector {
 public:
  void AddSide(size_t side, const DeviceWork& work) {
    const profile::Profile& profile = work.profile();
    // Time by kernel, operator and shapes; these are numbers of this profile's texts.
    struct Owned {
      double us = 0;
      int64_t calls = 0;
    };
    std::vector<std::pair<std::array<TextId, 3>, Owned>> owned;
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
                                [&](size_t entry) { return owned[entry].first == key; });
      if (found == candidates.end()) {
        // Kernels of very many shapes are not told apart by them.
        constexpr size_t kMostShapes = 64;
        if (candidates.size() >= kMostShapes) {
          found = candidates.begin();
        } else {
          candidates.push_back(owned.size());
          owned.emplace_back(key, Owned());
          found = candidates.end() - 1;
        }
      }
      Owned& sum = owned[*found].second;
      sum.us += item.us;
      ++sum.calls;
    }
    std::unordered_map<size_t, double> largest;
    for (const auto& [key, sum] : owned) {
      const size_t index = KernelOf(profile.texts[key[0]]);
      KernelTotals& mine = kernels_[index].sides[side];
      mine.us += sum.us;
      mine.calls += sum.calls;
      const auto [most, is_first] = largest.try_emplace(index, sum.us);
      if (is_first || sum.us > most->second) {
        most->second = sum.us;
        mine.operation = profile.texts[key[1]];
        mine.shapes = profile.texts[key[2]];
      }
    }
  }

  std::vector<DeviceKernel> Take() {
    std::stable_sort(kernels_.begin(), kernels_.end(),
                     [](const DeviceKernel& a, const DeviceKernel& b) {
                       return std::fabs(a.change()) > std::fabs(b.change());
                     });
    return std::move(kernels_);
  }

 private:
  size_t KernelOf(std::string_view name) {
    std::string neutral = NeutralName(name);
    const auto [place, is_new] = places_.try_emplace(neutral, kernels_.size());
    if (is_new) {
      DeviceKernel& kernel = kernels_.emplace_back();
      kernel.name = std::move(neutral);
      kernel.family = KernelFamily(name);
    }
    return place->second;
  }

  std::vector<DeviceKernel> kernels_;
  std::unordered_map<std::string, size_t> places_;
};

std::vector<DeviceKernel> FamiliesOf(const std::vector<DeviceKernel>& kernels) {
  std::vector<DeviceKernel> families;
  for (const DeviceKernel& kernel : kernels) {
    auto found = std::find_if(families.begin(), families.end(), [&](const DeviceKernel& known) {
      return known.family == kernel.family;
    });
    if (found == families.end()) {
      found = families.insert(found, DeviceKernel{"[ TOTAL ]", kernel.family, {}});
    }
    for (const size_t side : {size_t{0}, size_t{1}}) {
      found->sides[side].us += kernel.sides[side].us;
      found->sides[side].calls += kernel.sides[side].calls;
    }
  }
  std::stable_sort(families.begin(), families.end(),
                   [](const DeviceKernel& a, const DeviceKernel& b) {
                     return std::fabs(a.change()) > std::fabs(b.change());
                   });
  return families;
}

KernelChange Told(const DeviceKernel& kernel) {
  KernelChange told;
  told.family = kernel.family;
  told.name = kernel.name;
  told.base_ms = kernel.sides[0].us / kUsPerMs;
  told.comparison_ms = kernel.sides[1].us / kUsPerMs;
  told.base_calls = kernel.sides[0].calls;
  told.comparison_calls = kernel.sides[1].calls;
  return told;
}

void AddKernelRow(const DeviceKernel& kernel, report::FormattedTable& sheet) {
  std::vector<Cell> cells = {Cell::Integer(static_cast<int64_t>(sheet.table.row_count()) + 1),
                             sheet.table.KeepText(kernel.family), sheet.table.KeepText(kernel.name),
                             sheet.table.KeepText(ChangeWord(kernel.sides))};
  for (const KernelTotals& side : kernel.sides) {
    cells.push_back(sheet.table.KeepText(side.operation));
    cells.push_back(sheet.table.KeepText(side.shapes));
    cells.push_back(Cell::Integer(side.calls));
    cells.push_back(Cell::Number(side.us));
    cells.push_back(Cell::Number(side.calls > 0 ? side.us / static_cast<double>(side.calls) : 0));
  }
  const Difference difference = Differ(kernel.sides[0].us, kernel.sides[1].us);
  cells.push_back(Cell::Number(difference.difference));
  cells.push_back(Cell::Number(difference.ratio));
  sheet.table.AddRow(cells);
}

}  // namespace

KernelComparison CompareDeviceKernels(const DeviceWork& base, const DeviceWork& comparison,
                                      const PairOptions& options, size_t most) {
  Collector collector;
  collector.AddSide(0, base);
  collector.AddSide(1, comparison);
  const std::vector<DeviceKernel> kernels = collector.Take();
  KernelComparison result;
  result.table = MakeSheet("Kernels", kKernelColumns, {4, 8}, {9, 13}, options);
  for (const DeviceKernel& family : FamiliesOf(kernels)) {
    AddKernelRow(family, result.table);
    result.families.push_back(Told(family));
    result.families.back().name.clear();
    for (const DeviceKernel& kernel : kernels) {
      if (kernel.family == family.family) {
        result.families.back().added += kernel.sides[0].calls == 0 ? 1 : 0;
        result.families.back().removed += kernel.sides[1].calls == 0 ? 1 : 0;
      }
    }
  }
  for (const DeviceKernel& kernel : kernels) {
    AddKernelRow(kernel, result.table);
    if (result.kernels.size() < most) {
      result.kernels.push_back(Told(kernel));
    }
  }
  return result;
}

namespace {

using profile::Profile;
using enum report::NumberFormat;

constexpr size_t kKernelColumnCount = 15;

std::array<SheetColumn, kKernelColumnCount> ColumnsOf(std::string_view kind,
                                                      std::string_view variant) {
  return {{{"Order Id", 10, kInteger},
           {kind, 30, kGeneral, true},
           {variant, 20, kInteger},
           {"Total Duration(us)", 20, kFixed2},
           {"Avg Duration(us)", 20, kFixed2},
           {"Max Duration(us)", 20, kFixed2},
           {"Min Duration(us)", 20, kFixed2},
           {"Calls", 20, kInteger},
           {"Total Duration(us)", 20, kFixed2},
           {"Avg Duration(us)", 20, kFixed2},
           {"Max Duration(us)", 20, kFixed2},
           {"Min Duration(us)", 20, kFixed2},
           {"Calls", 20, kInteger},
           {"Diff Total Ratio", 20, kFixed2},
           {"Diff Avg Ratio", 20, kFixed2}}};
}

struct Durations {
  double total_us = 0;
  double average_us = 0;
  double max_us = 0;
  double min_us = 0;
  double count = 0;
  bool is_there = false;
};

// Kernels of one kind in one variant (shapes, core), on both sides.
struct KernelKind {
  std::string_view type;
  std::string_view variant;
  std::array<Durations, 2> sides;
};

// One side's kinds: types by first appearance, the variants of each likewise.
class SideKinds {
 public:
  Durations& At(std::string_view type, std::string_view variant) {
    const auto [type_place, new_type] = index_.emplace(type, types_.size());
    if (new_type) {
      types_.emplace_back();
    }
    Variants& variants = types_[type_place->second];
    const auto [place, is_new] = variants.index.emplace(variant, variants.kinds.size());
    if (is_new) {
      variants.kinds.push_back({type, variant, {}});
    }
    return variants.kinds[place->second].durations;
  }
  const Durations* Find(std::string_view type, std::string_view variant) const {
    const auto type_place = index_.find(type);
    if (type_place == index_.end()) {
      return nullptr;
    }
    const Variants& variants = types_[type_place->second];
    const auto place = variants.index.find(variant);
    return place == variants.index.end() ? nullptr : &variants.kinds[place->second].durations;
  }
  bool empty() const { return types_.empty(); }
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Variants& variants : types_) {
      for (const OneKind& kind : variants.kinds) {
        visit(kind.type, kind.variant, kind.durations);
      }
    }
  }

 private:
  struct OneKind {
    std::string_view type;
    std::string_view variant;
    Durations durations;
  };
  struct Variants {
    std::vector<OneKind> kinds;
    std::unordered_map<std::string_view, size_t> index;
  };
  std::vector<Variants> types_;
  std::unordered_map<std::string_view, size_t> index_;
};

// The base's kinds with their partners, then what only the comparison has.
std::vector<KernelKind> Join(const SideKinds& base, const SideKinds& comparison) {
  std::vector<KernelKind> kinds;
  base.ForEach([&](std::string_view type, std::string_view variant, const Durations& durations) {
    const Durations* partner = comparison.Find(type, variant);
    kinds.push_back({type, variant, {durations, partner == nullptr ? Durations() : *partner}});
  });
  comparison.ForEach(
      [&](std::string_view type, std::string_view variant, const Durations& durations) {
        if (base.Find(type, variant) == nullptr) {
          kinds.push_back({type, variant, {Durations(), durations}});
        }
      });
  return kinds;
}

void AddRow(const KernelKind& kind, bool blank_where_missing, int64_t order,
            report::FormattedTable& sheet) {
  std::array<Cell, kKernelColumnCount> cells;
  cells[0] = Cell::Integer(order);
  cells[1] = sheet.table.KeepText(kind.type);
  cells[2] = sheet.table.KeepText(kind.variant);
  size_t column = 3;
  for (const Durations& side : kind.sides) {
    cells[column] = Cell::Number(side.total_us);
    cells[column + 1] = Cell::Number(side.average_us);
    if (side.is_there || !blank_where_missing) {
      cells[column + 2] = Cell::Number(side.max_us);
      cells[column + 3] = Cell::Number(side.min_us);
      cells[column + 4] = Cell::Number(side.count);
    }
    column += 5;
  }
  const auto& [base, comparison] = kind.sides;
  cells[13] = Cell::Number(Differ(base.total_us, comparison.total_us).ratio);
  cells[14] = Cell::Number(Differ(base.average_us, comparison.average_us).ratio);
  sheet.table.AddRow(cells);
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
    Durations& kind = kinds.At(type, shapes.empty() ? "N/A" : shapes);
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
  auto sheet =
      MakeSheet("KernelCompare", ColumnsOf("Kernel", "Input Shape"), {3, 7}, {8, 12}, options);
  const SideKinds base_kinds = CollectKernels(base, options.base_step, warnings);
  const SideKinds comparison_kinds = CollectKernels(comparison, options.comparison_step, warnings);
  if (base_kinds.empty() || comparison_kinds.empty()) {
    return sheet;
  }
  int64_t order = 0;
  for (KernelKind& kind : Join(base_kinds, comparison_kinds)) {
    for (Durations& side : kind.sides) {
      if (side.is_there) {
        side.total_us = RoundToDigits(side.total_us, 2);
        side.average_us = RoundToDigits(side.total_us / side.count, 2);
        side.max_us = RoundToDigits(side.max_us, 2);
        side.min_us = RoundToDigits(side.min_us, 2);
      }
    }
    AddRow(kind, true, ++order, sheet);
  }
  return sheet;
}

SideKinds CollectStatistics(const Profile& side) {
  SideKinds kinds;
  for (const profile::OperatorStatistic& row : side.operator_statistics) {
    kinds.At(side.texts[row.type], side.texts[row.core_type]) = {
        row.total_us, row.average_us, row.max_us, row.min_us, row.count, true};
  }
  return kinds;
}

report::FormattedTable ByCore(const Profile& base, const Profile& comparison,
                              const PairOptions& options) {
  auto sheet = MakeSheet("KernelTypeCompare", ColumnsOf("Kernel Type", "Core Type"), {3, 7},
                         {8, 12}, options);
  std::vector<KernelKind> rows = Join(CollectStatistics(base), CollectStatistics(comparison));
  const auto ratio = [](const KernelKind& kind) {
    return Differ(kind.sides[0].total_us, kind.sides[1].total_us).ratio;
  };
  std::stable_sort(rows.begin(), rows.end(), [&ratio](const KernelKind& a, const KernelKind& b) {
    return ratio(a) > ratio(b);
  });
  int64_t order = 0;
  for (const KernelKind& kind : rows) {
    AddRow(kind, false, ++order, sheet);
  }
  return sheet;
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
