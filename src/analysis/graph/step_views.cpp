#include "src/analysis/graph/step_views.h"

#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/graph/build.h"
#include "src/analysis/graph/items.h"
#include "src/analysis/graph/match.h"
#include "src/analysis/graph/rank_groups.h"
#include "src/dump/layout.h"

namespace msprobe::analysis::graph {
namespace {

using compare::CompareMode;

constexpr std::string_view kUnmatched = "The other side has no such node";
constexpr std::string_view kRelativeErrors =
    "Largest relative error of the maximum, minimum, mean and norm of the outputs: "
    "|NPU - bench| / |bench|";
constexpr std::string_view kLostShare =
    "Share of elements within one thousandth that the outputs have lost against the inputs";
constexpr std::string_view kEqualSums = "All checksums are equal";
constexpr std::string_view kOtherSums = "At least one checksum differs";
constexpr std::string_view kVerdict = "The worst verdict of the node's inputs and outputs";

struct Explanation {
  std::string_view name;
  std::string_view text;
};
constexpr Explanation kStatisticTips[] = {{"Max diff", "NPU maximum less that of the bench side"},
                                          {"Min diff", "NPU minimum less that of the bench side"},
                                          {"Mean diff", "NPU mean less that of the bench side"},
                                          {"L2norm diff", "NPU norm less that of the bench side"}};
constexpr Explanation kChecksumTips[] = {{"md5", "CRC-32 of the values, of both sides"}};
constexpr Explanation kRealTips[] = {
    {"One Thousandth Err Ratio", "Share of elements whose relative error is below one thousandth"},
    {"Five Thousandths Err Ratio",
     "Share of elements whose relative error is below five thousandths"},
    {"Cosine", "Cosine of the angle between both tensors: 1 for equal directions"},
    {"MaxAbsErr", "Largest absolute difference of two elements"},
    {"MaxRelativeErr", "Largest relative difference of two elements"}};

}  // namespace

const std::vector<Partners>* SideView::PartnersOf(const Node& node) const {
  if (partners.empty()) {
    return nullptr;
  }
  const auto found = partners.find(node.name);
  return found == partners.end() ? nullptr : &found->second;
}

std::string_view TaskName(std::optional<CompareMode> mode) {
  if (!mode) {
    return "structure";
  }
  switch (*mode) {
    case CompareMode::kRealData:
      return "all";
    case CompareMode::kMd5:
      return "md5";
    default:
      return "summary";
  }
}

namespace {

// A class of nodes by their figure.
struct ColorClass {
  std::string_view color;
  std::optional<std::pair<double, double>> range;  // none: nodes without partner
  std::string_view description;
  std::string_view level;  // 26.x: "pass", "warning", "error", "unmatched node"
};

std::vector<ColorClass> ColorsOf(std::optional<CompareMode> mode, Edition edition) {
  const ColorClass unmatched = {"#C7C7C7", std::nullopt, kUnmatched, "unmatched node"};
  if (!mode) {
    return {unmatched};
  }
  if (edition == Edition::kV26) {
    return {{"#FFFCF3", {{0, 0.3}}, kVerdict, "pass"},
            {"#FFDC7F", {{0.3, 0.6}}, kVerdict, "warning"},
            {"#FF704D", {{0.6, 1}}, kVerdict, "error"},
            unmatched};
  }
  if (*mode == CompareMode::kMd5) {
    return {
        {"#FFFCF3", {{1, 1}}, kEqualSums, {}}, {"#FF704D", {{0, 0}}, kOtherSums, {}}, unmatched};
  }
  const bool is_real = *mode == CompareMode::kRealData;
  const std::string_view text = is_real ? kLostShare : kRelativeErrors;
  const auto range = [is_real](double low, double high, double real_low, double real_high) {
    return is_real ? std::pair(real_low, real_high) : std::pair(low, high);
  };
  return {{"#FFFCF3", range(0, 0.2, 0, 0.05), text, {}},
          {"#FFEDBE", range(0.2, 0.4, 0.05, 0.1), text, {}},
          {"#FFDC7F", range(0.4, 0.6, 0.1, 0.15), text, {}},
          {"#FFC62E", range(0.6, 0.8, 0.15, 0.2), text, {}},
          {"#FF704D", range(0.8, 1, 0.2, 1), text, {}},
          unmatched};
}

}  // namespace

void WriteColors(std::optional<CompareMode> mode, Edition edition, json::Writer& json) {
  json.Object([&] {
    for (const ColorClass& color : ColorsOf(mode, edition)) {
      json.Object(color.color, [&] {
        json.Key("value");
        json.BeginArray();
        if (color.range) {
          json.Raw(IndexText(color.range->first));
          json.Raw(IndexText(color.range->second));
        }
        json.EndArray();
        json.Member("description", color.description);
        if (edition == Edition::kV26) {
          json.Member("accuracy_level", color.level);
        }
      });
    }
  });
}

std::string ToolTip(std::optional<CompareMode> mode) {
  std::string text;
  json::Writer json(text, -1);
  json.BeginObject();
  const auto add = [&json](const auto& tips) {
    for (const Explanation& tip : tips) {
      json.Member(tip.name, tip.text);
    }
  };
  if (mode == CompareMode::kStatistics) {
    add(kStatisticTips);
  } else if (mode == CompareMode::kMd5) {
    add(kChecksumTips);
  } else if (mode == CompareMode::kRealData) {
    add(kRealTips);
  }
  json.EndObject();
  return text;
}

std::string_view WhyUnmatched(const SideView& other, const Node& node) {
  return other.graph.Find(node.name) == kNone
             ? "the other side has no node of this name"
             : "the other side's node of this name stands elsewhere, or has other inputs or "
               "outputs";
}

void WriteMatchedLink(const Graph& other, uint32_t match, json::Writer& json) {
  json.BeginArray();
  if (match != kNone) {
    for (const uint32_t node : other.PathOf(match)) {
      json.Text(other.nodes[node].name);
    }
  }
  json.EndArray();
}

void WritePartners(const std::vector<Partners>& partners, json::Writer& json) {
  const auto write = [&json](const Partners& group) {
    json.Object([&] {
      json.Member("communications_type", group.kind);
      json.Object("nodes_info", [&] {
        for (const auto& [rank, node] : group.nodes) {
          json.Member(std::to_string(rank),
                      std::array<std::string_view, 2>{node->figure, node->name});
        }
      });
    });
  };
  if (partners.size() == 1) {
    write(partners.front());
    return;
  }
  json.Array(partners, [&](const Partners& group) { write(group); });
}

namespace {

compare::Options CompareOptionsOf(const Options& options) {
  compare::Options compared;
  compared.npu_path = options.npu_path;
  compared.bench_path = options.bench_path;
  compared.match.fuzzy = options.fuzzy;
  compared.match.layer_mapping = options.layer_mapping;
  compared.threads = options.threads;
  compared.quiet = options.quiet;
  return compared;
}

// The names of the folders say which step and rank it is, as they do for `compare`.
compare::PairInput InputOf(const LoadedRank& rank) {
  compare::PairInput input = {rank.npu->side().json_path, rank.bench->side().json_path, {}, {}};
  const dump::RankFolder names = dump::NumberByNames(input.npu_json.parent_path());
  input.step = names.step;
  input.rank = names.rank;
  return input;
}

}  // namespace

void DivergenceWalks::Begin(LoadedStep& step, const Options& options, base::ThreadPool& pool) {
  step_ = &step;
  options_ = CompareOptionsOf(options);
  walks_.clear();
  to_take_ = 0;
  // Merged statistics are estimates, for which rounding has no error bound.
  if (options.bench_path.empty() || options.npu_parallelism || step.ranks.empty() ||
      !step.ranks.front().mode) {
    return;
  }
  walks_.resize(step.ranks.size());
  if (step.ranks.front().mode != CompareMode::kRealData) {
    to_take_ = walks_.size();
    return;
  }
  for (size_t place = 0; place < walks_.size(); ++place) {
    Walk(place, pool);
  }
}

void DivergenceWalks::Take(size_t item) {
  base::ThreadPool alone(1);
  Walk(item, alone);
}

void DivergenceWalks::Walk(size_t place, base::ThreadPool& pool) {
  LoadedRank& rank = step_->ranks[place];
  RankWalk& walk = walks_[place];
  compare::PlannedPair planned;
  planned.input = InputOf(rank);
  const auto before = records_.find(rank.folders.rank);
  const bool follows = before != records_.end() && before->second.step && planned.input.step &&
                       *before->second.step + 1 == *planned.input.step;
  const compare::PairSides sides = {rank.npu->side(), rank.bench->side(), &rank.npu->stacks(),
                                    &rank.npu->construct()};
  Result<compare::PairFindings> found = compare::FindDifferences(
      options_, planned.input, sides, pool, follows ? &before->second : nullptr);
  walk.status = found.status();
  if (found.ok()) {
    compare::PairFindings& findings = *found;
    KeepReadTensors(findings.result, sides.npu.rows.size(), rank.tensors);
    rank.comparison = compare::SummarizePair(planned, sides.npu, sides.bench, findings);
    walk.record = std::move(findings.record);
    walk.warnings = std::move(findings.warnings);
  }
}

std::vector<std::string> DivergenceWalks::Finish() {
  std::vector<std::string> warnings;
  for (size_t place = 0; place < walks_.size(); ++place) {
    const RankFolders& folders = step_->ranks[place].folders;
    RankWalk& walk = walks_[place];
    if (walk.status.ok()) {
      records_[folders.rank] = std::move(walk.record);
    } else {
      warnings.push_back(fmt::format("step {} rank {}: where the runs part is not told: {}",
                                     folders.step, folders.rank, walk.status.message()));
    }
    warnings.insert(warnings.end(), walk.warnings.begin(), walk.warnings.end());
  }
  walks_.clear();
  to_take_ = 0;
  return warnings;
}

std::vector<NodeDivergence> DivergenceOf(const Graph& npu, const compare::PairSummary& comparison) {
  const compare::DivergenceReport& report = comparison.divergence;
  std::unordered_map<uint32_t, std::pair<std::string_view, const compare::DivergencePoint*>>
      origins;
  const auto add = [&origins](const std::optional<compare::DivergencePoint>& point,
                              std::string_view kind) {
    if (point) {
      origins.try_emplace(point->entry, kind, &*point);
    }
  };
  if (report.first_origin) {
    add(report.first_origin, compare::OriginKindName(report.first_origin->kind));
  }
  for (const std::optional<compare::DivergencePoint>& point : report.first_of_kind) {
    add(point, point ? compare::OriginKindName(point->kind) : std::string_view());
  }
  add(report.first_drift, "drift");
  add(report.first_unequal_bits, "first unequal");
  std::vector<NodeDivergence> nodes(npu.nodes.size());
  for (size_t index = 0; index < nodes.size(); ++index) {
    const uint32_t entry = npu.nodes[index].entry;
    if (entry == kNone || entry >= report.calls.size()) {
      continue;
    }
    NodeDivergence& node = nodes[index];
    const compare::CallStatus& call = report.calls[entry];
    node.standing = call.status;
    if (call.status != compare::RowStatus::kNotCompared) {
      node.input_error = call.input_error;
      node.output_error = call.output_error;
    }
    if (const auto origin = origins.find(entry); origin != origins.end()) {
      node.origin = origin->second.first;
      node.point = origin->second.second;
    }
  }
  return nodes;
}

std::string OriginText(const NodeDivergence& node) {
  return fmt::format("{}: {} (confidence: {})", node.origin, node.point->reason,
                     compare::ConfidenceName(node.point->confidence));
}

namespace {

void BuildSide(const Options& options, const RankDump& dump, Edition edition, SideView& view,
               std::vector<std::string>& warnings) {
  BuildOptions build;
  build.edition = edition;
  build.collect = !options.merges();
  build.complete_stacks = options.complete_stacks || edition == Edition::kV26;
  view.dump = &dump;
  view.graph = BuildGraph(dump, build, warnings);
  view.scores.resize(view.graph.nodes.size());
}

void JoinViews(const Options& options, const LoadedRank& rank, Edition edition, RankView& view) {
  const bool is_merged = options.npu_parallelism.has_value();
  view.step = rank.folders.step;
  view.rank = rank.folders.rank;
  view.mode = rank.mode;
  if (!rank.bench) {
    return;
  }
  MatchOptions match;
  match.edition = edition;
  match.fuzzy = options.fuzzy || is_merged;
  match.ignore_shapes = is_merged;
  match.mapping = rank.mapping ? &*rank.mapping : nullptr;
  MatchNodes(*rank.npu, *rank.bench, match, view.npu.graph, view.bench->graph);
  if (rank.comparison) {
    view.comparison = &*rank.comparison;
    view.divergence = DivergenceOf(view.npu.graph, *rank.comparison);
  }
}

Status AddLevels(const LoadedRank& rank, RankView& view) {
  MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.npu, view.npu.graph, view.npu.scores));
  if (view.bench) {
    MSP_RETURN_IF_ERROR(JudgeOverflow(*rank.bench, view.bench->graph, view.bench->scores));
  }
  return {};
}

}  // namespace

