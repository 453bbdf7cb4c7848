// The plan of joined pairs.
//
// For each side the places of its ranks in a grid (stage, replica of the data, part of the context,
// part of the tensors) come from what the user gives, else from layout.json, else from the dumps:
// ranks of which each records other modules are stages, ranks that are fed the same share tensors,
// ranks that are fed something else are replicas. Sides whose grids are equal are left to the plan
// that pairs ranks by their numbers. Otherwise ranks are joined: one pair per replica where both
// sides have as many, else all of a step. Without any record, ranks are joined only where their
// numbers differ and calls of both first ranks have other shapes; a rank that is merely missing
// stays one.
#include "src/analysis/compare/layouts/plan.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_view.h"

#include "src/analysis/compare/pairing.h"
#include "src/base/strings.h"
#include "src/dump/call_facts.h"
#include "src/dump/names.h"

namespace msprobe::analysis::compare {

std::string_view LayoutSourceName(LayoutFacts::Source source) {
  constexpr std::array<std::string_view, 3> kNames = {"recorded", "inferred", "given"};
  return kNames[static_cast<size_t>(source)];
}

std::string LayoutText(const LayoutFacts& facts) {
  std::vector<std::string> parts;
  const std::pair<std::string_view, int64_t> sizes[] = {
      {"TP", facts.tensor},  {"PP", facts.pipeline}, {"DP", facts.data},
      {"CP", facts.context}, {"EP", facts.expert},   {"FSDP", facts.fully_sharded}};
  for (const auto& [name, size] : sizes) {
    if (size > 1) {
      parts.push_back(fmt::format("{} {}", name, size));
    }
  }
  return fmt::format("{}{}{}", base::Join(parts, " x "), parts.empty() ? "" : ", ",
                     base::Plural(facts.ranks.size(), "rank"));
}

namespace layouts {
namespace {

using layout::Group;
using layout::RankLayout;

// The ranks of one side in one step, with the layout of the run.
struct RunLayout {
  std::vector<JoinedRank> ranks;
  LayoutFacts facts;
  bool is_known = false;  // recorded, given or inferred
  int64_t replicas = 1;
};

int64_t PlaceIn(const std::vector<int64_t>& group, int64_t rank) {
  const auto found = std::find(group.begin(), group.end(), rank);
  return found == group.end() ? 0 : found - group.begin();
}

bool IsWithin(std::vector<int64_t> part, std::vector<int64_t> whole) {
  std::sort(part.begin(), part.end());
  std::sort(whole.begin(), whole.end());
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

// Replicas of the data are the ranks of dp and of fsdp, which may be one inside of the other.
int64_t DataPlace(const RankLayout& record, int64_t rank) {
  const std::vector<int64_t>& data = record.GroupOf(Group::kData);
  const std::vector<int64_t>& sharded = record.GroupOf(Group::kFullySharded);
  if (sharded.empty() || IsWithin(sharded, data)) {
    return PlaceIn(data, rank);
  }
  if (data.empty() || IsWithin(data, sharded)) {
    return PlaceIn(sharded, rank);
  }
  return PlaceIn(data, rank) * static_cast<int64_t>(sharded.size()) + PlaceIn(sharded, rank);
}

void TakeSizes(const RankLayout& record, LayoutFacts& facts) {
  const std::pair<Group, int64_t*> sizes[] = {
      {Group::kTensor, &facts.tensor}, {Group::kPipeline, &facts.pipeline},
      {Group::kData, &facts.data},     {Group::kContext, &facts.context},
      {Group::kExpert, &facts.expert}, {Group::kFullySharded, &facts.fully_sharded}};
  for (const auto& [group, size] : sizes) {
    *size = std::max<int64_t>(*size, static_cast<int64_t>(record.GroupOf(group).size()));
  }
}

void PlaceByRecords(RunLayout& run) {
  for (JoinedRank& rank : run.ranks) {
    const RankLayout& record = *rank.record;
    rank.place.tensor = PlaceIn(record.GroupOf(Group::kTensor), rank.rank);
    rank.place.context = PlaceIn(record.GroupOf(Group::kContext), rank.rank);
    rank.place.stage = PlaceIn(record.GroupOf(Group::kPipeline), rank.rank);
    rank.place.data = DataPlace(record, rank.rank);
    TakeSizes(record, run.facts);
    run.facts.source =
        record.is_given ? LayoutFacts::Source::kGiven : LayoutFacts::Source::kRecorded;
  }
  run.is_known = true;
}

// Ranks that differ in nothing that is known are replicas: experts shared out over ranks that no
// other group tells apart, say.
void SeparateEqualPlaces(RunLayout& run) {
  std::map<std::array<int64_t, 4>, std::vector<JoinedRank*>> places;
  for (JoinedRank& rank : run.ranks) {
    places[{rank.place.stage, rank.place.data, rank.place.context, rank.place.tensor}].push_back(
        &rank);
  }
  int64_t most = 1;
  for (const auto& [place, ranks] : places) {
    most = std::max<int64_t>(most, static_cast<int64_t>(ranks.size()));
  }
  for (const auto& [place, ranks] : places) {
    for (size_t i = 0; i < ranks.size() && most > 1; ++i) {
      ranks[i]->place.data = ranks[i]->place.data * most + static_cast<int64_t>(i);
    }
  }
}

void CountReplicas(RunLayout& run) {
  std::set<int64_t> replicas;
  for (const JoinedRank& rank : run.ranks) {
    replicas.insert(rank.place.data);
  }
  run.replicas = static_cast<int64_t>(replicas.size());
}

// ---- from the dumps ----

uint64_t Mixed(uint64_t hash, uint64_t more) { return hash * 1099511628211ULL + more; }

// What a rank does: its modules, else the names of its calls without numbers, communication left
// out.
uint64_t CallsOf(const Side& side) {
  uint64_t modules = 0;
  uint64_t functions = 0;
  for (const SideEntry& entry : side.entries) {
    const dump::EntryName name = dump::ParseEntryName(entry.name);
    if (name.direction == dump::Direction::kBackward) {
      break;  // behind it optimizers work, each rank with its own parameters
    }
    if (name.direction == dump::Direction::kForward && name.kind != "Distributed") {
      uint64_t& hash = name.is_module ? modules : functions;
      hash = Mixed(hash, std::hash<std::string_view>()(name.subject));
    }
  }
  return modules != 0 ? modules : functions;  // modules of a stage are the same on all its ranks
}

// What a rank is fed: the statistics of integer inputs of its first calls, else of the first input.
struct Fed {
  uint64_t hash = 0;
  std::string_view shape;
};
Fed FedTo(const Side& side) {
  constexpr size_t kFirstCalls = 32;
  Fed first;
  size_t calls = 0;
  for (const SideEntry& entry : side.entries) {
    // What cuts a batch has the whole of it on every rank.
    if (MovesData(dump::ParseEntryName(entry.name))) {
      continue;
    }
    if (++calls > kFirstCalls) {
      break;
    }
    for (uint32_t i = 0; i < entry.row_count; ++i) {
      const SideRow& row = side.rows[entry.first_row + i];
      if (!IsInput(row) || !row.is_tensor) {
        continue;
      }
      uint64_t hash = std::hash<std::string_view>()(row.shape);
      for (const StatValue& stat : row.stats) {
        hash = Mixed(hash, std::hash<double>()(stat.is_numeric() ? stat.number : 0));
      }
      if (row.dtype.find("int") != std::string_view::npos) {
        return {hash, row.shape};
      }
      first = first.hash == 0 ? Fed{hash, row.shape} : first;
    }
  }
  return first;
}

std::vector<std::vector<JoinedRank*>> GroupsBy(
    const std::vector<JoinedRank*>& ranks,
    const std::unordered_map<const JoinedRank*, uint64_t>& value) {
  std::vector<std::vector<JoinedRank*>> groups;
  std::map<uint64_t, size_t> place_of;
  for (JoinedRank* const rank : ranks) {
    const auto [found, is_new] = place_of.emplace(value.at(rank), groups.size());
    if (is_new) {
      groups.emplace_back();
    }
    groups[found->second].push_back(rank);
  }
  return groups;
}

}  // namespace

RankTraits TraitsOf(const Side& side) { return {CallsOf(side), FedTo(side).hash}; }

bool PlaceByTraits(const std::vector<JoinedRank*>& all, const std::vector<RankTraits>& traits,
                   LayoutFacts& facts) {
  std::unordered_map<const JoinedRank*, uint64_t> calls;
  std::unordered_map<const JoinedRank*, uint64_t> fed;
  for (size_t i = 0; i < all.size(); ++i) {
    calls[all[i]] = traits[i].calls;
    fed[all[i]] = traits[i].fed;
  }
  const auto stages = GroupsBy(all, calls);
  for (const auto& stage : stages) {
    if (stage.size() != stages[0].size()) {
      return false;
    }
  }
  // Only the first stage is fed by the user's data; others stand in its order.
  const auto groups = GroupsBy(stages[0], fed);
  for (const auto& group : groups) {
    if (group.size() != groups[0].size()) {
      return false;
    }
  }
  for (size_t group = 0; group < groups.size(); ++group) {
    for (size_t i = 0; i < groups[group].size(); ++i) {
      groups[group][i]->place = {0, static_cast<int64_t>(group), 0, static_cast<int64_t>(i)};
    }
  }
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (size_t i = 0; i < stages[stage].size(); ++i) {
      stages[stage][i]->place = stages[0][i]->place;
      stages[stage][i]->place.stage = static_cast<int64_t>(stage);
    }
  }
  facts.pipeline = static_cast<int64_t>(stages.size());
  facts.data = static_cast<int64_t>(groups.size());
  facts.tensor = static_cast<int64_t>(groups[0].size());
  return true;
}

void TellContext(const std::vector<JoinedRank*>& ranks, const Side& own, const Side& other,
                 LayoutFacts& facts) {
  const auto sizes_of = [](std::string_view text) {
    const std::optional<Shape> shape = ParseShape(text);
    return shape && shape->size() == 2 ? std::pair((*shape)[0], (*shape)[1])
                                       : std::pair<int64_t, int64_t>(0, 0);
  };
  const auto [samples, length] = sizes_of(FedTo(own).shape);
  const auto [all_samples, all_length] = sizes_of(FedTo(other).shape);
  if (samples <= 0 || length <= 0 || all_samples % samples != 0 || all_length % length != 0) {
    return;
  }
  const int64_t parts = all_length / length;
  if (parts < 2 || parts * (all_samples / samples) != facts.data) {
    return;
  }
  for (JoinedRank* const rank : ranks) {
    rank->place.context = rank->place.data % parts;
    rank->place.data /= parts;
  }
  facts.context = parts;
  facts.data /= parts;
}

namespace {

// ---- the plan ----

using Steps = std::map<std::optional<int64_t>, std::vector<dump::RankFolder>>;

Steps StepsOf(const dump::DumpLayout& layout) {
  Steps steps;
  for (const dump::RankFolder& folder : layout.ranks) {
    if (folder.has_dump && !folder.process) {
      steps[folder.step].push_back(folder);
    }
  }
  return steps;
}

class Planner {
 public:
  Planner(const Options& options, base::ThreadPool& pool, std::vector<std::string>& notes)
      : options_(options), pool_(pool), notes_(notes) {}

