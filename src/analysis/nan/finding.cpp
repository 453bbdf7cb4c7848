#include "src/analysis/nan/finding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"
#include "src/dump/entry_scan.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/stack_file.h"

namespace msprobe::analysis::nan {
namespace {

using NameSet = std::set<std::string, std::less<>>;

void SortByClock(std::vector<Origin>& origins) {
  std::stable_sort(origins.begin(), origins.end(), [](const Origin& a, const Origin& b) {
    return std::pair(a.clock, a.rank_place) < std::pair(b.clock, b.rank_place);
  });
}

// The files of one rank, opened when first needed.
class RankFiles {
 public:
  RankFiles(const RankDump& rank, std::vector<std::string>& warnings)
      : rank_(rank), warnings_(warnings) {}

  dump::EntryTree Entry(const Operator& op) {
    if (!access_) {
      access_.emplace(dump::EntryAccess::Open(rank_.folder / dump::kDumpFileName));
      Tell(access_->status());
    }
    if (!access_->ok()) {
      return {};
    }
    Result<dump::EntryTree> tree = (*access_)->Read(op.text_offset, op.text_bytes);
    Tell(tree.status());
    return tree.ok() ? *std::move(tree) : dump::EntryTree();
  }

  // Root first, the operator last; ends at what is unknown, and where names go round in a circle.
  std::vector<std::string> Modules(std::string_view name) {
    std::vector<std::string> modules = {std::string(name)};
    const dump::ConstructFile* file = Construct();
    if (file == nullptr) {
      return modules;
    }
    NameSet seen = {modules[0]};
    for (std::string_view parent = file->ParentOf(name);
         !parent.empty() && seen.emplace(parent).second; parent = file->ParentOf(parent)) {
      modules.emplace_back(parent);
    }
    std::reverse(modules.begin(), modules.end());
    return modules;
  }

  // The modules around an operator, from the inside out, without itself: visit(module) until it
  // returns false. Ends where names go round in a circle if visit() ends at what it saw before.
  template <typename Visit>
  void ForEachModuleAround(std::string_view name, Visit&& visit) {
    const dump::ConstructFile* file = Construct();
    if (file == nullptr) {
      return;
    }
    for (std::string_view parent = file->ParentOf(name); !parent.empty() && parent != name;
         parent = file->ParentOf(parent)) {
      if (!visit(parent)) {
        return;
      }
    }
  }

  // All of them, added to `modules`, which holds with a module all around it: those are not walked
  // again.
  void AddModulesAround(std::string_view name, NameSet& modules) {
    ForEachModuleAround(name,
                        [&](std::string_view module) { return modules.emplace(module).second; });
  }

  std::vector<std::string> Stack(std::string_view name) {
    if (!stacks_) {
      stacks_.emplace(dump::StackFile::Read(rank_.folder / dump::kStackFileName));
      Tell(stacks_->status());
    }
    const std::vector<std::string>* frames = stacks_->ok() ? (*stacks_)->Find(name) : nullptr;
    return frames == nullptr ? std::vector<std::string>() : *frames;
  }

 private:
  const dump::ConstructFile* Construct() {
    if (!construct_) {
      construct_.emplace(dump::ConstructFile::Read(rank_.folder / dump::kConstructFileName));
      Tell(construct_->status());
    }
    return construct_->ok() ? &**construct_ : nullptr;
  }

  void Tell(const Status& status) {
    if (!status.ok()) {
      warnings_.push_back(status.message());
    }
  }

