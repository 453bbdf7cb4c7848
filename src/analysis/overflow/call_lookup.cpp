#include "src/analysis/overflow/call_lookup.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/kernel/kernel_compare.h"
#include "src/base/output_files.h"
#include "src/base/threads.h"
#include "src/dump/layout.h"
#include "src/dump/stack_file.h"

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

Result<CallLookup> CallLookup::Open(const fs::path& path, std::optional<int64_t> step) {
  MSP_ASSIGN_OR_RETURN(const dump::DumpLayout layout, dump::FindDump(path));
  CallLookup lookup;
  for (const dump::RankFolder& rank : layout.ranks) {
    const bool other_step = step && rank.step && *rank.step != *step;
    if (!other_step && (layout.is_single_file || rank.has_dump)) {
      RankCalls& calls = lookup.ranks_.emplace_back();
      calls.rank = rank.rank;
      calls.json = rank.folder / (layout.is_single_file ? layout.single_file_name
                                                        : std::string(dump::kDumpFileName));
    }
  }
  if (lookup.ranks_.empty()) {
    return NotFoundError(fmt::format("{} has no calls{}", path.string(),
                                     step ? fmt::format(" of step {}", *step) : ""));
  }
  return lookup;
}

void CallLookup::Read(RankCalls& rank, std::vector<std::string>& warnings) {
  rank.is_read = true;
  compare::SideOptions options;
  options.allow_truncated = true;
  Result<compare::Side> calls = compare::LoadSide(rank.json, options);
  if (!calls.ok()) {
    warnings.push_back(calls.status().message());
    return;
  }
  rank.calls = *std::move(calls);
  const fs::path path = rank.json.parent_path() / dump::kStackFileName;
  if (!base::Exists(path)) {
    return;
  }
  Result<dump::StackFile> stack = dump::StackFile::Read(path);
  if (stack.ok()) {
    rank.stack = *std::move(stack);
  } else {
    warnings.push_back(stack.status().message() + "; lines of code are left out");
  }
}

std::vector<CallLookup::RankCalls*> CallLookup::RanksOf(std::optional<int64_t> device,
                                                        std::vector<std::string>& warnings) {
  constexpr size_t kFewRanks = 8;
  std::vector<RankCalls*> ranks;
  for (RankCalls& rank : ranks_) {
    if (rank.rank && rank.rank == device) {
      ranks = {&rank};
      break;
    }
    ranks.push_back(&rank);
  }
  if (ranks.size() > kFewRanks) {
    if (!told_many_ranks_) {
      warnings.push_back(
          fmt::format("which of {} ranks ran the kernels is not known: no rank has the number of "
                      "their device; --calls names one",
                      ranks.size()));
    }
    told_many_ranks_ = true;
    return {};
  }
  for (RankCalls* rank : ranks) {
    if (!rank->is_read) {
      Read(*rank, warnings);
    }
  }
  std::erase_if(ranks, [](const RankCalls* rank) { return !rank->calls; });
  return ranks;
}

std::optional<Call> CallLookup::Find(const kernel_dump::DumpPath& kernel,
                                     std::optional<int64_t> device,
                                     std::vector<std::string>& warnings) {
  const std::vector<RankCalls*> ranks = RanksOf(device, warnings);
  base::ThreadPool pool(1);  // for one file
  compare::KernelRun run;
  run.path = kernel.path.parent_path();
  run.files = {kernel};
  const compare::KernelSide side = compare::LoadKernelSide(run, pool);
  if (side.side.rows.empty()) {
    return std::nullopt;
  }
  std::optional<Call> best;
  for (const RankCalls* rank : ranks) {
    const compare::CallFinder finder(side.side, *rank->calls);
    if (finder.left_out() > 0 && rank == ranks.front()) {
      warnings.push_back(finder.LeftOutText());
    }
    for (uint32_t entry = 0; entry < rank->calls->entries.size(); ++entry) {
      const Likeness likeness = LikenessOf(finder.Match(entry), side.side);
      if (!likeness.tells || (best && likeness.found < best->found)) {
        continue;
      }
      const std::string name(rank->calls->entries[entry].name);
      if (best && likeness.found == best->found) {
        best->others.push_back(name);
        continue;
      }
      best = Call{name, rank->json, {}, {}, likeness.found, side.side.rows.size(), {}};
      if (const auto* frames = rank->stack ? rank->stack->Find(name) : nullptr) {
        best->stack = *frames;
        best->code_line = dump::UserCodeLine(*frames);
      }
    }
  }
  return best;
}

}  // namespace msprobe::analysis::overflow