  Result<PairingPlan> Plan(Result<PairingPlan> plan) {
    if (options_.layout.none || options_.backend() != TrainingBackend::kNone) {
      return plan;
    }
    std::optional<layout::GivenLayouts> given;
    if (!options_.layout.file.empty()) {
      MSP_ASSIGN_OR_RETURN(given, layout::GivenLayouts::Read(options_.layout.file));
    }
    Result<dump::DumpLayout> npu = dump::FindDump(options_.npu_path);
    Result<dump::DumpLayout> bench = dump::FindDump(options_.bench_path);
    if (!npu.ok() || !bench.ok()) {
      return plan;  // its own error says why
    }
    const Steps npu_steps = StepsOf(*npu);
    const Steps bench_steps = StepsOf(*bench);
    if (npu_steps.empty() || bench_steps.empty()) {
      return plan;
    }
    MSP_ASSIGN_OR_RETURN(RunLayout npu_run, LayoutOf(true, npu_steps, given));
    MSP_ASSIGN_OR_RETURN(RunLayout bench_run, LayoutOf(false, bench_steps, given));
    if (!Differ(npu_run, bench_run, plan.ok())) {
      if (plan.ok()) {
        Describe(npu_run, bench_run, *plan);
        CheckReplicas(true, npu_run, npu_steps, *plan);
        CheckReplicas(false, bench_run, bench_steps, *plan);
      }
      return plan;
    }
    if (npu->is_single_file || bench->is_single_file) {
      return plan;
    }
    return Join(npu_steps, bench_steps, npu_run, bench_run);
  }

