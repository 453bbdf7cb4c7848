#include "src/analysis/overflow/call_lookup.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/code_line.h"
#include "src/analysis/compare/kernel/call_finder.h"
#include "src/analysis/compare/kernel/kernel_side.h"
#include "src/base/path_kind.h"
#include "src/base/thread_pool.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::overflow {
namespace {

namespace fs = std::filesystem;

// Of a kernel's tensors: how many are tensors of the call, and whether that is telling.
struct Likeness {
  size_t found = 0;
  bool tells = false;
};

Likeness LikenessOf(const compare::CallMatch& match, const compare::Side& kernel) {
  Likeness likeness;
  size_t inputs = 0;
  size_t found_inputs = 0;
  for (const compare::SideRow& row : kernel.rows) {
    inputs += compare::IsInput(row) ? 1 : 0;
  }
  for (const compare::CallMatch::Row& row : match.rows) {
    if (row.distance > compare::kSameTensor) {
      continue;
    }
    ++likeness.found;
    const bool is_input = compare::IsInput(kernel.rows[row.kernel]);
    found_inputs += is_input ? 1 : 0;
    likeness.tells = likeness.tells || !is_input;
  }
  likeness.tells = likeness.tells || (inputs > 0 && found_inputs == inputs);
  return likeness;
}

}  // namespace

Result<CallLookup> CallLookup::Open(const fs::path& path, std::optional<int64_t> step,
                                    std::vector<std::string>& warnings) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  CallLookup lookup;
  bool other_steps = false;
  for (const dump::RankFolder& rank : layout.ranks) {
    if (step && rank.step && *rank.step != *step) {
      other_steps = true;
      continue;
    }
    if (!layout.is_single_file && !rank.has_dump) {
      continue;
    }
    const fs::path json = rank.folder / (layout.is_single_file ? layout.single_file_name
                                                               : std::string(dump::kDumpFileName));
    compare::SideOptions options;
    options.allow_truncated = true;
    Result<compare::Side> calls = compare::LoadSide(json, options);
    if (!calls.ok()) {
      warnings.push_back(calls.status().message());
      continue;
    }
    RankCalls loaded{rank.rank, *std::move(calls), std::nullopt};
    const fs::path stack = rank.folder / dump::kStackFileName;
    if (base::Exists(stack)) {
      Result<dump::StackFile> frames = dump::StackFile::Read(stack);
      if (frames.ok()) {
        loaded.stack = *std::move(frames);
      } else {
        warnings.push_back(frames.status().message() + "; lines of code are left out");
      }
    }
    lookup.ranks_.push_back(std::move(loaded));
  }
  if (lookup.ranks_.empty()) {
    return NotFoundError(other_steps
                             ? fmt::format("{} has no calls of step {}", path.string(), *step)
                             : fmt::format("no rank of {} can be read", path.string()));
  }
  return lookup;
}

std::optional<Call> CallLookup::Find(const kernel_dump::DumpPath& kernel,
                                     std::optional<int64_t> device) const {
  base::ThreadPool pool(1);  // for one file
  compare::KernelRun run;
  run.path = kernel.path.parent_path();
  run.files = {kernel};
  const compare::KernelSide side = compare::LoadKernelSide(run, pool);
  if (side.side.rows.empty()) {
    return std::nullopt;
  }
  std::optional<Call> best;
  bool best_is_own = false;
  for (const RankCalls& rank : ranks_) {
    const bool is_own = rank.rank && rank.rank == device;
    const compare::CallFinder finder(side.side, rank.calls);
    for (uint32_t entry = 0; entry < rank.calls.entries.size(); ++entry) {
      const compare::CallMatch match = finder.Match(entry);
      const Likeness likeness = LikenessOf(match, side.side);
      const std::string name(rank.calls.entries[entry].name);
      if (!likeness.tells) {
        continue;
      }
      const bool as_good = best && likeness.found == best->found && is_own == best_is_own;
      if (as_good) {
        best->others.push_back(name);
        continue;
      }
      if (best &&
          (likeness.found < best->found || (likeness.found == best->found && best_is_own))) {
        continue;
      }
      best_is_own = is_own;
      best = Call{name, rank.calls.json_path, {}, {}, likeness.found, side.side.rows.size(), {}};
      if (const auto* frames = rank.stack ? rank.stack->Find(name) : nullptr) {
        best->stack = *frames;
        best->code_line = compare::UserCodeLine(*frames);
      }
    }
  }
  return best;
}

}  // namespace msprobe::analysis::overflow
