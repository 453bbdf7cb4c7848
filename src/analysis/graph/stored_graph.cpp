#include "src/analysis/graph/stored_graph.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/graph_page.h"
#include "src/base/strings.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
namespace {

// Databases of others may declare numbers as texts.
bool HoldsNumber(const database::SqliteRow& row, int column) {
  if (row.IsInteger(column)) {
    return true;
  }
  const std::string_view text = row.Text(column);
  return !text.empty() && std::all_of(text.begin(), text.end(), base::IsDigit);
}

constexpr std::string_view kNotAGraph =
    "a .vis.db holds the tables tb_config, tb_nodes and tb_stack; msprobe graph writes it again";

Result<std::vector<int64_t>> NumbersOf(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const json::ValueTree tree, json::ParseValueTree(text));
  std::vector<int64_t> numbers;
  if (tree[0].kind != json::ValueKind::kList) {
    return BadFormatError("not a list");
  }
  bool whole = true;
  tree.ForEachChild(0, [&](uint32_t child) {
    whole = whole && tree[child].kind == json::ValueKind::kInt;
    numbers.push_back(tree[child].integer);
  });
  if (!whole) {
    return BadFormatError("not whole numbers");
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

// Its place among the verdicts; none for a word that is none of them.
std::optional<size_t> SeverityOf(std::string_view verdict) {
  for (size_t i = 0; i < compare::kPairVerdictCount; ++i) {
    if (compare::PairVerdictName(static_cast<compare::PairVerdict>(i)) == verdict) {
      return i;
    }
  }
  return std::nullopt;
}

}  // namespace

Result<StoredGraph> StoredGraph::Open(base::InputFile input) {
  MSP_ASSIGN_OR_RETURN(database::SqliteFile file, database::SqliteFile::Open(std::move(input)));
  for (const std::string_view table : {"tb_config", "tb_nodes", "tb_stack"}) {
    if (!file.HasTable(table)) {
      return BadFormatError(fmt::format("{} is no graph: it has no table {}", file.path(), table))
          .WithHint(std::string(kNotAGraph));
    }
  }
  StoredGraph graph(std::move(file));
  MSP_RETURN_IF_ERROR(graph.ReadConfig());
  MSP_RETURN_IF_ERROR(graph.ReadRanks());
  MSP_RETURN_IF_ERROR(graph.ReadVerdicts());
  return graph;
}

Status StoredGraph::ReadConfig() {
  bool found = false;
  std::string ranks;
  std::string steps;
  MSP_RETURN_IF_ERROR(
      file_.ForEachRow("tb_config", {"graph_type", "task", "micro_steps", "rank_list", "step_list"},
                       [&](const database::SqliteRow& row) {
                         if (found) {
                           return;
                         }
                         found = true;
                         is_comparison_ = row.Text(0) == "compare";
                         task_ = row.Text(1);
                         micro_steps_ = row.Integer(2);
                         ranks = row.Text(3);
                         steps = row.Text(4);
                       }));
  if (!found) {
    return BadFormatError(
               fmt::format("{} is no whole graph: its configuration is missing", file_.path()))
        .WithHint(std::string(kNotAGraph));
  }
  for (const auto& [text, numbers, name] : {std::tuple(&ranks, &rank_numbers_, "rank_list"),
                                            std::tuple(&steps, &step_numbers_, "step_list")}) {
    Result<std::vector<int64_t>> read = NumbersOf(*text);
    if (!read.ok()) {
      return BadFormatError(fmt::format("{}: {} of tb_config is not a list of whole numbers",
                                        file_.path(), name))
          .WithHint(std::string(kNotAGraph));
    }
    *numbers = *std::move(read);
  }
  return {};
}

Status StoredGraph::ReadRanks() {
  if (static_cast<double>(rank_numbers_.size()) * static_cast<double>(step_numbers_.size()) >
      static_cast<double>(kMostRanks)) {
    return BadFormatError(
        fmt::format("{}: more than {} ranks of all steps", file_.path(), kMostRanks));
  }
  // In one pass, by what an index of the table holds where there is one.
  std::map<std::pair<int64_t, int64_t>, Rank> counted;
  MSP_RETURN_IF_ERROR(
      file_.ForEachMatch("tb_nodes", {"step", "rank", "data_source"}, {}, "",
                         [&counted](const database::SqliteRow& row) -> Status {
                           if (HoldsNumber(row, 0) && HoldsNumber(row, 1)) {
                             Rank& found = counted[{row.Integer(0), row.Integer(1)}];
                             found.nodes += row.Text(2) == "NPU" ? 1 : 0;
                             found.bench_nodes += row.Text(2) == "Bench" ? 1 : 0;
                           }
                           return {};
                         }));
  for (const int64_t step : step_numbers_) {
    for (const int64_t rank : rank_numbers_) {
      const auto found = counted.find({step, rank});
      if (found != counted.end() && found->second.nodes > 0) {
        ranks_.push_back(found->second);
        ranks_.back().step = step;
        ranks_.back().rank = rank;
      }
    }
  }
  if (ranks_.empty()) {
    return BadFormatError(fmt::format("{} holds no nodes of the ranks that it lists", file_.path()))
        .WithHint(std::string(kNotAGraph));
  }
  return {};
}

Status StoredGraph::ReadVerdicts() {
  if (!file_.HasTable("msprobe_rank")) {
    return {};
  }
  std::map<std::pair<int64_t, int64_t>, Rank*> place;
  for (Rank& rank : ranks_) {
    place[{rank.step, rank.rank}] = &rank;
  }
  return file_.ForEachRow("msprobe_rank",
                          {"step", "rank", "verdict", "?first_node", "?title", "?is_leading",
                           "?npu_path", "?bench_path"},
                          [&](const database::SqliteRow& row) {
                            const auto found = place.find({row.Integer(0), row.Integer(1)});
                            if (found == place.end()) {
                              return;
                            }
                            Rank& rank = *found->second;
                            rank.verdict = row.Text(2);
                            rank.first_node = row.Text(3);
                            rank.title = row.Text(4);
                            rank.is_leading = row.Integer(5) != 0;
                            rank.npu_path = row.Text(6);
                            rank.bench_path = row.Text(7);
                          });
}

std::string_view StoredGraph::verdict() const {
  std::optional<size_t> worst;
  for (const Rank& rank : ranks_) {
    if (const auto severity = SeverityOf(rank.verdict)) {
      worst = std::max(worst.value_or(0), *severity);
    }
  }
  return worst ? compare::PairVerdictName(static_cast<compare::PairVerdict>(*worst))
               : std::string_view();
}

const StoredGraph::Rank* StoredGraph::leading() const {
  const auto found =
      std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.is_leading; });
  return found == ranks_.end() ? nullptr : &*found;
}

