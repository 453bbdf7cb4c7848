// Pairs nodes by name and path, compares the rows of pairs in their order within each group
// (inputs, parameters, outputs, gradients), and rates nodes. 8.1.1 rates by figures, 26.x by the
// verdicts of its rows; collections take the worst rating of their calls.
#include "src/analysis/graph/match.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/judging_v26.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/statistics.h"
#include "src/analysis/graph/items.h"
#include "src/analysis/nonfinite/search.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/entry_tree.h"

namespace msprobe::analysis::graph {
namespace {

using compare::SideRow;

class Matcher {
 public:
  Matcher(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
          Graph& npu, Graph& bench)
      : npu_dump_(npu_dump), bench_dump_(bench_dump), options_(options), npu_(npu), bench_(bench) {}

  void Run() {
    const std::vector<uint32_t> order = npu_.LevelOrder();
    if (options_.mapping != nullptr) {
      MatchMapped(order);
    } else if (options_.fuzzy) {
      MatchFuzzily(order);
    } else {
      MatchByName(order);
    }
    TakeMicroSteps();
  }

 private:
  void Pair(uint32_t npu, uint32_t bench) {
    npu_.nodes[npu].match = bench;
    bench_.nodes[bench].match = npu;
  }

  void MatchMapped(const std::vector<uint32_t>& order) {
    for (const uint32_t node : order) {
      const std::string_view name = npu_.nodes[node].name;
      const auto mapped = options_.mapping->find(name);
      const uint32_t bench = bench_.Find(mapped == options_.mapping->end() ? name : mapped->second);
      if (bench != kNone && bench_.nodes[bench].match == kNone) {
        Pair(node, bench);
      }
    }
  }

  void MatchByName(const std::vector<uint32_t>& order) {
    std::vector<uint32_t> same_path(npu_.nodes.size(), kNone);
    for (const uint32_t index : order) {
      const Node& node = npu_.nodes[index];
      const uint32_t bench = bench_.Find(node.name);
      if (bench == kNone) {
        continue;
      }
      const uint32_t above = bench_.nodes[bench].parent;
      const bool path_agrees =
          node.parent == kNone ? above == kNone : above != kNone && same_path[node.parent] == above;
      if (!path_agrees) {
        continue;
      }
      same_path[index] = bench;
      if (options_.edition == Edition::kV26 ||
          SameShapes(index, bench, /*as_far_as_both_go=*/false)) {
        Pair(index, bench);
      }
    }
  }

  void MatchFuzzily(const std::vector<uint32_t>& order) {
    for (const uint32_t index : order) {
      if (npu_.nodes[index].type == NodeType::kApi) {
        continue;
      }
      const uint32_t bench = bench_.Find(npu_.nodes[index].name);
      if (bench == kNone || bench_.nodes[bench].type == NodeType::kApi ||
          !FuzzilySameShapes(index, bench)) {
        continue;
      }
      Pair(index, bench);
      MatchCalls(index, bench);
    }
  }

  bool FuzzilySameShapes(uint32_t npu, uint32_t bench) const {
    return options_.edition == Edition::kV26 || SameShapes(npu, bench, /*as_far_as_both_go=*/true);
  }

  using Numbered = std::pair<std::string, size_t>;
  struct NumberedHash {
    size_t operator()(const Numbered& key) const {
      return std::hash<std::string>()(key.first) * 31 + key.second;
    }
  };

  // "Functional.linear.3.forward" -> "Functional.linear.forward"; "_rank1" of merged calls is left
  // out as well.
  std::string WithoutNumber(std::string_view name) const {
    std::string text;
    for (const std::string_view field : base::Split(name, '.')) {
      const bool is_number =
          !field.empty() && std::all_of(field.begin(), field.end(), base::IsDigit);
      if (is_number && !text.empty() && field.data() + field.size() != name.data() + name.size()) {
        continue;
      }
      text += text.empty() ? "" : ".";
      const size_t rank = options_.edition == Edition::kV26 ? field.rfind("_rank") : field.npos;
      const bool has_rank = rank != field.npos && rank + 5 < field.size() &&
                            std::all_of(field.begin() + rank + 5, field.end(), base::IsDigit);
      text += has_rank ? field.substr(0, rank) : field;
    }
    return text;
  }