  const RankDump& rank_;
  std::vector<std::string>& warnings_;
  std::optional<Result<dump::EntryAccess>> access_;
  std::optional<Result<dump::ConstructFile>> construct_;
  std::optional<Result<dump::StackFile>> stacks_;
};

// What a call was given, without what changes when it runs again.
std::string InputSignature(const dump::EntryTree& entry) {
  std::string signature;
  if (entry.size() == 0 || entry[0].kind != dump::NodeKind::kObject) {
    return signature;
  }
  for (const std::string_view section : {"input_args", "input_kwargs"}) {
    const uint32_t part = entry.Find(0, section);
    if (part == dump::EntryTree::kNone) {
      continue;
    }
    for (uint32_t index = part; index < entry[part].end; ++index) {
      const dump::Node& node = entry[index];
      if (node.key == "requires_grad" || node.key == "data_name" || node.key == "md5") {
        continue;
      }
      const bool is_container =
          node.kind == dump::NodeKind::kObject || node.kind == dump::NodeKind::kList;
      signature += fmt::format(
          "{}:{};", node.key,
          is_container ? fmt::format("{}", node.child_count) : dump::CompactText(entry, index));
    }
  }
  return signature;
}

struct Recomputed {
  size_t place = 0;  // in the list of weak origins
  std::string api;
  std::string signature;
  enum class FirstRun : uint8_t { kUnknown, kGood, kBad } first_run = FirstRun::kUnknown;
};

// One walk over a rank's file answers for all of its recomputed origins.
void FindFirstRuns(const RankDump& rank, std::vector<Recomputed>& wanted) {
  std::set<std::string_view> apis;
  for (const Recomputed& call : wanted) {
    apis.insert(call.api);
  }
  const auto visit = [&](const dump::ScannedEntry& entry, const dump::EntryScanOutcome&) {
    const dump::EntryName name = dump::ParseEntryName(entry.name);
    const std::string api = fmt::format("{}.{}", name.kind, name.subject);
    if (name.direction != dump::Direction::kForward || !apis.contains(api)) {
      return true;
    }
    const Result<dump::EntryTree> tree = json::ParseValueTree(entry.text);
    const Result<EntryFacts> facts =
        ReadEntryFacts(entry.text, std::numeric_limits<double>::infinity());
    if (!tree.ok() || !facts.ok() || facts->is_recompute) {
      return true;
    }
    const std::string signature = InputSignature(*tree);
    for (Recomputed& call : wanted) {
      if (call.first_run == Recomputed::FirstRun::kUnknown && call.api == api &&
          call.signature == signature) {
        call.first_run =
            facts->output == 0 ? Recomputed::FirstRun::kGood : Recomputed::FirstRun::kBad;
      }
    }
    return true;
  };
  // The file was read a moment ago; should it be gone, the first runs stay unknown.
  static_cast<void>(dump::ScanEntries(rank.folder / dump::kDumpFileName, visit).ok());
}

// Says so when the operator or a module around it had bad weights.
std::string NoteOnParameters(const RankDump& rank, const std::vector<std::string>& modules) {
  for (auto name = modules.rbegin(); name != modules.rend(); ++name) {
    const auto found =
        std::find_if(rank.operators.begin(), rank.operators.end(),
                     [&](const Operator& op) { return op.has_bad_parameters && op.name == *name; });
    if (found != rank.operators.end()) {
      return fmt::format("the weights of {} were bad before it ran: look at an earlier step",
                         base::Printable(*name));
    }
  }
  return {};
}

// The modules of one rank that stand among its origins. Thousands of operators may lie below one
// chain of modules: no module is walked over twice for the same question.
struct Containers {
  NameSet modules;
  NameSet explained;  // with a module all around it
  std::optional<RankFiles> files;

  // Whether one of `modules` that is not explained lies around the operator.
  bool IsInsideUnexplained(std::string_view name) {
    bool inside = false;
    files->ForEachModuleAround(name, [&](std::string_view module) {
      if (explained.contains(module)) {
        return false;
      }
      inside = modules.contains(module);
      // What was in none stays so: modules only become explained.
      return !inside && in_none_.emplace(module).second;
    });
    return inside;
  }

  // Whether one of `modules` lies around the operator.
  bool IsInside(std::string_view name) {
    bool inside = false;
    std::vector<std::string_view> walked;
    files->ForEachModuleAround(name, [&](std::string_view module) {
      const auto [known, is_new] = inside_.try_emplace(std::string(module), false);
      inside = is_new ? modules.contains(module) : known->second;
      if (is_new) {
        walked.push_back(known->first);
      }
      return is_new && !inside;
    });
    if (inside) {
      for (const std::string_view module : walked) {
        inside_.find(module)->second = true;
      }
    }
    return inside;
  }