 private:
  // The layout of a run by the records of its first step.
  Result<RunLayout> LayoutOf(bool of_npu, const Steps& steps,
                             const std::optional<layout::GivenLayouts>& given) {
    RunLayout run;
    const std::vector<dump::RankFolder>& folders = steps.begin()->second;
    const auto world = static_cast<int64_t>(folders.size());
    const auto rank_of = [&](size_t i) {
      return folders[i].rank.value_or(static_cast<int64_t>(i));
    };
    std::vector<Result<std::optional<RankLayout>>> records(folders.size(),
                                                           std::optional<RankLayout>());
    pool_.ParallelFor(folders.size(), [&](size_t i, size_t) {
      if (given) {
        records[i] = given->Of(of_npu, rank_of(i), world);
      }
      if (records[i].ok() && !records[i]->has_value()) {
        records[i] = layout::ReadLayout(folders[i].folder);
      }
    });
    size_t recorded = 0;
    for (size_t i = 0; i < folders.size(); ++i) {
      JoinedRank& rank = run.ranks.emplace_back();
      rank.folder = folders[i];
      rank.rank = rank_of(i);
      MSP_ASSIGN_OR_RETURN(std::optional<RankLayout> record, std::move(records[i]));
      if (record) {
        if (!record->is_given && record->rank && folders[i].rank &&
            *record->rank != *folders[i].rank) {
          notes_.push_back(fmt::format("{}: its layout.json is that of rank {}; it is left aside",
                                       folders[i].folder.string(), *record->rank));
          continue;
        }
        rank.record = std::make_shared<const RankLayout>(*std::move(record));
        ++recorded;
      }
      run.facts.ranks.push_back(rank.rank);
    }
    const bool has_groups =
        recorded == run.ranks.size() &&
        (run.ranks.size() == 1 ||
         std::all_of(run.ranks.begin(), run.ranks.end(),
                     [](const JoinedRank& rank) { return rank.record->HasGroups(); }));
    if (has_groups) {
      PlaceByRecords(run);
      SeparateEqualPlaces(run);
      NoteMissingRanks(of_npu, run);
    } else if (recorded == run.ranks.size()) {
      NoteMissingRanks(of_npu, run);  // places come from the dumps
    } else if (recorded > 0) {
      notes_.push_back(
          fmt::format("{} of {} rank folders of the {} side have a layout.json: what "
                      "they say is left aside",
                      recorded, run.ranks.size(), of_npu ? "test" : "reference"));
      for (JoinedRank& rank : run.ranks) {
        rank.record = nullptr;
      }
    }
    CountReplicas(run);
    return run;
  }