  template <typename Visit>
  void ForEachCall(const Graph& graph, uint32_t above, const Visit& visit) const {
    std::unordered_map<std::string, size_t> seen;
    for (const uint32_t child : graph.nodes[above].children) {
      if (graph.nodes[child].type == NodeType::kApi) {
        std::string name = WithoutNumber(graph.nodes[child].name);
        const size_t number = ++seen[name];
        visit(Numbered(std::move(name), number), child);
      }
    }
  }

  void MatchCalls(uint32_t npu_above, uint32_t bench_above) {
    std::unordered_map<Numbered, uint32_t, NumberedHash> bench_calls;
    ForEachCall(bench_, bench_above,
                [&](Numbered key, uint32_t child) { bench_calls.emplace(std::move(key), child); });
    ForEachCall(npu_, npu_above, [&](const Numbered& key, uint32_t child) {
      const auto found = bench_calls.find(key);
      if (found != bench_calls.end() && FuzzilySameShapes(child, found->second)) {
        Pair(child, found->second);
      }
    });
  }

  static std::vector<const SideRow*> RowsOf(const RankDump& dump, uint32_t entry, bool outputs) {
    std::vector<const SideRow*> rows;
    if (entry != kNone) {
      const compare::SideEntry& range = dump.side().entries[entry];
      for (uint32_t i = range.first_row; i < range.first_row + range.row_count; ++i) {
        if (dump.IsOutput(i) == outputs) {
          rows.push_back(&dump.side().rows[i]);
        }
      }
    }
    return rows;
  }

  bool SameShapes(uint32_t npu, uint32_t bench, bool as_far_as_both_go) const {
    if (options_.ignore_shapes) {
      return true;
    }
    for (const bool outputs : {false, true}) {
      const auto n = RowsOf(npu_dump_, npu_.nodes[npu].entry, outputs);
      const auto b = RowsOf(bench_dump_, bench_.nodes[bench].entry, outputs);
      if (n.size() != b.size() && !as_far_as_both_go) {
        return false;
      }
      for (size_t i = 0; i < std::min(n.size(), b.size()); ++i) {
        if (n[i]->type != b[i]->type || n[i]->shape != b[i]->shape) {
          return false;
        }
      }
    }
    return true;
  }

  void TakeMicroSteps() {
    for (const uint32_t index : bench_.LevelOrder()) {
      Node& node = bench_.nodes[index];
      if (index == kRoot || (options_.edition == Edition::kV8 && node.parent != kRoot)) {
        continue;
      }
      if (node.match != kNone) {
        node.micro_step = npu_.nodes[node.match].micro_step;
      } else if (node.parent == kRoot) {
        const std::string_view last = node.name.substr(node.name.rfind('.') + 1);
        int64_t number = 0;
        std::from_chars(last.data(), last.data() + last.size(), number);
        node.micro_step = number;
      } else {
        node.micro_step = bench_.nodes[node.parent].micro_step;
      }
    }
  }