 private:
  NameSet in_none_;  // looked at without finding one that is not explained
  std::map<std::string, bool, std::less<>> inside_;
};

}  // namespace

std::vector<Finding> Describe(std::span<const RankDump> ranks, std::span<const Origin> origins,
                              std::vector<std::string>& warnings) {
  std::map<uint32_t, RankFiles> files;
  std::vector<Finding> findings;
  for (const Origin& origin : origins) {
    const RankDump& rank = ranks[origin.rank_place];
    const Operator& op = rank.operators[origin.operator_place];
    RankFiles& from = files.try_emplace(origin.rank_place, rank, warnings).first->second;
    Finding finding;
    finding.rank = rank.rank;
    finding.name = op.name;
    finding.index = op.index;
    finding.clock = origin.clock;
    finding.kind = origin.kind;
    finding.made = origin.made;
    finding.note = origin.note;
    finding.entry = from.Entry(op);
    finding.modules = from.Modules(op.name);
    finding.stack = from.Stack(op.name);
    if (finding.stack.empty() &&
        dump::ParseEntryName(op.name).direction == dump::Direction::kBackward) {
      finding.forward_stack = from.Stack(dump::WithDirection(op.name, dump::Direction::kForward));
    }
    if (finding.kind == OriginKind::kExternalInput) {
      finding.note = NoteOnParameters(rank, finding.modules);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

void ResolveContainers(std::span<const RankDump> ranks, SearchResult& result) {
  const auto name_of = [&](const Origin& origin) {
    return ranks[origin.rank_place].operators[origin.operator_place].name;
  };
  std::map<uint32_t, Containers> by_rank;  // ranks with modules among their origins
  for (const Origin& origin : result.origins) {
    if (dump::ParseEntryName(name_of(origin)).is_module) {
      by_rank[origin.rank_place].modules.emplace(name_of(origin));
    }
  }
  if (by_rank.empty()) {
    return;
  }
  std::vector<std::string> ignored;  // told when the findings are described
  for (auto& [place, containers] : by_rank) {
    containers.files.emplace(ranks[place], ignored);
    for (const Operator& op : ranks[place].operators) {
      const bool brought_it = op.call != Operator::kNoCall && op.output != 0;
      if (op.has_bad_parameters || brought_it) {
        containers.files->AddModulesAround(op.name, containers.explained);
      }
    }
  }
  for (const Origin& origin : result.origins) {
    if (const auto found = by_rank.find(origin.rank_place); found != by_rank.end()) {
      found->second.files->AddModulesAround(name_of(origin), found->second.explained);
    }
  }
  std::vector<Origin> weak;
  for (Origin& origin : result.weak) {
    const auto found = by_rank.find(origin.rank_place);
    const bool looks = origin.kind == OriginKind::kExternalInput && found != by_rank.end();
    if (looks && found->second.IsInsideUnexplained(name_of(origin))) {
      found->second.files->AddModulesAround(name_of(origin), found->second.explained);
      origin.kind = OriginKind::kUnrecorded;
      result.origins.push_back(std::move(origin));
    } else if (!origin.behind_module || (looks && found->second.IsInside(name_of(origin)))) {
      weak.push_back(std::move(origin));
    }
  }
  result.weak = std::move(weak);
  std::erase_if(result.origins, [&](const Origin& origin) {
    const auto found = by_rank.find(origin.rank_place);
    return found != by_rank.end() && found->second.explained.contains(name_of(origin));
  });
  SortByClock(result.origins);
}

void CompareRecomputed(std::span<const RankDump> ranks, SearchResult& result) {
  constexpr size_t kMostPerRank = 64;
  std::map<uint32_t, std::vector<Recomputed>> by_rank;
  std::vector<std::string> ignored;
  for (size_t i = 0; i < result.weak.size(); ++i) {
    const Origin& origin = result.weak[i];
    std::vector<Recomputed>& wanted = by_rank[origin.rank_place];
    if (origin.kind != OriginKind::kRecomputed || wanted.size() >= kMostPerRank) {
      continue;
    }
    const RankDump& rank = ranks[origin.rank_place];
    const Operator& op = rank.operators[origin.operator_place];
    const dump::EntryName name = dump::ParseEntryName(op.name);
    Recomputed recomputed;
    recomputed.place = i;
    recomputed.api = fmt::format("{}.{}", name.kind, name.subject);
    recomputed.signature = InputSignature(RankFiles(rank, ignored).Entry(op));
    wanted.push_back(std::move(recomputed));
  }
  std::vector<bool> drop(result.weak.size(), false);
  for (auto& [place, wanted] : by_rank) {
    if (wanted.empty()) {
      continue;
    }
    FindFirstRuns(ranks[place], wanted);
    for (const Recomputed& call : wanted) {
      if (call.first_run == Recomputed::FirstRun::kUnknown) {
        continue;
      }
      drop[call.place] = true;
      if (call.first_run == Recomputed::FirstRun::kGood) {
        Origin origin = result.weak[call.place];
        origin.kind = OriginKind::kComputed;
        origin.note = "its first run with the same inputs was good: it is bad only when recomputed";
        result.origins.push_back(std::move(origin));
      }
    }
  }
  std::vector<Origin> weak;
  for (size_t i = 0; i < result.weak.size(); ++i) {
    if (!drop[i]) {
      weak.push_back(result.weak[i]);
    }
  }
  result.weak = std::move(weak);
  SortByClock(result.origins);
}

}  // namespace msprobe::analysis::nan
