#include "src/analysis/graph/stored_graph.h"

#include <algorithm>
#include <array>
#include <charconv>
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
#include "src/base/strings.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_tree.h"
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
  MSP_ASSIGN_OR_RETURN(const dump::EntryTree tree, dump::ParseEntry(text));
  std::vector<int64_t> numbers;
  if (tree[0].kind != dump::NodeKind::kList) {
    return BadFormatError("not a list");
  }
  bool whole = true;
  tree.ForEachChild(0, [&](uint32_t child) {
    whole = whole && tree[child].kind == dump::NodeKind::kInt;
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
  const auto found = compare::PairVerdictByName(verdict);
  return found ? std::optional(static_cast<size_t>(*found)) : std::nullopt;
}

}  // namespace

Result<StoredGraph> StoredGraph::Open(base::InputFile input) {
  MSP_ASSIGN_OR_RETURN(database::SqliteFile file, database::SqliteFile::Open(std::move(input)));
  for (const std::string_view table : {"tb_config", "tb_nodes", "tb_stack"}) {
    if (!file.HasTable(table)) {
      return BadFormatError(
                 fmt::format("{} is not a graph: it has no table {}", file.path(), table))
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
    return BadFormatError(fmt::format("{} is not a complete graph: its configuration is missing",
                                      file_.path()))
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
  PageListing listing;
  listing.is_comparison = is_comparison_;
  listing.task = task_.empty() ? TaskName({}) : std::string_view(task_);
  listing.verdict = verdict();
  listing.compare_page = compare_page;
  return listing.Text(ranks_);
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

  // A view of the whole side, whose names must outlive it.
  TreeSide ForPage() const {
    TreeSide side;
    side.names.assign(names.begin(), names.end());
    for (size_t i = 0; i < count(); ++i) {
      // A parent comes before its children; one that does not, in a damaged file, becomes the root.
      const uint32_t parent = Find(parents[i]).value_or(0);
      side.parents.push_back(i == 0 ? 0 : (parent < i ? parent : 0) + 1);
      side.places.push_back(static_cast<uint32_t>(count() - 1 - i));
    }
    side.types = types;
    side.micro_steps = micro_steps;
    side.stacks = stacks;
    return side;
  }
};

// The texts of a JSON list of texts; empty for all else.
std::vector<std::string> TextsOf(std::string_view list) {
  std::vector<std::string> texts;
  if (const Result<dump::EntryTree> tree = dump::ParseEntry(list);
      tree.ok() && (*tree)[0].kind == dump::NodeKind::kList) {
    tree->ForEachChild(0, [&](uint32_t child) { texts.emplace_back((*tree)[child].text); });
  }
  return texts;
}

// The last name of a list of names: the partner at the end of its path.
std::string LastText(std::string_view list) {
  std::vector<std::string> texts;
  if (list.size() > 2) {  // "[]"
    texts = TextsOf(list);
  }
  return texts.empty() ? std::string() : std::move(texts.back());
}

class TreeReader {
 public:
  TreeReader(const database::SqliteFile& file, const StoredGraph::Rank& rank, StackList& stacks)
      : file_(file), rank_(rank), stacks_(stacks) {}

  Result<StoredSide> Read(std::string_view source) {
    StoredSide side;
    MSP_RETURN_IF_ERROR(file_.ForEachMatch(
        "tb_nodes",
        {"node_name", "node_type", "up_node", "precision_index", "overflow_level", "micro_step_id",
         "matched_node_link", "stack_id", "matched_distributed"},
        {{"step", rank_.step}, {"rank", rank_.rank}, {"data_source", source}}, "node_order",
        [&](const database::SqliteRow& row) { return Take(row, side); }));
    const auto reverse = [](auto&... columns) {
      (std::reverse(columns.begin(), columns.end()), ...);
    };
    reverse(side.names, side.parents, side.partners, side.types, side.micro_steps, side.stacks,
            side.precisions, side.levels, side.distributed);
    if (side.count() > 0) {
      side.micro_steps[0] = 0;  // the root has none
    }
    for (size_t i = 0; i < side.count(); ++i) {
      side.place_of_name.try_emplace(side.names[i], static_cast<uint32_t>(i));
    }
    return side;
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
                                               number = stacks_.Add(TextsOf(row.Text(0)));
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

uint32_t StandingOf(std::string_view word) {
  for (const auto standing : {compare::RowStatus::kIdentical, compare::RowStatus::kAgrees,
                              compare::RowStatus::kDrifts, compare::RowStatus::kDiffers}) {
    if (compare::RowStatusName(standing) == word) {
      return StandingCode(standing);
    }
  }
  return 0;
}

// The findings of `compare` in the database.
Status ReadFindings(const database::SqliteFile& file, const StoredGraph::Rank& rank,
                    const StoredSide& npu, const StoredSide& bench, PageTree& tree) {
  if (!file.HasTable("msprobe_divergence")) {
    return {};
  }
  return file.ForEachMatch(
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
          (is_npu ? tree.npu_unmatched : tree.bench_unmatched)[*node] = reason;
        }
        if (!is_npu) {
          return Status();
        }
        tree.codes[*node] = StandingOf(row.Text(2));
        if (!row.IsNull(3)) {
          tree.input_errors[*node] = tree.cells.Number(row.Number(3), kErrorBits);
        }
        if (!row.IsNull(4)) {
          tree.output_errors[*node] = tree.cells.Number(row.Number(4), kErrorBits);
        }
        if (!row.IsNull(5)) {
          const std::string origin(row.Text(5));
          tree.origins[*node] = {
              origin, fmt::format("{}: {} (confidence: {})", origin, reason, row.Text(6))};
        }
        return Status();
      });
}

void WriteStoredPartners(const StoredSide& npu, json::Writer& writer) {
  for (size_t i = 0; i < npu.count(); ++i) {
    if (npu.distributed[i].empty()) {
      continue;
    }
    if (const Result<dump::EntryTree> tree = dump::ParseEntry(npu.distributed[i]); tree.ok()) {
      writer.Key(npu.names[i]);
      dump::WriteTree(*tree, 0, writer);
    }
  }
}

// The counts of a rank's answer, which no index of the database has.
void WriteCounts(const StoredSide& npu, uint64_t matched, json::Writer& writer) {
  std::array<uint64_t, 4> figures{};
  uint64_t overflowing = 0;
  for (size_t i = 0; i < npu.count(); ++i) {
    ++figures[FigureCode(npu.precisions[i])];
    overflowing += npu.levels[i].empty() ? 0 : 1;
  }
  writer.Object("counts", [&] {
    writer.Member("matched", matched);
    writer.Member("warned", figures[2]);
    writer.Member("failed", figures[3]);
    writer.Member("overflowing", overflowing);
  });
}

}  // namespace

Result<PageParts> StoredGraph::Tree(size_t rank) const {
  StackList stacks;
  TreeReader reader(file_, ranks_[rank], stacks);
  MSP_ASSIGN_OR_RETURN(const StoredSide npu, reader.Read("NPU"));
  StoredSide bench;
  if (is_comparison_) {
    MSP_ASSIGN_OR_RETURN(bench, reader.Read("Bench"));
  }
  PageTree tree(npu.count());
  tree.npu = npu.ForPage();
  tree.stacks = std::move(stacks);
  tree.micro_steps = micro_steps_;
  uint64_t matched = 0;
  if (is_comparison_) {
    tree.bench = bench.ForPage();
    for (const std::string& partner : npu.partners) {
      const std::optional<uint32_t> place = partner.empty() ? std::nullopt : bench.Find(partner);
      tree.matches.push_back(place ? *place + 1 : 0);
      matched += place ? 1 : 0;
    }
  }
  MSP_RETURN_IF_ERROR(ReadFindings(file_, ranks_[rank], npu, bench, tree));
  for (size_t i = 0; i < npu.count(); ++i) {
    tree.codes[i] |= FigureCode(npu.precisions[i]) << kFigureShift | LevelCode(npu.levels[i])
                                                                         << kLevelShift;
  }
  tree.write_partners = [&](json::Writer& writer) { WriteStoredPartners(npu, writer); };
  tree.write_counts = [&](json::Writer& writer) { WriteCounts(npu, matched, writer); };
  return PartsOf(std::move(tree).Blocks(fmt::format("g{}", rank)));
}

namespace {

class TensorReader {
 public:
  TensorReader(const database::SqliteFile& file, const StoredGraph::Rank& rank)
      : file_(file), rank_(rank) {}

  PageTensors& tensors() { return tensors_; }

  // The rows of one side in the order of its nodes, which is the database's backwards.
  Result<PageTensors::Side> Read(std::string_view source) {
    PageTensors::Side side;
    MSP_RETURN_IF_ERROR(file_.ForEachMatch(
        "tb_nodes", {"node_name", "input_data", "output_data"},
        {{"step", rank_.step}, {"rank", rank_.rank}, {"data_source", source}}, "node_order",
        [&](const database::SqliteRow& row) -> Status {
          const size_t before = side.rows();
          const std::string name(row.Text(0));
          AddItems(name, row.Text(1), side);
          AddItems(name, row.Text(2), side);
          side.row_counts.push_back(static_cast<uint32_t>(side.rows() - before));
          if (side.rows() > StoredGraph::kMostRows ||
              static_cast<int64_t>(side.row_counts.size()) > StoredGraph::kMostNodes) {
            return BadFormatError(fmt::format("{}: more than {} tensors in step {} rank {}",
                                              file_.path(), StoredGraph::kMostRows, rank_.step,
                                              rank_.rank));
          }
          return {};
        }));
    for (std::vector<uint32_t>& field : side.fields) {
      // All rows backwards, and those of each node forwards again.
      std::reverse(field.begin(), field.end());
      auto begin = field.begin();
      for (auto count = side.row_counts.rbegin(); count != side.row_counts.rend(); ++count) {
        std::reverse(begin, begin + *count);
        begin += *count;
      }
    }
    std::reverse(side.row_counts.begin(), side.row_counts.end());
    side.errors.assign(side.rows(), report::CellCodes::kNothing);
    return side;
  }

 private:
  // {"<node>.input.0": {"dtype": ..., "shape": ..., "Max": ...}, ...}, all values texts.
  void AddItems(std::string_view node, std::string_view text, PageTensors::Side& side) {
    const Result<dump::EntryTree> parsed = dump::ParseEntry(text);
    if (!parsed.ok() || (*parsed)[0].kind != dump::NodeKind::kObject) {
      return;
    }
    const dump::EntryTree& tree = *parsed;
    tree.ForEachChild(0, [&](uint32_t item) {
      const bool is_object = tree[item].kind == dump::NodeKind::kObject;
      const auto field = [&](std::string_view key) {
        const uint32_t child = is_object ? tree.Find(item, key) : dump::EntryTree::kNone;
        return child == dump::EntryTree::kNone ? std::string_view() : tree[child].text;
      };
      tensors_.AddWords(side, node, tree[item].key, {field("dtype"), field("shape"), field("md5")});
      for (size_t i = 0; i < compare::kStatCount; ++i) {
        side.fields[PageTensors::kWords.size() + i].push_back(
            CodeOf(field(dump::kStatisticKeys[i])));
      }
    });
  }

  uint32_t CodeOf(std::string_view text) {
    if (text.empty() || text == "null") {
      return report::CellCodes::kNothing;
    }
    double number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = failed == std::errc() && end == text.data() + text.size();
    return is_number ? tensors_.cells().Number(number) : tensors_.cells().Text(text);
  }

  const database::SqliteFile& file_;
  const StoredGraph::Rank& rank_;
  PageTensors tensors_;
};

}  // namespace

Result<PageParts> StoredGraph::Tensors(size_t rank) const {
  TensorReader reader(file_, ranks_[rank]);
  MSP_ASSIGN_OR_RETURN(PageTensors::Side npu, reader.Read("NPU"));
  std::optional<PageTensors::Side> bench;
  if (is_comparison_) {
    MSP_ASSIGN_OR_RETURN(bench, reader.Read("Bench"));
  }
  return PartsOf(std::move(reader.tensors())
                     .Blocks(fmt::format("g{}", rank), std::move(npu), std::move(bench)));
}

}  // namespace msprobe::analysis::graph