  const RankDump& npu_dump_;
  const RankDump& bench_dump_;
  const MatchOptions& options_;
  Graph& npu_;
  Graph& bench_;
};

}  // namespace

void MatchNodes(const RankDump& npu_dump, const RankDump& bench_dump, const MatchOptions& options,
                Graph& npu, Graph& bench) {
  Matcher(npu_dump, bench_dump, options, npu, bench).Run();
}

namespace {

using compare::CompareMode;
using compare::Metric;
using compare::MetricKind;
using compare::PairResult;
using compare::RowResult;
using compare::Side;

constexpr std::string_view kSurplus = "Nan";    // in place of a name
constexpr std::string_view kSurplusCell = " ";  // in place of a figure
constexpr std::string_view kPlaceArguments[] = {".src", ".dst", ".group_src", ".group_dst"};

// Inputs, parameters, outputs, gradients: the order of an entry's rows.
enum Group : uint8_t { kInputRows, kParameterRows, kOutputRows, kGradientRows };
constexpr size_t kGroupCount = 4;

Group GroupOf(const SideRow& row) {
  switch (row.state) {
    case dump::RowState::kParameters:
      return kParameterRows;
    case dump::RowState::kOutput:
      return kOutputRows;
    case dump::RowState::kParametersGrad:
      return kGradientRows;
    default:
      return kInputRows;
  }
}

struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

std::array<Span, kGroupCount> GroupsOf(const Side& side, uint32_t entry) {
  std::array<Span, kGroupCount> groups;
  const compare::SideEntry& range = side.entries[entry];
  for (uint32_t i = range.first_row; i < range.first_row + range.row_count; ++i) {
    Span& group = groups[GroupOf(side.rows[i])];
    group.begin = group.end == 0 ? i : group.begin;
    group.end = i + 1;
  }
  return groups;
}

std::optional<double> FractionOf(const Metric& metric) {
  return metric.kind == MetricKind::kPercent ? std::optional(metric.number() / 100) : std::nullopt;
}

bool IsNonFinite(const compare::StatValue& stat) {
  return stat.kind == compare::StatKind::kNumber && !std::isfinite(stat.number);
}

bool HasNonFiniteExtreme(const SideRow& row) {
  return IsNonFinite(row.stats[compare::kMax]) || IsNonFinite(row.stats[compare::kMin]);
}

bool HasMaximum(const SideRow& row) {
  return row.stats[compare::kMax].kind != compare::StatKind::kNone;
}

// One node's rows on the NPU side.
struct NodeRows {
  const RankDump& dump;
  const PairResult& result;
  Span rows;

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (uint32_t i = rows.begin; i < rows.end; ++i) {
      visit(i, dump.side().rows[i], result.rows[i]);
    }
  }
};

double StatisticsScore(const NodeRows& node) {
  double worst = 0;
  node.ForEach([&](uint32_t index, const SideRow& row, const RowResult& result) {
    if (!node.dump.IsOutput(index) || !HasMaximum(row)) {
      return;
    }
    if (HasNonFiniteExtreme(row)) {
      worst = 1;
    }
    for (size_t i = compare::kMaxRel; i <= compare::kNormRel; ++i) {
      worst = std::max(worst, FractionOf(result.metrics[i]).value_or(0));
    }
  });
  return std::min(worst, 1.0);
}

bool SumsDiffer(const NodeRows& node) {
  bool differ = false;
  node.ForEach([&](uint32_t /*index*/, const SideRow& row, const RowResult& result) {
    differ = differ || (HasMaximum(row) && result.verdict != compare::Verdict::kPass);
  });
  return differ;
}

// The smallest share of elements within one thousandth.
struct Ratio {
  bool bad = false;  // NaN or infinity among the extremes
  std::optional<double> smallest;
};

Ratio SmallestRatio(const NodeRows& node, bool outputs) {
  Ratio ratio;
  node.ForEach([&](uint32_t index, const SideRow& row, const RowResult& result) {
    if (node.dump.IsOutput(index) != outputs || !HasMaximum(row) || row.shape.empty() ||
        row.shape == "[]") {
      return;
    }
    ratio.bad = ratio.bad || HasNonFiniteExtreme(row);
    const Metric& metric = result.metrics[compare::kOneThousandth];
    if (metric.kind == MetricKind::kNumber) {
      ratio.smallest = std::min(ratio.smallest.value_or(1.0), metric.number());
    }
  });
  return ratio;
}

double RealScore(const NodeRows& node) {
  const Ratio in = SmallestRatio(node, false);
  const Ratio out = SmallestRatio(node, true);
  if (out.bad) {
    return 1;
  }
  if (in.bad || !in.smallest || !out.smallest) {
    return 0;
  }
  return std::clamp(*in.smallest - *out.smallest, 0.0, 1.0);
}

double VerdictScore(const NodeRows& node) {
  double worst = 0;
  node.ForEach([&](uint32_t /*index*/, const SideRow& /*row*/, const RowResult& result) {
    const std::string_view word = compare::ResultWord(result.verdict);
    worst = std::max(worst, word == "error" ? 1.0 : word == "warning" ? 0.5 : 0.0);
  });
  return worst;
}

double ScoreOf(const NodeRows& node, std::string_view name) {
  if (ReturnsRawMemory(name)) {
    return node.result.mode == CompareMode::kMd5 ? 1 : 0;
  }
  if (node.result.edition == Edition::kV26) {
    return VerdictScore(node);
  }
  switch (node.result.mode) {
    case CompareMode::kStatistics:
      return StatisticsScore(node);
    case CompareMode::kMd5:
      return SumsDiffer(node) ? 0 : 1;
    default:
      return RealScore(node);
  }
}

// Items that a thread takes at a time.
constexpr size_t kBlockItems = 2048;

size_t BlocksOf(size_t count) { return (count + kBlockItems - 1) / kBlockItems; }

// body(first, end, block) for blocks of [0, count).
template <typename Body>
void ForBlocks(base::ThreadPool& pool, size_t count, const Body& body) {
  pool.ParallelFor(BlocksOf(count), [&](size_t block, size_t /*worker*/) {
    const size_t first = block * kBlockItems;
    body(first, std::min(count, first + kBlockItems), block);
  });
}

void CompareRows(const Side& npu, const Side& bench, std::span<const RowResult> known,
                 base::ThreadPool& pool, bool quiet, PairResult& result) {
  if (result.mode != CompareMode::kRealData) {
    ForBlocks(pool, result.rows.size(), [&](size_t first, size_t end, size_t /*block*/) {
      for (size_t i = first; i < end; ++i) {
        RowResult& row = result.rows[i];
        if (row.pair.bench == compare::kNoRow) {
          continue;
        }
        const SideRow& n = npu.rows[row.pair.npu];
        const SideRow& b = bench.rows[row.pair.bench];
        if (result.mode == CompareMode::kStatistics) {
          compare::CompareStatistics(n, b, row);
        } else {
          compare::CompareChecksums(n, b, row);
        }
      }
    });
    return;
  }
  // Each pair of tensors is read once.
  PairResult unknown;
  unknown.mode = result.mode;
  for (RowResult& row : result.rows) {
    if (row.pair.bench == compare::kNoRow) {
      continue;
    }
    if (!known.empty() && known[row.pair.npu].pair.bench == row.pair.bench) {
      const RowResult& read = known[row.pair.npu];
      row.metrics = read.metrics;
      row.verdict = read.verdict;
      row.distance = read.distance;
    } else {
      unknown.rows.push_back(row);
    }
  }
  compare::CompareRealData(npu, bench, pool, quiet, unknown);
  for (const RowResult& row : unknown.rows) {
    RowResult& target = result.rows[row.pair.npu];
    target = row;
    target.message = result.arena->Keep(row.message);
  }
}

}  // namespace

