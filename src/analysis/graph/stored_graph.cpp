#include "src/analysis/graph/stored_graph.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/graph_page.h"
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
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

namespace {

// One side, the root first: the database has it last, children in front of their parents, and every
// node is numbered from there.
struct StoredSide {
  std::vector<std::string> names, parents, partners;  // partners: names on the other side, or empty
  std::vector<uint32_t> types, micro_steps, stacks;
  std::vector<std::optional<double>> precisions;
  std::vector<std::string> levels;
  std::vector<std::string> distributed;  // JSON; empty: none
  std::unordered_map<std::string_view, uint32_t> place_of_name;

  size_t count() const { return names.size(); }
  std::optional<uint32_t> Find(std::string_view name) const {
    const auto found = place_of_name.find(name);
    return found == place_of_name.end() ? std::nullopt : std::optional(found->second);
  }
};

template <typename Value>
void Reverse(std::vector<Value>& values) {
  std::reverse(values.begin(), values.end());
}

// The last name of a list of names: the partner at the end of its path.
std::string LastText(std::string_view list) {
  if (list.size() <= 2) {  // "[]"
    return {};
  }
  std::string last;
  if (const Result<json::ValueTree> tree = json::ParseValueTree(list);
      tree.ok() && (*tree)[0].kind == json::ValueKind::kList) {
    tree->ForEachChild(0, [&](uint32_t child) { last = (*tree)[child].text; });
  }
  return last;
}

std::vector<std::string> LinesOf(std::string_view list) {
  std::vector<std::string> lines;
  if (const Result<json::ValueTree> tree = json::ParseValueTree(list);
      tree.ok() && (*tree)[0].kind == json::ValueKind::kList) {
    tree->ForEachChild(0, [&](uint32_t child) { lines.emplace_back((*tree)[child].text); });
  }
  return lines;
}

class TreeReader {
 public:
  TreeReader(const database::SqliteFile& file, const StoredGraph::Rank& rank, StackList& stacks)
      : file_(file), rank_(rank), stacks_(stacks) {}

  Status Read(std::string_view source, StoredSide& side) {
    MSP_RETURN_IF_ERROR(file_.ForEachMatch(
        "tb_nodes",
        {"node_name", "node_type", "up_node", "precision_index", "overflow_level", "micro_step_id",
         "matched_node_link", "stack_id", "matched_distributed"},
        {{"step", rank_.step}, {"rank", rank_.rank}, {"data_source", source}}, "node_order",
        [&](const database::SqliteRow& row) { return Take(row, side); }));
    for (std::vector<uint32_t>* column : {&side.types, &side.micro_steps, &side.stacks}) {
      Reverse(*column);
    }
    for (std::vector<std::string>* column :
         {&side.names, &side.parents, &side.partners, &side.levels, &side.distributed}) {
      Reverse(*column);
    }
    Reverse(side.precisions);
    if (side.count() > 0) {
      side.micro_steps[0] = 0;  // of the root there is none
    }
    for (size_t i = 0; i < side.count(); ++i) {
      side.place_of_name.try_emplace(side.names[i], static_cast<uint32_t>(i));
    }
    return {};
  }

 private:
  Status Take(const database::SqliteRow& row, StoredSide& side) {
    if (static_cast<int64_t>(side.count()) >= StoredGraph::kMostNodes) {
      return BadFormatError(fmt::format("{}: more than {} nodes in step {} rank {}", file_.path(),
                                        StoredGraph::kMostNodes, rank_.step, rank_.rank));
    }
    constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();
    side.names.emplace_back(row.Text(0));
    side.types.push_back(static_cast<uint32_t>(std::clamp<int64_t>(row.Integer(1), 0, 255)));
    side.parents.emplace_back(row.Text(2));
    side.precisions.push_back(row.IsNull(3) ? std::nullopt : std::optional(row.Number(3)));
    side.levels.emplace_back(row.Text(4));
    side.micro_steps.push_back(
        static_cast<uint32_t>(std::clamp<int64_t>(row.Integer(5), 0, kMostSteps)) + 1);
    side.partners.push_back(LastText(row.Text(6)));
    MSP_ASSIGN_OR_RETURN(const uint32_t stack, StackOf(row.Text(7)));
    side.stacks.push_back(stack);
    const std::string_view distributed = row.Text(8);
    side.distributed.emplace_back(distributed.size() > 2 ? distributed : std::string_view());
    return {};
  }

