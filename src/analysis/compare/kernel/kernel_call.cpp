#include "src/analysis/compare/kernel/kernel_call.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/code_line.h"
#include "src/analysis/compare/distance.h"
#include "src/base/number_text.h"
#include "src/base/path_kind.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::compare {
namespace {

constexpr size_t kMostNames = 5;  // in a message

// "[2, 3]" of a row; nothing for what is no list of sizes.
std::optional<Shape> ShapeOf(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return std::nullopt;
  }
  Shape shape;
  text = text.substr(1, text.size() - 2);
  for (const std::string_view part : base::Split(text, ',')) {
    const std::optional<int64_t> size = base::ParseInt(base::Trim(part));
    if (size && *size >= 0) {
      shape.push_back(*size);
    } else if (!base::Trim(text).empty()) {
      return std::nullopt;
    }
  }
  return shape;
}

// "[1, 3, 1, 4]" and "[3, 4]" are one tensor to a kernel.
std::optional<Shape> WithoutOnes(std::string_view text) {
  std::optional<Shape> shape = ShapeOf(text);
  if (shape) {
    std::erase(*shape, 1);
  }
  return shape;
}

bool IsOutputRow(const SideRow& row) { return row.state == dump::RowState::kOutput; }

// The tensors of one call, and the kernel rows that stand for them.
struct CallMatch {
  uint32_t entry = 0;
  std::vector<std::pair<uint32_t, uint32_t>> rows;  // kernel row, row of the call
  size_t tensors = 0;                               // of the call
  bool has_output = false;
  double farthest = 0;  // largest relative distance of the statistics of a pair
};

class CallFinder {
 public:
  CallFinder(const Side& kernels, const Side& calls) : kernels_(kernels), calls_(calls) {
    for (const SideRow& row : kernels.rows) {
      shapes_.push_back(WithoutOnes(row.shape));
    }
  }

  CallMatch Match(uint32_t entry) const {
    CallMatch match;
    match.entry = entry;
    std::vector<bool> used(kernels_.rows.size(), false);
    const SideEntry& call = calls_.entries[entry];
    for (uint32_t i = call.first_row; i < call.first_row + call.row_count; ++i) {
      const SideRow& row = calls_.rows[i];
      if (!row.is_tensor || !row.stats[kMax].is_numeric()) {
        continue;
      }
      ++match.tensors;
      double distance = 0;
      const uint32_t kernel = Nearest(row, used, distance);
      if (kernel == kNoRow) {
        continue;
      }
      used[kernel] = true;
      match.rows.emplace_back(kernel, i);
      match.has_output = match.has_output || IsOutputRow(row);
      match.farthest = std::max(match.farthest, distance);
    }
    std::sort(match.rows.begin(), match.rows.end());
    return match;
  }

 private:
  // Of equally near ones the one of the same dtype, then the first kernel that read an input, the
  // last one that wrote an output.
  uint32_t Nearest(const SideRow& row, const std::vector<bool>& used, double& nearest) const {
    const std::optional<Shape> shape = WithoutOnes(row.shape);
    const std::optional<DType> dtype = ParseDType(row.dtype);
    bool found_dtype = false;
    uint32_t found = kNoRow;
    for (uint32_t i = 0; i < kernels_.rows.size(); ++i) {
      const SideRow& kernel = kernels_.rows[i];
      if (used[i] || IsOutputRow(kernel) != IsOutputRow(row) || !shape || shapes_[i] != shape) {
        continue;
      }
      const Distance distance = StatisticsDistance(kernel, row);
      if (!distance.comparable) {
        continue;
      }
      const double far = distance.nonfinite_differs ? HUGE_VAL : distance.relative;
      const bool same_dtype = ParseDType(kernel.dtype) == dtype;
      const bool as_good = far == nearest && (same_dtype > found_dtype ||
                                              (same_dtype == found_dtype && IsOutputRow(row)));
      if (found == kNoRow || far < nearest || as_good) {
        found = i;
        nearest = far;
        found_dtype = same_dtype;
      }
    }
    return found;
  }

  const Side& kernels_;
  const Side& calls_;
  std::vector<std::optional<Shape>> shapes_;  // by kernel row
};

// Statistics that were computed elsewhere differ by roundings; other tensors by far more.
constexpr double kSameTensor = 1e-3;