  void NoteMissingRanks(bool of_npu, const RunLayout& run) {
    const std::optional<int64_t> world = run.ranks[0].record->world_size;
    if (!world || static_cast<size_t>(*world) <= run.ranks.size() ||
        run.ranks[0].record->is_given) {
      return;
    }
    std::vector<std::string> missing;
    const std::set<int64_t> there(run.facts.ranks.begin(), run.facts.ranks.end());
    for (int64_t rank = 0; rank < *world && missing.size() < 8; ++rank) {
      if (!there.contains(rank)) {
        missing.push_back(std::to_string(rank));
      }
    }
    const auto count = static_cast<size_t>(*world) - run.ranks.size();
    notes_.push_back(fmt::format(
        "the {} side ran on {} ranks, of which the dump lacks {}: {}{}; tensors that they share "
        "are "
        "not whole",
        of_npu ? "test" : "reference", *world, count, base::Join(missing, ", "),
        count > missing.size() ? fmt::format(" and {} more", count - missing.size()) : ""));
  }

  // Whether ranks must be joined. Fills in what the dumps tell of a side without records.
  bool Differ(RunLayout& npu, RunLayout& bench, bool pairs_by_number) {
    if (npu.is_known && bench.is_known) {
      return !HaveEqualGrids(npu, bench) || (!HasMapping() && HaveOtherNames(npu, bench));
    }
    if (npu.ranks.size() == 1 && bench.ranks.size() == 1) {
      return false;
    }
    if (!npu.is_known && !bench.is_known && npu.ranks.size() == bench.ranks.size() &&
        pairs_by_number) {
      // Ranks pair by their numbers unless the dumps prove other grids: shapes differ, and ranks
      // are fed the same on one side alone. What is inferred counts only then.
      RunLayout npu_try = npu;
      RunLayout bench_try = bench;
      if (!InferGrids(npu_try, bench_try).value_or(false) || HaveEqualGrids(npu_try, bench_try)) {
        return false;
      }
      npu = std::move(npu_try);
      bench = std::move(bench_try);
      return true;
    }
    const std::optional<bool> inferred = InferGrids(npu, bench);
    if (!inferred) {
      return false;
    }
    if (!*inferred) {
      notes_.push_back(
          "the ranks of the two sides differ, and neither a layout.json nor the calls tell how "
          "they "
          "share the model: ranks are compared by their numbers; --layout FILE says how");
      return false;
    }
    return !HaveEqualGrids(npu, bench);
  }