  Result<uint32_t> StackOf(std::string_view id) {
    const auto [known, is_new] = number_of_stack_.try_emplace(std::string(id), 0);
    uint32_t& number = known->second;
    if (is_new) {
      MSP_RETURN_IF_ERROR(file_.ForEachMatch("tb_stack", {"stack_info"}, {{"id", id}}, "",
                                             [&](const database::SqliteRow& row) {
                                               number = stacks_.Add(LinesOf(row.Text(0)));
                                               return Status();
                                             }));
    }
    return number;
  }

  const database::SqliteFile& file_;
  const StoredGraph::Rank& rank_;
  StackList& stacks_;
  std::unordered_map<std::string, uint32_t> number_of_stack_;
};

void AddColumns(const StoredSide& side, const std::string& prefix, Columns& columns) {
  const size_t count = side.count();
  std::vector<uint32_t> parents(count);
  std::vector<uint32_t> places(count);
  for (size_t i = 0; i < count; ++i) {
    // A parent stands in front; what says otherwise, in a damaged file, hangs at the root.
    const uint32_t parent = side.Find(side.parents[i]).value_or(0);
    parents[i] = i == 0 ? 0 : (parent < i ? parent : 0) + 1;
    places[i] = static_cast<uint32_t>(count - 1 - i);
  }
  columns.emplace_back(prefix + "parent", std::move(parents));
  columns.emplace_back(prefix + "place", std::move(places));
  columns.emplace_back(prefix + "type", side.types);
  columns.emplace_back(prefix + "micro", side.micro_steps);
  columns.emplace_back(prefix + "stack", side.stacks);
}

// What the walk of `compare` left in the database.
struct Findings {
  std::vector<uint32_t> standings, input_errors, output_errors;  // by node of the NPU side
  std::map<uint32_t, std::pair<std::string, std::string>> origins;
  std::map<uint32_t, std::string> npu_unmatched, bench_unmatched;
};

uint32_t StandingOf(std::string_view word) {
  for (const auto standing : {compare::RowStatus::kIdentical, compare::RowStatus::kAgrees,
                              compare::RowStatus::kDrifts, compare::RowStatus::kDiffers}) {
    if (compare::RowStatusName(standing) == word) {
      return StandingCode(standing);
    }
  }
  return 0;
}

Result<Findings> ReadFindings(const database::SqliteFile& file, const StoredGraph::Rank& rank,
                              const StoredSide& npu, const StoredSide& bench,
                              report::CellCodes& cells) {
  Findings found;
  found.standings.assign(npu.count(), 0);
  found.input_errors.assign(npu.count(), report::CellCodes::kNothing);
  found.output_errors.assign(npu.count(), report::CellCodes::kNothing);
  if (!file.HasTable("msprobe_divergence")) {
    return found;
  }
  MSP_RETURN_IF_ERROR(file.ForEachMatch(
      "msprobe_divergence",
      {"data_source", "node_name", "standing", "input_error", "output_error", "origin",
       "confidence", "reason"},
      {{"step", rank.step}, {"rank", rank.rank}}, "", [&](const database::SqliteRow& row) {
        const bool is_npu = row.Text(0) == "NPU";
        const std::optional<uint32_t> node = (is_npu ? npu : bench).Find(row.Text(1));
        if (!node) {
          return Status();
        }
        const std::string reason(row.Text(7));
        if (row.Text(2) == "unmatched") {
          (is_npu ? found.npu_unmatched : found.bench_unmatched)[*node] = reason;
        }
        if (!is_npu) {
          return Status();
        }
        found.standings[*node] = StandingOf(row.Text(2));
        if (!row.IsNull(3)) {
          found.input_errors[*node] = cells.Number(row.Number(3), kErrorBits);
        }
        if (!row.IsNull(4)) {
          found.output_errors[*node] = cells.Number(row.Number(4), kErrorBits);
        }
        if (!row.IsNull(5)) {
          const std::string origin(row.Text(5));
          found.origins[*node] = {
              origin, fmt::format("{}: {} ({} confidence)", origin, reason, row.Text(6))};
        }
        return Status();
      }));
  return found;
}

void WriteTexts(std::string_view key, const std::map<uint32_t, std::string>& texts,
                json::Writer& writer) {
  writer.Key(key);
  writer.BeginObject();
  for (const auto& [node, text] : texts) {
    writer.Member(std::to_string(node), text);
  }
  writer.EndObject();
}

void WriteFindings(const Findings& found, const StoredSide& npu, json::Writer& writer) {
  writer.Key("origins");
  writer.BeginObject();
  for (const auto& [node, origin] : found.origins) {
    writer.Key(std::to_string(node));
    writer.BeginArray();
    writer.Text(origin.first);
    writer.Text(origin.second);
    writer.EndArray();
  }
  writer.EndObject();
  WriteTexts("npu_unmatched", found.npu_unmatched, writer);
  WriteTexts("bench_unmatched", found.bench_unmatched, writer);
  writer.Key("partners");
  writer.BeginObject();
  for (size_t i = 0; i < npu.count(); ++i) {
    if (npu.distributed[i].empty()) {
      continue;
    }
    if (const Result<json::ValueTree> tree = json::ParseValueTree(npu.distributed[i]); tree.ok()) {
      writer.Key(npu.names[i]);
      json::WriteTree(*tree, 0, writer);
    }
  }
  writer.EndObject();
}

// What the answer of a rank counts, which no index of the database knows.
void WriteCounts(const StoredSide& npu, const std::vector<uint32_t>& matches,
                 json::Writer& writer) {
  uint64_t matched = 0;
  std::array<uint64_t, 4> figures{};
  uint64_t overflowing = 0;
  for (size_t i = 0; i < npu.count(); ++i) {
    matched += i < matches.size() && matches[i] > 0 ? 1 : 0;
    ++figures[FigureCode(npu.precisions[i])];
    overflowing += npu.levels[i].empty() ? 0 : 1;
  }
  writer.Key("counts");
  writer.BeginObject();
  writer.Member("matched", matched);
  writer.Member("warned", figures[2]);
  writer.Member("failed", figures[3]);
  writer.Member("overflowing", overflowing);
  writer.EndObject();
}

}  // namespace

