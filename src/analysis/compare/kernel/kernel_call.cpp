#include "src/analysis/compare/kernel/kernel_call.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/dtype.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/kernel/call_finder.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/names_like.h"
#include "src/dump/stack_file.h"
#include "src/dump/user_code.h"

namespace msprobe::analysis::compare {
namespace {

constexpr size_t kMostNames = 5;  // in a message

// The call that options name, or the only one whose tensors are all among the kernels'.
Result<CallMatch> ChooseCall(const Options& options, const CallFinder& finder, const Side& calls) {
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
    SideOptions every_call;
    every_call.allow_truncated = options.allow_truncated;
    const Result<Side> all = LoadSide(calls.json_path, every_call);
    std::vector<std::string> names;
    for (size_t entry = 0; all.ok() && entry < all->entries.size(); ++entry) {
      names.emplace_back(all->entries[entry].name);
    }
    return NotFoundError(fmt::format("{} has no call {}", calls.json_path.string(),
                                     base::Printable(options.kernel_call)))
        .WithHint(dump::NamesLikeHint(options.kernel_call, names, calls.json_path.string()));
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
    for (; next != match.rows.end() && next->kernel < end; ++next) {
      SideRow& row = kept.emplace_back(kernels.rows[next->kernel]);
      const SideRow& of_call = calls.rows[next->call];
      if (row.shape != of_call.shape) {
        side.shapes[{row.entry, row.leaf}] = *ShapeOfText(of_call.shape);
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
  return frames == nullptr ? "" : dump::UserCodeLine(*frames);
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
  const CallFinder finder(kernels.side, calls);
  if (finder.left_out() > 0) {
    compared.warnings.push_back(finder.LeftOutText());
  }
  MSP_ASSIGN_OR_RETURN(const CallMatch match, ChooseCall(options, finder, calls));
  const std::string call(calls.entries[match.entry].name);
  side_options.keep_entry = [&](std::string_view name) { return name == call; };
  MSP_ASSIGN_OR_RETURN(compared.bench, LoadSide(json, side_options));
  // One entry is left, whose rows have moved to the front.
  const uint32_t first = calls.entries[match.entry].first_row;
  KeepRows(match, calls, kernels);
  compared.mapping.by_key_only = true;
  for (const CallMatch::Row& row : match.rows) {
    compared.mapping.keys.push_back(compared.bench.rows[row.call - first].name);
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