Result<std::vector<RankView>> MakeViews(LoadedStep& step, Edition edition, const Options& options,
                                        const WorkBeside& beside, base::ThreadPool& pool,
                                        std::vector<std::string>& all_warnings) {
  std::vector<LoadedRank>& ranks = step.ranks;
  std::vector<RankView> views(ranks.size());
  std::vector<std::vector<std::string>> warnings(ranks.size() * 2);
  std::vector<Status> statuses(ranks.size());
  for (size_t place = 0; place < ranks.size(); ++place) {
    if (ranks[place].bench) {
      views[place].bench.emplace();
    }
  }
  pool.ParallelFor(beside.count + warnings.size(), [&](size_t item, size_t /*worker*/) {
    if (item < beside.count) {
      beside.run(item);
      return;
    }
    item -= beside.count;
    const LoadedRank& rank = ranks[item / 2];
    RankView& view = views[item / 2];
    if (item % 2 == 0) {
      BuildSide(options, *rank.npu, edition, view.npu, warnings[item]);
    } else if (rank.bench) {
      BuildSide(options, *rank.bench, edition, *view.bench, warnings[item]);
    }
  });
  pool.ParallelFor(warnings.size(), [&](size_t item, size_t /*worker*/) {
    std::optional<RankDump>& dump = item % 2 == 0 ? ranks[item / 2].npu : ranks[item / 2].bench;
    if (dump) {
      SetPlaces(dump->side(), edition);
    }
  });
  pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
    JoinViews(options, ranks[place], edition, views[place]);
  });
  for (const std::vector<std::string>& more : warnings) {
    all_warnings.insert(all_warnings.end(), more.begin(), more.end());
  }
  for (size_t place = 0; place < ranks.size(); ++place) {
    RankView& view = views[place];
    if (view.bench && view.mode) {
      view.result =
          CompareNodes(*ranks[place].npu, *ranks[place].bench, view.npu.graph, view.bench->graph,
                       {*view.mode, edition, options.npu_parallelism.has_value(), options.quiet},
                       ranks[place].tensors, pool);
      // So that the other edition need not read them again.
      KeepReadTensors(*view.result, view.result->rows.size(), ranks[place].tensors);
      view.npu.scores = ScoreNodes(*ranks[place].npu, view.npu.graph, *view.result, pool);
    }
  }
  if (options.overflow_check) {
    pool.ParallelFor(ranks.size(), [&](size_t place, size_t /*worker*/) {
      statuses[place] = AddLevels(ranks[place], views[place]);
    });
  }
  for (Status& status : statuses) {
    MSP_RETURN_IF_ERROR(std::move(status));
  }
  return views;
}

