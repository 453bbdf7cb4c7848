// One search: ranks of a step are loaded side by side, searched together (search.h), and the few
// origins that are shown are read again with all that the dump says of them. Before that, origins
// are cleared of modules around another origin and of calls that were recomputed.
#include "src/analysis/nonfinite/nan.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/status.h"

#include "src/analysis/nonfinite/overflow.h"
#include "src/analysis/nonfinite/rank_part.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/progress.h"
#include "src/base/shared_run.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/entry_scan.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/dump/record_log.h"
#include "src/dump/stack_file.h"
#include "src/json/writer.h"

namespace msprobe::analysis::nonfinite {
namespace {

// The folders of a step's ranks.

struct RankPath {
  int64_t rank = 0;
  std::filesystem::path folder;
};

struct StepFolder {
  std::filesystem::path folder;
  std::optional<int64_t> step;
  std::vector<RankPath> ranks;        // by number; with a dump
  std::vector<std::string> warnings;  // ranks without one
};

namespace fs = std::filesystem;

bool HoldsDump(const fs::path& folder) {
  return base::IsRegularFile(folder / dump::kDumpFileName) ||
         base::IsRegularFile(folder / dump::kRecordLogName);
}

// The rank folders in a folder; those without a dump become warnings.
Result<StepFolder> ReadStep(const fs::path& folder) {
  StepFolder step;
  step.folder = folder;
  step.step =
      dump::ParseStepName(fs::absolute(folder).lexically_normal().filename().string()).number;
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<std::string> processes;
  for (const std::string& name : names) {
    if (!base::IsFolder(folder / name)) {
      continue;
    }
    if (name.starts_with("proc")) {
      processes.push_back(name);
    }
    const dump::NumberedName number = dump::ParseRankName(name);
    if (!number.valid) {
      continue;
    }
    if (!HoldsDump(folder / name)) {
      step.warnings.push_back(fmt::format("{} holds no {}: that rank is left out",
                                          (folder / name).string(), dump::kDumpFileName));
      continue;
    }
    step.ranks.push_back({number.number.value_or(0), folder / name});
  }
  if (step.ranks.empty() && step.warnings.empty() && processes.size() == 1 &&
      HoldsDump(folder / processes[0])) {
    step.ranks.push_back({0, folder / processes[0]});
  }
  std::stable_sort(step.ranks.begin(), step.ranks.end(),
                   [](const RankPath& a, const RankPath& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < step.ranks.size();) {
    if (step.ranks[i].rank != step.ranks[i - 1].rank) {
      ++i;
      continue;
    }
    step.warnings.push_back(fmt::format("{} and {} are both rank {}: the latter is left out",
                                        step.ranks[i - 1].folder.string(),
                                        step.ranks[i].folder.string(), step.ranks[i].rank));
    step.ranks.erase(step.ranks.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return step;
}

std::vector<fs::path> StepsIn(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::pair<int64_t, fs::path>> steps;
  for (const std::string& name : names) {
    const dump::NumberedName number = dump::ParseStepName(name);
    if (number.valid && base::IsFolder(folder / name)) {
      steps.emplace_back(*number.number, folder / name);
    }
  }
  std::sort(steps.begin(), steps.end());
  std::vector<fs::path> paths;
  paths.reserve(steps.size());
  for (auto& [number, path] : steps) {
    paths.push_back(std::move(path));
  }
  return paths;
}

Status NotAStep(const fs::path& path) {
  return NotFoundError(fmt::format("no dump in {}: expected rank<M>/{} in it", path.string(),
                                   dump::kDumpFileName))
      .WithHint("name the folder of one step, such as dump/step0");
}

Result<fs::path> ExistingFolder(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return NotFoundError(fmt::format("{} does not exist", path.string()));
  }
  if (error) {
    return IoError(fmt::format("cannot look at {}: {}", path.string(), error.message()));
  }
  if (fs::is_directory(status)) {
    return path;
  }
  if (path.filename() == dump::kDumpFileName) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  return NotFoundError(fmt::format("{} is not a step's folder", path.string()))
      .WithHint("name the folder of one step, such as dump/step0");
}

// "rank" is rank 0, and so is a sole "proc..." folder. Accepts a step's folder, a rank's folder, a
// dump.json and the folder of one step.
Result<StepFolder> FindStep(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const fs::path folder, ExistingFolder(path));
  if (HoldsDump(folder)) {
    const fs::path named = fs::absolute(folder).lexically_normal();
    const std::string name = base::WithoutLastSlash(named).filename().string();
    StepFolder step;
    step.folder = folder;
    step.ranks.push_back({dump::ParseRankName(name).number.value_or(0), folder});
    return step;
  }
  MSP_ASSIGN_OR_RETURN(StepFolder step, ReadStep(folder));
  if (!step.ranks.empty()) {
    return step;
  }
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  const std::vector<fs::path> steps = StepsIn(folder, names);
  if (steps.size() == 1) {
    MSP_ASSIGN_OR_RETURN(StepFolder only, ReadStep(steps[0]));
    if (!only.ranks.empty()) {
      return only;
    }
  }
  if (steps.size() > 1) {
    return UsageError(fmt::format("{} holds {}", path.string(), base::Plural(steps.size(), "step")))
        .WithHint(fmt::format("choose one, such as {}, or search them all with --all-steps {}",
                              steps[0].string(), path.string()));
  }
  if (!step.warnings.empty()) {
    return NotFoundError(
        fmt::format("no rank in {} holds a {}", path.string(), dump::kDumpFileName));
  }
  return NotAStep(path);
}

// All steps of a dump, by number.
Result<std::vector<StepFolder>> FindSteps(const fs::path& path) {
  MSP_ASSIGN_OR_RETURN(const fs::path folder, ExistingFolder(path));
  MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
  std::vector<StepFolder> steps;
  for (const fs::path& found : StepsIn(folder, names)) {
    MSP_ASSIGN_OR_RETURN(StepFolder step, ReadStep(found));
    if (!step.ranks.empty()) {
      steps.push_back(std::move(step));
    }
  }
  if (steps.empty()) {
    return NotFoundError(fmt::format("no steps with dumps in {}", path.string()))
        .WithHint("--all-steps takes the folder that holds step0, step1, ...");
  }
  return steps;
}

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

  // Level L1 writes an empty file.
  bool LacksModules() {
    const dump::ConstructFile* file = Construct();
    return file != nullptr && file->empty();
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

// The inputs of a call, without what changes when it runs again.
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
    const Result<dump::EntryTree> tree = dump::ParseEntry(entry.text);
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

// The modules of one rank that are among its origins. Thousands of operators may lie below one
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
      // A module that was in none stays so: modules only become explained.
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

// Origins with all that the dump says about them, read again from the files: entries, modules and
// stacks. What cannot be read is left empty and reported in `warnings`.
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
    finding.lacks_modules = from.LacksModules();
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

}  // namespace

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
  std::vector<std::string> ignored;  // reported when the findings are described
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

namespace {

// Origins of the kind kRecomputed, compared with the first run of the same call with the same
// inputs: repetitions of an origin are dropped; those whose first run was good are found ones.
// Moves the latter from `result.weak` to `result.origins`, in order.
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

using json::Writer;

std::string_view OutcomeName(Outcome outcome) {
  constexpr std::array<std::string_view, 5> kNames = {"good", "found", "entered", "incomplete",
                                                      "nothing_searched"};
  return kNames[static_cast<size_t>(outcome)];
}

// The members of the entry that say what went in and what came out; empty ones where it has none.
void PutData(Writer& json, const Finding& finding) {
  const auto put = [&](std::string_view key, bool is_list) {
    json.Key(key);
    const bool has_members =
        finding.entry.size() > 0 && finding.entry[0].kind == dump::NodeKind::kObject;
    const uint32_t at = has_members ? finding.entry.Find(0, key) : dump::EntryTree::kNone;
    if (at != dump::EntryTree::kNone) {
      dump::WriteTree(finding.entry, at, json);
    } else {
      json.Raw(is_list ? "[]" : "{}");
    }
  };
  json.BeginObject();
  if (finding.name.find("forward") != std::string::npos) {
    put("input_args", true);
    put("input_kwargs", false);
  } else {
    put("input", true);
  }
  put("output", false);
  json.EndObject();
}

void PutFinding(Writer& json, const Finding& finding) {
  json.Member("op_name", finding.name);
  json.Key("data_info");
  PutData(json, finding);
  json.Member("construct_info", finding.modules);
  if (finding.stack.empty()) {
    json.Object("stack_info", [] {});
  } else {
    json.Member("stack_info", finding.stack);
  }
}

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void PutOperators(Writer& json, std::string_view key, const StepAnswer& answer,
                  const std::vector<Consequence>& consequences) {
  json.Objects(key, consequences, [&](const Consequence& consequence) {
    const RankDump& rank = answer.ranks[consequence.rank_place];
    const Operator& at = rank.operators[consequence.operator_place];
    json.Member("rank", rank.rank);
    json.Member("op_name", at.name);
    json.Member("index", at.index);
    json.Member("output", BadValuesText(at.output));
  });
}

void PutChain(Writer& json, const StepAnswer& answer) {
  json.Objects("chain", answer.propagation.chain, [&](const Arrival& arrival) {
    const RankDump& from = answer.ranks[arrival.from_rank];
    const RankDump& to = answer.ranks[arrival.to_rank];
    json.Member("clock", arrival.clock);
    json.Member("from_rank", from.rank);
    json.Member("from_op", from.operators[arrival.from_operator].name);
    json.Member("to_rank", to.rank);
    json.Member("to_op", to.operators[arrival.to_operator].name);
  });
  PutOperators(json, "consequences", answer, answer.propagation.consequences);
  PutOperators(json, "first_bad_gradients", answer, answer.propagation.backward);
}

// The layout that readers of the Python tool's result know: ranks, each a list of operators with
// their data, modules and stack.
std::string AnomalyJson(const StepAnswer& answer) {
  std::string text;
  Writer json(text, 2);
  json.BeginObject();
  for (const RankDump& rank : answer.ranks) {
    std::vector<const Finding*> findings;
    for (const Finding& finding : answer.findings) {
      if (finding.rank == rank.rank && finding.reported) {
        findings.push_back(&finding);
      }
    }
    if (findings.empty()) {
      continue;
    }
    json.Objects(fmt::format("rank_{}", rank.rank), findings, [&](const Finding* finding) {
      PutFinding(json, *finding);
      if (IsWeak(finding->kind)) {
        json.Member("origin_kind", OriginKindName(finding->kind));
      }
    });
  }
  json.EndObject();
  return text;
}

}  // namespace

std::string AnswerJson(const Answer& whole, int exit_code) {
  const StepAnswer& answer = whole.step;
  std::string text;
  Writer json(text, 2, Writer::NonFinite::kText);
  json.BeginObject();
  json.Member("outcome", OutcomeName(answer.outcome));
  json.Member("exit_code", exit_code);
  json.Member("folder", answer.folder.string());
  json.Member("step", answer.step);
  json.Member("good_steps", whole.good_steps);
  json.Objects("origins", answer.findings, [&](const Finding& finding) {
    json.Member("rank", finding.rank);
    json.Member("kind", OriginKindName(finding.kind));
    json.Member("made", BadValuesText(finding.made));
    json.Member("reported", finding.reported);
    json.Member("index", finding.index);
    json.Member("clock", finding.clock);
    json.Member("note", finding.note);
    PutFinding(json, finding);
    json.Member("forward_stack_info", finding.forward_stack);
  });
  json.Member("origin_count",
              uint64_t{answer.outcome == Outcome::kFound ? answer.search.origins.size()
                                                         : answer.search.weak.size()});
  PutChain(json, answer);
  json.Objects("ranks", answer.ranks, [&](const RankDump& rank) {
    json.Member("rank", rank.rank);
    json.Member("operators", rank.operator_count);
    json.Member("truncated", rank.truncated);
    json.Member("bad_from_clock",
                answer.search.bad_from[static_cast<size_t>(&rank - answer.ranks.data())]);
  });
  json.Member("matched_communications", answer.search.matched_events);
  json.Member("unmatched_calls", answer.search.unmatched_calls);
  json.Objects("device_overflows", answer.device.overflows, [&](const Overflow& noted) {
    json.Member("op_type", noted.op_type);
    json.Member("op_name", noted.op_name);
    json.Member("stream_id", noted.stream_id);
    json.Member("task_id", noted.task_id);
    json.Member("call", noted.call ? noted.call->name : std::string());
    json.Member("code", noted.call ? noted.call->code_line : std::string());
    json.Member("record", noted.record.string());
  });
  json.Member("warnings", answer.warnings);
  json.Array("files", answer.files, [&](const fs::path& file) { json.Text(file.string()); });
  json.EndObject();
  text += '\n';
  return text;
}

namespace {

// Nothing is written, not even the folder, when there is nothing to report. Adds the paths to
// `answer.files`.
Status WriteResultFiles(const Options& options, StepAnswer& answer) {
  const int64_t stamp = Nanoseconds();
  const auto write = [&](std::string_view stem, std::string_view ending,
                         const std::string& text) -> Status {
    MSP_RETURN_IF_ERROR(base::CreateFolders(options.output));
    const fs::path path = options.output / fmt::format("{}_{}{}", stem, stamp, ending);
    MSP_RETURN_IF_ERROR(base::WriteFileAtomically(path, text));
    answer.files.push_back(path);
    return {};
  };
  if (answer.outcome == Outcome::kFound || answer.outcome == Outcome::kEntered) {
    MSP_RETURN_IF_ERROR(write("anomaly_analyze", ".json", AnomalyJson(answer)));
    if (options.graph) {
      MSP_RETURN_IF_ERROR(write("anomaly_graph", ".json",
                                GraphJson(answer.ranks, answer.reported, answer.propagation)));
      MSP_RETURN_IF_ERROR(write("anomaly_graph", ".mmd",
                                GraphMermaid(answer.ranks, answer.reported, answer.propagation)));
    }
  }
  if (options.levels && !answer.levels.findings.empty()) {
    MSP_RETURN_IF_ERROR(write("anomaly_levels", ".json", LevelsJson(answer.levels)));
  }
  return {};
}

using Clock = std::chrono::steady_clock;

// Ranks are read side by side. One that cannot be read is a warning, as long as there are others.
RankPart LoadPart(const RankPath& path, const Options& options) {
  LoadOptions load;
  load.threshold = options.threshold;
  RankPart part;
  Result<RankDump> dump = LoadRank(path.rank, path.folder, load);
  if (!dump.ok()) {
    part.status = std::move(dump).status();
    return part;
  }
  part.dump = *std::move(dump);
  if (options.levels) {
    Result<std::vector<LevelFinding>> levels = JudgeRank(part.dump);
    if (levels.ok()) {
      part.levels = *std::move(levels);
    } else {
      part.levels_status = std::move(levels).status();
    }
  }
  return part;
}

// A rank of a step; places in the list of steps and in its list of ranks.
struct StepRank {
  size_t step = 0;
  size_t rank = 0;
};

// Ranks of steps, shared out over the processes of a run.
class RankLoader {
 public:
  RankLoader(const std::vector<StepFolder>& steps, const Options& options, base::ThreadPool& pool)
      : steps_(steps), options_(options), pool_(pool) {}

  Status Join() {
    MSP_ASSIGN_OR_RETURN(
        shared_, base::SharedRun::Join(options_.output, "nan_analyze", base::TimestampNow()));
    return {};
  }
  bool is_shared() const { return shared_.is_shared(); }

  // The given step, or all of them where processes share the work: they cannot know at which one
  // the search ends.
  Status Load(size_t step) {
    if (is_shared() && !parts_.empty()) {
      return {};
    }
    ranks_.clear();
    for (size_t at = is_shared() ? 0 : step; at < (is_shared() ? steps_.size() : step + 1); ++at) {
      for (size_t rank = 0; rank < steps_[at].ranks.size(); ++rank) {
        ranks_.push_back({at, rank});
      }
    }
    std::vector<base::WorkUnit> units;
    for (const StepRank& place : ranks_) {
      const fs::path& folder = PathOf(place).folder;
      units.push_back(
          base::UnitOfFiles({folder / dump::kDumpFileName, folder / dump::kRecordLogName}));
    }
    return shared_.ShareOut(
        units,
        [&](std::span<const size_t> mine, const auto& give) {
          base::Progress progress("reading", mine.size(), "ranks", options_.quiet);
          std::vector<RankPart> loaded(mine.size());
          pool_.ParallelFor(mine.size(), [&](size_t item, size_t /*worker*/) {
            loaded[item] = LoadPart(PathOf(ranks_[mine[item]]), options_);
            progress.Add(1, loaded[item].dump.size_bytes);
          });
          for (size_t item = 0; item < mine.size(); ++item) {
            give(mine[item], std::move(loaded[item]));
          }
          return Status();
        },
        parts_);
  }

  // The ranks of a step that Load() has read.
  Status Take(size_t step, StepAnswer& answer) {
    Status first_error;
    std::vector<std::vector<LevelFinding>> levels;
    for (size_t place = 0; place < ranks_.size(); ++place) {
      if (ranks_[place].step != step) {
        continue;
      }
      const int64_t rank = PathOf(ranks_[place]).rank;
      Status status = parts_[place] ? parts_[place]->status : IoError(shared_.WhyMissing(place));
      if (status.ok() && parts_[place]->dump.rank != rank) {
        status = BadFormatError("its part is that of another rank");
      }
      answer.is_incomplete = answer.is_incomplete || !parts_[place];
      if (!status.ok()) {
        answer.warnings.push_back(fmt::format("rank {} is left out: {}", rank, status.message()));
        ++answer.unread_ranks;
        first_error = first_error.ok() ? status : first_error;
        continue;
      }
      RankDump& dump = parts_[place]->dump;
      dump.folder = PathOf(ranks_[place]).folder;  // whatever a part says
      for (const std::string& warning : dump.warnings) {
        answer.warnings.push_back(fmt::format("rank {}: {}", rank, warning));
      }
      answer.operator_count += dump.operator_count;
      answer.size_bytes += dump.size_bytes;
      answer.ranks.push_back(std::move(dump));
      MSP_RETURN_IF_ERROR(std::move(parts_[place]->levels_status));
      levels.push_back(std::move(parts_[place]->levels));
    }
    answer.levels = SumUpLevels(std::move(levels));
    return answer.ranks.empty() ? first_error : Status();
  }

 private:
  const RankPath& PathOf(const StepRank& place) const {
    return steps_[place.step].ranks[place.rank];
  }

  const std::vector<StepFolder>& steps_;
  const Options& options_;
  base::ThreadPool& pool_;
  base::SharedRun shared_;
  std::vector<StepRank> ranks_;
  std::vector<std::optional<RankPart>> parts_;
};

void Choose(const Options& options, StepAnswer& answer) {
  ResolveContainers(answer.ranks, answer.search);
  const bool found = !answer.search.origins.empty();
  answer.outcome = found                         ? Outcome::kFound
                   : !answer.search.weak.empty() ? Outcome::kEntered
                                                 : Outcome::kGood;
  const bool recorded = std::any_of(answer.ranks.begin(), answer.ranks.end(),
                                    [](const RankDump& rank) { return rank.has_statistics; });
  if (answer.outcome == Outcome::kGood) {
    const bool whole =
        answer.unread_ranks == 0 &&
        std::all_of(answer.ranks.begin(), answer.ranks.end(), [](const RankDump& rank) {
          return rank.operator_count > 0 && !rank.truncated && rank.damaged == 0;
        });
    answer.outcome = !recorded ? Outcome::kNothing : whole ? Outcome::kGood : Outcome::kPartial;
    return;
  }
  const std::vector<Origin>& candidates = found ? answer.search.origins : answer.search.weak;
  if (found) {
    answer.reported = ReportedOrigins(answer.ranks, candidates);
  } else {
    answer.reported.push_back(candidates.front());
  }
  answer.propagation = Follow(answer.ranks, answer.reported, answer.search.arrivals);
  std::vector<Origin> shown = answer.reported;
  const auto is_shown = [&](const Origin& origin) {
    return std::any_of(shown.begin(), shown.end(), [&](const Origin& known) {
      return known.rank_place == origin.rank_place && known.operator_place == origin.operator_place;
    });
  };
  for (const Origin& origin : candidates) {
    if (shown.size() >= options.top) {
      break;
    }
    if (!is_shown(origin)) {
      shown.push_back(origin);
    }
  }
  answer.findings = Describe(answer.ranks, shown, answer.warnings);
  for (size_t i = 0; i < answer.reported.size(); ++i) {
    answer.findings[i].reported = true;
  }
}

constexpr int64_t kMostRecords = 16;  // of a step; later ones follow from them

// The records of a step's devices lie beside its ranks: step0/<time>/<device>/.
void NoteOverflows(StepAnswer& answer) {
  std::filesystem::path folder = answer.folder;
  const std::string name = std::filesystem::absolute(folder).lexically_normal().filename().string();
  if (dump::ParseRankName(name).valid) {
    folder = folder / "..";
  }
  if (!HoldsRecords(folder)) {
    return;
  }
  OverflowOptions options;
  options.dumps = folder;
  options.calls = answer.folder;
  options.most = kMostRecords;
  Result<OverflowFindings> findings = FindOverflows(options);
  if (!findings.ok()) {
    answer.warnings.push_back(findings.status().message());
    return;
  }
  answer.device = *std::move(findings);
  for (const auto& [path, status] : answer.device.unreadable) {
    answer.warnings.push_back(fmt::format("{}: {}", path.string(), status.message()));
  }
  for (const std::string& warning : answer.device.warnings) {
    answer.warnings.push_back(warning);
  }
}

Result<StepAnswer> AnalyzeStep(const StepFolder& folder, size_t place, const Options& options,
                               RankLoader& loader) {
  const Clock::time_point start = Clock::now();
  StepAnswer answer;
  answer.folder = folder.folder;
  answer.step = folder.step;
  answer.warnings = folder.warnings;
  MSP_RETURN_IF_ERROR(loader.Load(place));
  MSP_RETURN_IF_ERROR(loader.Take(place, answer));
  answer.search = Search(answer.ranks, {options.mask_aware});
  CompareRecomputed(answer.ranks, answer.search);
  for (std::string& warning : answer.search.warnings) {
    answer.warnings.push_back(std::move(warning));
  }
  Choose(options, answer);
  NoteOverflows(answer);
  answer.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return answer;
}

}  // namespace

Result<Answer> Run(const Options& options) {
  base::ThreadPool pool(options.threads);
  std::vector<StepFolder> steps;
  if (options.all_steps) {
    MSP_ASSIGN_OR_RETURN(steps, FindSteps(options.input));
  } else {
    MSP_ASSIGN_OR_RETURN(StepFolder step, FindStep(options.input));
    steps.push_back(std::move(step));
  }
  RankLoader loader(steps, options, pool);
  MSP_RETURN_IF_ERROR(loader.Join());
  Answer answer;
  answer.reports = base::AnswersHere();
  if (!answer.reports) {
    MSP_RETURN_IF_ERROR(loader.Load(0));
    return answer;
  }
  bool all_whole = true;
  bool is_incomplete = false;
  for (size_t place = 0; place < steps.size(); ++place) {
    if (place > 0) {
      answer.good_steps.push_back(answer.step.folder.string());
      all_whole = all_whole && answer.step.outcome == Outcome::kGood;
    }
    MSP_ASSIGN_OR_RETURN(answer.step, AnalyzeStep(steps[place], place, options, loader));
    is_incomplete = is_incomplete || answer.step.is_incomplete;
    if (answer.step.outcome == Outcome::kFound || answer.step.outcome == Outcome::kEntered) {
      break;
    }
  }
  answer.step.is_incomplete = is_incomplete;
  if (!all_whole && answer.step.outcome == Outcome::kGood) {
    answer.step.outcome = Outcome::kPartial;
  }
  MSP_RETURN_IF_ERROR(WriteResultFiles(options, answer.step));
  return answer;
}

}  // namespace msprobe::analysis::nonfinite