  // Places the ranks of a side that is not known by its dumps. nullopt: there is nothing to infer.
  std::optional<bool> InferGrids(RunLayout& npu, RunLayout& bench) {
    // A rank that cannot be read is its pair's trouble, not that of all.
    const Result<Side> npu_first = LoadRank(npu.ranks.front());
    const Result<Side> bench_first = LoadRank(bench.ranks.front());
    if (!npu_first.ok() || !bench_first.ok() ||
        (!npu.is_known && !bench.is_known && !HaveOtherShapes(*npu_first, *bench_first) &&
         (npu.ranks.size() == bench.ranks.size() || !HaveOtherModules(*npu_first, *bench_first)))) {
      return std::nullopt;
    }
    for (RunLayout* const run : {&npu, &bench}) {
      if (run->is_known) {
        continue;
      }
      const std::optional<std::vector<RankTraits>> traits = ReadTraits(*run);
      if (!traits) {
        return std::nullopt;
      }
      run->is_known = PlaceByTraits(Pointers(*run), *traits, run->facts);
      if (!run->is_known) {
        return false;
      }
    }
    for (const bool of_npu : {true, false}) {
      RunLayout& own = of_npu ? npu : bench;
      const RunLayout& other = of_npu ? bench : npu;
      if (own.facts.source == LayoutFacts::Source::kInferred && other.facts.data == 1) {
        TellContext(Pointers(own), of_npu ? *npu_first : *bench_first,
                    of_npu ? *bench_first : *npu_first, own.facts);
      }
    }
    CountReplicas(npu);
    CountReplicas(bench);
    return true;
  }

  static std::vector<JoinedRank*> Pointers(RunLayout& run) {
    std::vector<JoinedRank*> ranks;
    for (JoinedRank& rank : run.ranks) {
      ranks.push_back(&rank);
    }
    return ranks;
  }