Status AddCommunications(const std::vector<RankView>& views, bool with_levels,
                         StepCommunications& found) {
  for (const RankView& view : views) {
    const auto add = [&](const SideView& side, std::vector<RankCommunications>& ranks) -> Status {
      MSP_ASSIGN_OR_RETURN(
          RankCommunications calls,
          ReadCommunications(view.rank, *side.dump, side.graph, side.scores, with_levels));
      ranks.push_back(std::move(calls));
      return {};
    };
    MSP_RETURN_IF_ERROR(add(view.npu, found.npu));
    if (view.bench) {
      MSP_RETURN_IF_ERROR(add(*view.bench, found.bench));
    }
  }
  return {};
}

StepPartners PartnersOf(StepCommunications found, Edition edition) {
  StepPartners partners;
  partners.npu.emplace(std::move(found.npu), edition);
  partners.bench.emplace(std::move(found.bench), edition);
  return partners;
}

void SetPartners(const StepPartners& partners, base::ThreadPool& pool,
                 std::vector<RankView>& views) {
  if (!partners.npu) {
    return;
  }
  pool.ParallelFor(views.size(), [&](size_t place, size_t /*worker*/) {
    RankView& view = views[place];
    view.npu.partners = partners.npu->Of(view.rank);
    if (view.bench) {
      view.bench->partners = partners.bench->Of(view.rank);
    }
  });
}

}  // namespace msprobe::analysis::graph