Result<PageParts> StoredGraph::Tree(size_t rank) const {
  const std::string id = fmt::format("g{}", rank);
  StackList stacks;
  StoredSide npu;
  StoredSide bench;
  TreeReader reader(file_, ranks_[rank], stacks);
  MSP_RETURN_IF_ERROR(reader.Read("NPU", npu));
  if (is_comparison_) {
    MSP_RETURN_IF_ERROR(reader.Read("Bench", bench));
  }
  Columns columns;
  AddColumns(npu, "n_", columns);
  std::vector<uint32_t> matches;
  if (is_comparison_) {
    AddColumns(bench, "b_", columns);
    for (const std::string& partner : npu.partners) {
      const std::optional<uint32_t> place = partner.empty() ? std::nullopt : bench.Find(partner);
      matches.push_back(place ? *place + 1 : 0);
    }
    columns.emplace_back("match", matches);
  }
  report::CellCodes cells;
  MSP_ASSIGN_OR_RETURN(Findings found, ReadFindings(file_, ranks_[rank], npu, bench, cells));
  std::vector<uint32_t> codes = std::move(found.standings);
  for (size_t i = 0; i < npu.count(); ++i) {
    codes[i] |= FigureCode(npu.precisions[i]) << kFigureShift | LevelCode(npu.levels[i])
                                                                    << kLevelShift;
  }
  columns.emplace_back("code", std::move(codes));
  columns.emplace_back("in", std::move(found.input_errors));
  columns.emplace_back("out", std::move(found.output_errors));

  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("nodes", static_cast<uint64_t>(npu.count()));
  writer.Member("bench_nodes", static_cast<uint64_t>(bench.count()));
  writer.Member("micro_steps", micro_steps_);
  writer.Member("texts", cells.texts());
  writer.Member("names", npu.names);
  if (is_comparison_) {
    // Each of its own: a partner is told by its number, whatever it is called.
    writer.Member("bench_names", bench.names);
  }
  WriteFindings(found, npu, writer);
  WriteCounts(npu, matches, writer);
  stacks.Write(writer);
  writer.EndObject();

  std::vector<report::PageBlock> blocks;
  report::AddColumnBlocks(id, std::move(columns), blocks);
  PageParts parts = PartsOf(blocks);
  parts[id] = std::move(text);
  return parts;
}

namespace {

constexpr size_t kStatistics = std::size(dump::kStatisticKeys);

class TensorReader {
 public:
  TensorReader(const database::SqliteFile& file, const StoredGraph::Rank& rank)
      : file_(file), rank_(rank) {
    words_.Add("");  // number 0: none
  }