std::string StoredGraph::Listing(std::string_view compare_page) const {
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("format", kGraphPageFormat);
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("is_comparison", is_comparison_);
  writer.Member("task", task_.empty() ? TaskName({}) : std::string_view(task_));
  if (const std::string_view worst = verdict(); !worst.empty()) {
    writer.Member("verdict", worst);
  }
  writer.Member("notes", std::vector<std::string>());
  writer.Member("compare_page", compare_page);
  writer.Key("ranks");
  writer.BeginArray();
  for (const Rank& rank : ranks_) {
    writer.BeginObject();
    writer.Member("step", rank.step);
    writer.Member("rank", rank.rank);
    writer.Member("nodes", rank.nodes);
    writer.Member("bench_nodes", rank.bench_nodes);
    writer.Member("has_tensors", true);
    if (!rank.verdict.empty()) {
      writer.Member("verdict", rank.verdict);
      writer.Member("is_leading", rank.is_leading);
      writer.Member("npu_path", rank.npu_path);
      writer.Member("bench_path", rank.bench_path);
    }
    if (!rank.first_node.empty()) {
      writer.Member("title", rank.title);
      writer.Member("first_node", rank.first_node);
    }
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return text;
}

PageParts PartsOf(const std::vector<report::PageBlock>& blocks) {
  PageParts parts;
  for (const report::PageBlock& block : blocks) {
    block.write(parts[block.id]);
  }
  return parts;
}

}  // namespace msprobe::analysis::graph