Result<std::optional<CompareMode>> ModeOf(const Side& npu, const Side& bench) {
  const auto mode_of = [](const Side& side) -> std::optional<CompareMode> {
    const std::string_view task = side.header.task ? std::string_view(*side.header.task) : "";
    if (task == "structure") {
      return std::nullopt;
    }
    return task == "tensor" ? CompareMode::kRealData
           : side.has_md5   ? CompareMode::kMd5
                            : CompareMode::kStatistics;
  };
  const std::optional<CompareMode> mode = mode_of(npu);
  if (mode != mode_of(bench)) {
    return MismatchError(fmt::format("{} and {} were dumped with different tasks",
                                     npu.json_path.string(), bench.json_path.string()))
        .WithHint("dump both sides with the same task and summary mode");
  }
  return mode;
}

void SetPlaces(Side& side, Edition edition) {
  for (SideRow& row : side.rows) {
    if (row.type != "int" || row.is_tensor ||
        std::none_of(std::begin(kPlaceArguments), std::end(kPlaceArguments),
                     [&row](std::string_view name) { return row.name.ends_with(name); })) {
      continue;
    }
    compare::StatValue value = row.stats[compare::kMax];
    if (edition == Edition::kV26 && value.kind == compare::StatKind::kInteger) {
      value.SetText(side.Intern(std::to_string(value.integer())));
      row.dtype = row.type;
    } else if (edition == Edition::kV8 && value.kind == compare::StatKind::kText) {
      value.SetInteger(base::ParseInt(value.text()).value_or(0));
      row.dtype = dump::PythonClass(dump::NodeKind::kInt);
    }
    row.stats.fill(value);
  }
}

void KeepReadTensors(const PairResult& result, size_t npu_rows, std::vector<RowResult>& known) {
  if (result.mode != CompareMode::kRealData) {
    return;
  }
  known.resize(npu_rows);
  for (const RowResult& row : result.rows) {
    if (row.metrics[compare::kMaxAbsErr].kind == compare::MetricKind::kNumber) {
      RowResult& kept = known[row.pair.npu];
      kept.pair = row.pair;
      kept.metrics = row.metrics;
      kept.distance = row.distance;
      kept.verdict = row.verdict;
    }
  }
}