// The call that options name, or the only one whose tensors are all among the kernels'.
Result<CallMatch> ChooseCall(const Options& options, const Side& kernels, const Side& calls) {
  const CallFinder finder(kernels, calls);
  std::vector<CallMatch> fitting;
  for (uint32_t entry = 0; entry < calls.entries.size(); ++entry) {
    const std::string_view name = calls.entries[entry].name;
    if (!options.kernel_call.empty()) {
      if (name != options.kernel_call) {
        continue;
      }
      CallMatch match = finder.Match(entry);
      if (match.rows.empty()) {
        return MismatchError(
            fmt::format("no tensor of {} has the shape of a tensor of the kernels", name));
      }
      return match;
    }
    CallMatch match = finder.Match(entry);
    if (match.has_output && match.rows.size() == match.tensors && match.farthest <= kSameTensor) {
      fitting.push_back(std::move(match));
    }
  }
  if (!options.kernel_call.empty()) {
    return NotFoundError(
        fmt::format("{} has no call {}", calls.json_path.string(), options.kernel_call));
  }
  if (fitting.size() != 1) {
    std::vector<std::string> names;
    for (const CallMatch& match : fitting) {
      names.emplace_back(calls.entries[match.entry].name);
    }
    if (names.size() > kMostNames) {
      names.resize(kMostNames);
      names.emplace_back("...");
    }
    return UsageError(fitting.empty()
                          ? fmt::format("no call of {} has the tensors of the kernels",
                                        calls.json_path.string())
                          : fmt::format("several calls have the tensors of the kernels: {}",
                                        base::Join(names, ", ")))
        .WithHint("name the call: --call Functional.linear.0.forward");
  }
  return std::move(fitting.front());
}

// Keeps the rows of `match`, which are in ascending order, and lets them have the shapes and the
// spelling of dtypes that the rows of the call have.
void KeepRows(const CallMatch& match, const Side& calls, KernelSide& side) {
  Side& kernels = side.side;
  std::vector<SideRow> kept;
  kept.reserve(match.rows.size());
  auto next = match.rows.begin();
  for (SideEntry& entry : kernels.entries) {
    const uint32_t end = entry.first_row + entry.row_count;
    entry.first_row = static_cast<uint32_t>(kept.size());
    for (; next != match.rows.end() && next->first < end; ++next) {
      SideRow& row = kept.emplace_back(kernels.rows[next->first]);
      const SideRow& of_call = calls.rows[next->second];
      if (row.shape != of_call.shape) {
        side.shapes[{row.entry, row.leaf}] = *ShapeOf(of_call.shape);
        row.shape = kernels.Intern(of_call.shape);
      }
      if (ParseDType(row.dtype) == ParseDType(of_call.dtype)) {
        row.dtype = kernels.Intern(of_call.dtype);
      }
    }
    entry.row_count = static_cast<uint32_t>(kept.size()) - entry.first_row;
  }
  kernels.rows = std::move(kept);
}

std::string CallLine(const std::filesystem::path& json, std::string_view call) {
  const std::filesystem::path path = json.parent_path() / dump::kStackFileName;
  if (!base::Exists(path)) {
    return "";
  }
  const Result<dump::StackFile> stacks = dump::StackFile::Read(path);
  const std::vector<std::string>* frames = stacks.ok() ? stacks->Find(call) : nullptr;
  return frames == nullptr ? "" : UserCodeLine(*frames);
}

}  // namespace

Status LoadCallOfKernels(const Options& options, const std::filesystem::path& json,
                         KernelSide& kernels, ComparedPair& compared) {
  SideOptions side_options;
  side_options.allow_truncated = options.allow_truncated;
  if (!options.kernel_call.empty()) {
    side_options.keep_entry = [&](std::string_view name) { return name == options.kernel_call; };
  }
  MSP_ASSIGN_OR_RETURN(Side calls, LoadSide(json, side_options));
  MSP_ASSIGN_OR_RETURN(const CallMatch match, ChooseCall(options, kernels.side, calls));
  const std::string call(calls.entries[match.entry].name);
  side_options.keep_entry = [&](std::string_view name) { return name == call; };
  MSP_ASSIGN_OR_RETURN(compared.bench, LoadSide(json, side_options));
  // One entry is left, whose rows have moved to the front.
  const uint32_t first = calls.entries[match.entry].first_row;
  KeepRows(match, calls, kernels);
  compared.mapping.by_key_only = true;
  for (const auto& [kernel, row] : match.rows) {
    compared.mapping.keys.push_back(compared.bench.rows[row - first].name);
  }
  kernels.side.header.task = compared.bench.header.task;
  kernels.side.has_md5 = compared.bench.has_md5;
  const std::string line = CallLine(json, call);
  compared.call = fmt::format("The kernels belong to {}{}; {} of its {} found", call,
                              line.empty() ? "" : fmt::format(" ({})", line), match.rows.size(),
                              base::Plural(match.tensors, "tensor"));
  return {};
}

}  // namespace msprobe::analysis::compare