  // Ranks are read side by side, and two numbers kept of each. nullopt: one cannot be read.
  std::optional<std::vector<RankTraits>> ReadTraits(const RunLayout& run) const {
    std::vector<RankTraits> traits(run.ranks.size());
    std::vector<uint8_t> is_read(run.ranks.size());
    pool_.ParallelFor(run.ranks.size(), [&](size_t i, size_t) {
      if (const Result<Side> side = LoadRank(run.ranks[i]); side.ok()) {
        traits[i] = TraitsOf(*side);
        is_read[i] = 1;
      }
    });
    return std::count(is_read.begin(), is_read.end(), 0) == 0 ? std::optional(std::move(traits))
                                                              : std::nullopt;
  }

  Result<Side> LoadRank(const JoinedRank& rank) const {
    SideOptions side_options;
    side_options.allow_truncated = options_.allow_truncated;
    side_options.edition = options_.edition();
    return LoadSide(rank.folder.folder / dump::kDumpFileName, side_options);
  }

  // Rows of one name with other shapes: the model, or its data, is cut otherwise.
  static bool HaveOtherShapes(const Side& npu, const Side& bench) {
    std::unordered_map<std::string_view, std::string_view> shapes;
    for (const SideRow& row : bench.rows) {
      if (row.is_tensor) {
        shapes.emplace(row.name, row.shape);
      }
    }
    return std::any_of(npu.rows.begin(), npu.rows.end(), [&](const SideRow& row) {
      const auto found = row.is_tensor ? shapes.find(row.name) : shapes.end();
      return found != shapes.end() && found->second != row.shape;
    });
  }

  // No module of one has the name of one of the other: they have other parts of the model, or
  // number its chunks.
  static bool HaveOtherModules(const Side& npu, const Side& bench) {
    std::array<std::unordered_set<std::string_view>, 2> paths;
    for (size_t side = 0; side < 2; ++side) {
      for (const SideEntry& entry : (side == 0 ? npu : bench).entries) {
        if (const dump::EntryName name = dump::ParseEntryName(entry.name); name.is_module) {
          paths[side].insert(name.subject);
        }
      }
    }
    return !paths[0].empty() && !paths[1].empty() &&
           std::none_of(paths[0].begin(), paths[0].end(), [&](std::string_view path) {
             return !path.empty() && paths[1].contains(path);
           });
  }

  // The user says which rows are partners.
  bool HasMapping() const {
    const MatchRules& match = options_.match;
    return match.data_mapping.given || match.cell_mapping.given || match.api_mapping.given ||
           match.layer_mapping.given;
  }

  // Few parameters of one side have a name of the other's: another implementation.
  static bool HaveOtherNames(const RunLayout& npu, const RunLayout& bench) {
    constexpr size_t kKnownShare = 2;  // one of as many is known
    const auto& first = npu.ranks[0].record;
    const auto& other = bench.ranks[0].record;
    if (!first || !other || first->parameters.empty() || other->parameters.empty()) {
      return false;
    }
    std::unordered_set<std::string> names;
    for (const auto& [name, parameter] : other->parameters) {
      names.insert(other->GlobalPath(name));
    }
    const auto known = static_cast<size_t>(std::count_if(
        first->parameters.begin(), first->parameters.end(),
        [&](const auto& one) { return names.contains(first->GlobalPath(one.first)); }));
    return known * kKnownShare < std::min(first->parameters.size(), names.size());
  }

  static bool HaveEqualGrids(const RunLayout& npu, const RunLayout& bench) {
    if (npu.ranks.size() != bench.ranks.size()) {
      return false;
    }
    for (size_t i = 0; i < npu.ranks.size(); ++i) {
      const JoinedRank& n = npu.ranks[i];
      const JoinedRank& b = bench.ranks[i];
      if (n.place != b.place) {
        return false;
      }
      if (n.record && b.record && HaveOtherParameters(*n.record, *b.record)) {
        return false;
      }
    }
    return true;
  }

  static bool HaveOtherParameters(const RankLayout& a, const RankLayout& b) {
    return std::any_of(a.parameters.begin(), a.parameters.end(), [&](const auto& parameter) {
      const layout::ParameterRecord* const other = b.Find(parameter.first);
      return other != nullptr &&
             (other->kind != parameter.second.kind || other->parts != parameter.second.parts ||
              other->dimension != parameter.second.dimension);
    });
  }