PairResult CompareNodes(const RankDump& npu_dump, RankDump& bench_dump, const Graph& npu,
                        const Graph& bench, const ScoreOptions& options,
                        std::span<const RowResult> known, base::ThreadPool& pool) {
  const Side& npu_side = npu_dump.side();
  PairResult result;
  result.mode = options.mode;
  result.edition = options.edition;
  result.rows.resize(npu_side.rows.size());
  for (uint32_t i = 0; i < result.rows.size(); ++i) {
    result.rows[i].pair = {i, compare::kNoRow, compare::MatchOutcome::kNoBenchRow};
  }
  std::vector<std::vector<uint32_t>> surplus_of_block(BlocksOf(npu.nodes.size()));
  ForBlocks(pool, npu.nodes.size(), [&](size_t first, size_t end, size_t block) {
    for (size_t at = first; at < end; ++at) {
      const Node& node = npu.nodes[at];
      if (node.entry == kNone || node.match == kNone) {
        continue;
      }
      const uint32_t bench_entry = bench.nodes[node.match].entry;
      const auto npu_groups = GroupsOf(npu_side, node.entry);
      const auto bench_groups = bench_entry == kNone ? std::array<Span, kGroupCount>()
                                                     : GroupsOf(bench_dump.side(), bench_entry);
      for (size_t group = 0; group < kGroupCount; ++group) {
        uint32_t partner = bench_groups[group].begin;
        for (uint32_t i = npu_groups[group].begin; i < npu_groups[group].end; ++i, ++partner) {
          if (partner < bench_groups[group].end) {
            result.rows[i].pair = {i, partner, compare::MatchOutcome::kMatched};
          } else {
            surplus_of_block[block].push_back(i);
          }
        }
      }
    }
  });
  std::vector<uint32_t> surplus;
  for (const std::vector<uint32_t>& more : surplus_of_block) {
    surplus.insert(surplus.end(), more.begin(), more.end());
  }
  CompareRows(npu_side, bench_dump.side(), known, pool, options.quiet, result);
  if (!surplus.empty()) {
    SideRow nothing;
    nothing.name = nothing.dtype = nothing.shape = nothing.md5 = kSurplus;
    nothing.data_name = "-1";
    const auto place = static_cast<uint32_t>(bench_dump.side().rows.size());
    bench_dump.side().rows.push_back(nothing);
    for (const uint32_t row : surplus) {
      result.rows[row].metrics.fill(Metric::Text(kSurplusCell));
      result.rows[row].pair.bench = options.edition == Edition::kV26 ? place : compare::kNoRow;
    }
  }
  if (options.edition == Edition::kV26) {
    compare::JudgeRules rules;
    rules.ignore_shapes = options.ignore_shapes;
    compare::JudgeCalls(npu_side, bench_dump.side(), rules, result);
  }
  return result;
}

std::vector<NodeScore> ScoreNodes(const RankDump& npu_dump, const Graph& npu,
                                  const PairResult& result, base::ThreadPool& pool) {
  std::vector<NodeScore> scores(npu.nodes.size());
  ForBlocks(pool, npu.nodes.size(), [&](size_t first, size_t end, size_t /*block*/) {
    for (size_t i = first; i < end; ++i) {
      const Node& node = npu.nodes[i];
      if (node.match == kNone || node.entry == kNone) {
        continue;
      }
      const compare::SideEntry& entry = npu_dump.side().entries[node.entry];
      if (entry.row_count > 0) {
        const Span rows = {entry.first_row, entry.first_row + entry.row_count};
        const NodeRows node_rows = {npu_dump, result, rows};
        scores[i].precision = ScoreOf(node_rows, node.name);
        scores[i].sums_differ = result.mode == CompareMode::kMd5 && SumsDiffer(node_rows);
      }
    }
  });
  const bool best_is_one = result.edition == Edition::kV8 && result.mode == CompareMode::kMd5;
  for (size_t i = 0; i < npu.nodes.size(); ++i) {
    const Node& node = npu.nodes[i];
    if (node.type != NodeType::kCollection || node.match == kNone) {
      continue;
    }
    double score = best_is_one ? 1 : 0;
    // Both lines of the Python tool colour collections before they have read the tensors.
    const bool known = result.mode != CompareMode::kRealData;
    for (size_t at = 0; known && at < node.children.size(); ++at) {
      const uint32_t child = node.children[at];
      if (const std::optional<double> precision = scores[child].precision) {
        score = best_is_one ? std::min(score, *precision) : std::max(score, *precision);
      }
    }
    scores[i].precision = score;
  }
  return scores;
}

Status JudgeOverflow(const RankDump& dump, const Graph& graph, std::vector<NodeScore>& scores) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.entry == kNone) {
      continue;
    }
    MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump.ReadEntry(node.entry));
    if (const auto finding = nonfinite::JudgeEntry(node.name, tree)) {
      scores[i].level = nonfinite::LevelName(finding->level);
    }
  }
  return {};
}

}  // namespace msprobe::analysis::graph