  // Rows of one side in the order of its nodes: the database's, backwards. Returns how many.
  Result<uint64_t> Read(std::string_view source, const std::string& prefix, Columns& columns) {
    rows_.clear();
    std::vector<uint32_t> counts;
    MSP_RETURN_IF_ERROR(file_.ForEachMatch(
        "tb_nodes", {"node_name", "input_data", "output_data"},
        {{"step", rank_.step}, {"rank", rank_.rank}, {"data_source", source}}, "node_order",
        [&](const database::SqliteRow& row) -> Status {
          const size_t before = rows_.size();
          const std::string name(row.Text(0));
          AddItems(name, row.Text(1));
          AddItems(name, row.Text(2));
          counts.push_back(static_cast<uint32_t>(rows_.size() - before));
          if (rows_.size() > StoredGraph::kMostRows ||
              static_cast<int64_t>(counts.size()) > StoredGraph::kMostNodes) {
            return BadFormatError(fmt::format("{}: more than {} tensors in step {} rank {}",
                                              file_.path(), StoredGraph::kMostRows, rank_.step,
                                              rank_.rank));
          }
          return {};
        }));
    Columns own;
    std::vector<uint32_t> ordered_counts(counts.rbegin(), counts.rend());
    own.emplace_back(prefix + "rows", std::move(ordered_counts));
    constexpr std::array<std::string_view, 4> kWords = {"label", "dtype", "shape", "sum"};
    for (size_t field = 0; field < kWords.size() + kStatistics; ++field) {
      std::vector<uint32_t> values;
      values.reserve(rows_.size());
      size_t end = rows_.size();
      for (size_t node = counts.size(); node-- > 0;) {
        const size_t begin = end - counts[node];
        for (size_t i = begin; i < end; ++i) {
          values.push_back(rows_[i][field]);
        }
        end = begin;
      }
      own.emplace_back(field < kWords.size()
                           ? prefix + std::string(kWords[field])
                           : fmt::format("{}stat{}", prefix, field - kWords.size()),
                       std::move(values));
    }
    std::move(own.begin(), own.end(), std::back_inserter(columns));
    return rows_.size();
  }

  void Write(json::Writer& writer) const {
    writer.Member("words", words_.texts());
    writer.Member("texts", cells_.texts());
  }

 private:
  using Row = std::array<uint32_t, 4 + kStatistics>;  // label, dtype, shape, checksum, statistics

  // {"<node>.input.0": {"dtype": ..., "shape": ..., "Max": ...}, ...}, all values texts.
  void AddItems(std::string_view node, std::string_view text) {
    const Result<json::ValueTree> parsed = json::ParseValueTree(text);
    if (!parsed.ok() || (*parsed)[0].kind != json::ValueKind::kObject) {
      return;
    }
    const json::ValueTree& tree = *parsed;
    tree.ForEachChild(0, [&](uint32_t item) {
      std::string_view label = tree[item].key;
      if (label.starts_with(node) && label.size() > node.size()) {
        label.remove_prefix(node.size() + 1);
      }
      const bool is_object = tree[item].kind == json::ValueKind::kObject;
      const auto field = [&](std::string_view key) {
        const uint32_t child = is_object ? tree.Find(item, key) : json::ValueTree::kNone;
        return child == json::ValueTree::kNone ? std::string_view() : tree[child].text;
      };
      Row row{words_.Add(label), words_.Add(field("dtype")), words_.Add(field("shape")),
              words_.Add(field("md5"))};
      for (size_t i = 0; i < kStatistics; ++i) {
        row[4 + i] = CodeOf(field(dump::kStatisticKeys[i]));
      }
      rows_.push_back(row);
    });
  }

  uint32_t CodeOf(std::string_view text) {
    if (text.empty() || text == "null") {
      return report::CellCodes::kNothing;
    }
    double number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failed == std::errc() && end == text.data() + text.size() ? cells_.Number(number)
                                                                     : cells_.Text(text);
  }

  const database::SqliteFile& file_;
  const StoredGraph::Rank& rank_;
  std::vector<Row> rows_;
  report::TextList words_;
  report::CellCodes cells_;
};

}  // namespace

Result<PageParts> StoredGraph::Tensors(size_t rank) const {
  const std::string id = fmt::format("g{}", rank);
  TensorReader reader(file_, ranks_[rank]);
  Columns columns;
  MSP_ASSIGN_OR_RETURN(const uint64_t rows, reader.Read("NPU", "t_", columns));
  columns.emplace_back("error", std::vector<uint32_t>(rows, report::CellCodes::kNothing));
  uint64_t bench_rows = 0;
  if (is_comparison_) {
    MSP_ASSIGN_OR_RETURN(bench_rows, reader.Read("Bench", "u_", columns));
  }
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("rows", rows);
  writer.Member("bench_rows", bench_rows);
  reader.Write(writer);
  writer.EndObject();
  std::vector<report::PageBlock> blocks;
  report::AddColumnBlocks(id, std::move(columns), blocks);
  PageParts parts = PartsOf(blocks);
  parts[id + "_tensors"] = std::move(text);
  return parts;
}

}  // namespace msprobe::analysis::graph