  void Describe(const RunLayout& npu, const RunLayout& bench, PairingPlan& plan) const {
    for (PlannedPair& pair : plan.pairs) {
      auto described = std::make_shared<PairLayout>();
      const std::filesystem::path folders[] = {pair.input.npu_json.parent_path(),
                                               pair.input.bench_json.parent_path()};
      described->npu_facts = npu.facts;
      described->bench_facts = bench.facts;
      const auto rank_of = [](const std::filesystem::path& folder) {
        return dump::NumberByNames(folder).rank.value_or(0);
      };
      const std::pair<const RunLayout*, std::vector<JoinedRank>*> sides[] = {
          {&npu, &described->npu}, {&bench, &described->bench}};
      for (size_t side = 0; side < 2; ++side) {
        JoinedRank rank;
        rank.rank = rank_of(folders[side]);
        for (const JoinedRank& known : sides[side].first->ranks) {
          rank = known.rank == rank.rank ? known : rank;
        }
        rank.folder.folder = folders[side];
        rank.place = {};
        (side == 0 ? described->npu_facts : described->bench_facts).ranks = {rank.rank};
        sides[side].second->push_back(std::move(rank));
      }
      pair.layout = std::move(described);
    }
  }

  // Ranks of a run whose layout is recorded are held against each other, step by step.
  void CheckReplicas(bool of_npu, const RunLayout& run, const Steps& steps, PairingPlan& plan) {
    if (run.ranks.size() < 2 || !run.is_known || !run.ranks[0].record) {
      return;
    }
    const RankLoader load = [&](const JoinedRank& rank,
                                const std::function<bool(std::string_view)>& keep) {
      SideOptions side_options;
      side_options.allow_truncated = options_.allow_truncated;
      side_options.edition = options_.edition();
      side_options.keep_entry = keep;
      side_options.skim = !options_.allow_truncated;
      return LoadSide(rank.folder.folder / dump::kDumpFileName, side_options);
    };
    std::map<std::filesystem::path, std::vector<PairLayout*>> pairs;
    for (PlannedPair& pair : plan.pairs) {
      if (!pair.is_debug) {
        pairs[(of_npu ? pair.input.npu_json : pair.input.bench_json).parent_path()].push_back(
            pair.layout.get());
      }
    }
    for (const auto& [step, folders] : steps) {
      std::vector<JoinedRank> ranks;
      for (const JoinedRank& known : run.ranks) {
        for (const dump::RankFolder& folder : folders) {
          if (folder.rank == known.folder.rank) {
            ranks.push_back(known);
            ranks.back().folder = folder;
          }
        }
      }
      const auto found = FindReplicas(ranks, load, pool_);
      for (size_t i = 0; i < ranks.size(); ++i) {
        for (PairLayout* const pair : pairs[ranks[i].folder.folder]) {
          (of_npu ? pair->npu_replicas : pair->bench_replicas) = found[i];
        }
      }
    }
  }

  Result<PairingPlan> Join(const Steps& npu_steps, const Steps& bench_steps, const RunLayout& npu,
                           const RunLayout& bench) {
    PairingPlan plan;
    const bool one_step = npu_steps.size() == 1 && bench_steps.size() == 1;
    const bool by_replica = npu.replicas == bench.replicas && npu.replicas > 1;
    for (const auto& [step, folders] : npu_steps) {
      const auto other = one_step ? bench_steps.begin() : bench_steps.find(step);
      if (other == bench_steps.end()) {
        plan.npu_only.push_back(fmt::format("step{}", step.value_or(0)));
        continue;
      }
      for (int64_t replica = 0; replica < (by_replica ? npu.replicas : 1); ++replica) {
        auto joined = std::make_shared<PairLayout>();
        joined->is_joined = true;
        const std::optional<int64_t> only =
            by_replica ? std::optional<int64_t>(replica) : std::nullopt;
        MSP_ASSIGN_OR_RETURN(joined->npu, RanksOf(npu, folders, only, true));
        MSP_ASSIGN_OR_RETURN(joined->bench, RanksOf(bench, other->second, only, false));
        joined->npu_facts = FactsOf(npu, joined->npu);
        joined->bench_facts = FactsOf(bench, joined->bench);
        PlannedPair pair;
        const JoinedRank& first = joined->npu.front();
        pair.input = {first.folder.folder / dump::kDumpFileName,
                      joined->bench.front().folder.folder / dump::kDumpFileName, step,
                      first.folder.rank, other->first};
        if (by_replica) {
          pair.rank_suffix = fmt::format("_rank{}", first.rank);
        }
        if (!one_step) {
          pair.result_subfolder = fmt::format("step{}", step.value_or(0));
        }
        pair.layout = std::move(joined);
        plan.pairs.push_back(std::move(pair));
      }
    }
    for (const auto& [step, folders] : bench_steps) {
      if (!one_step && !npu_steps.contains(step)) {
        plan.bench_only.push_back(fmt::format("step{}", step.value_or(0)));
      }
    }
    if (plan.pairs.empty()) {
      return NotFoundError("no step of one side is one of the other");
    }
    return plan;
  }

  // The ranks of a replica, or all, with the folders of this step.
  Result<std::vector<JoinedRank>> RanksOf(const RunLayout& run,
                                          const std::vector<dump::RankFolder>& folders,
                                          std::optional<int64_t> replica, bool of_npu) {
    std::vector<JoinedRank> ranks;
    for (const JoinedRank& rank : run.ranks) {
      if (replica && rank.place.data != *replica) {
        continue;
      }
      const auto found = std::find_if(folders.begin(), folders.end(), [&](const auto& folder) {
        return folder.rank == rank.folder.rank;
      });
      if (found == folders.end()) {
        return MismatchError(fmt::format(
            "step {} of the {} side lacks rank {}, which shares the "
            "model with the others",
            folders.front().step.value_or(0), of_npu ? "test" : "reference", rank.rank));
      }
      JoinedRank& taken = ranks.emplace_back(rank);
      taken.folder = *found;
      if (replica) {
        taken.place.data = 0;
      }
    }
    return ranks;
  }

  static LayoutFacts FactsOf(const RunLayout& run, const std::vector<JoinedRank>& ranks) {
    LayoutFacts facts = run.facts;
    facts.ranks.clear();
    for (const JoinedRank& rank : ranks) {
      facts.ranks.push_back(rank.rank);
    }
    return facts;
  }

  const Options& options_;
  base::ThreadPool& pool_;
  std::vector<std::string>& notes_;
};

}  // namespace

bool MovesData(const dump::EntryName& name) {
  static const std::unordered_set<std::string_view> kMoving = {"view",         "reshape",
                                                               "chunk",        "split",
                                                               "cat",          "transpose",
                                                               "contiguous",   "clone",
                                                               "narrow",       "slice",
                                                               "unsqueeze",    "squeeze",
                                                               "permute",      "expand",
                                                               "detach",       "to",
                                                               "copy_",        "stack",
                                                               "flatten",      "view_as",
                                                               "empty",        "split_with_sizes",
                                                               "new_empty",    "__getitem__",
                                                               "zeros_like",   "empty_like",
                                                               "index_select", "unbind",
                                                               "tensor_split", "t",
                                                               "repeat",       "expand_as",
                                                               "roll",         "flip",
                                                               "__setitem__"};
  return !name.is_module && (dump::IsPartingCall(name) || dump::IsDescribingCall(name) ||
                             dump::IsUninitialisedCall(name) || kMoving.contains(name.subject));
}

Result<PairingPlan> ApplyLayouts(const Options& options, Result<PairingPlan> plan,
                                 base::ThreadPool& pool, std::vector<std::string>& notes) {
  return Planner(options, pool, notes).Plan(std::move(plan));
}

}  // namespace layouts
}  // namespace msprobe::analysis::compare
