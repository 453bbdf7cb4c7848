// The trees of a rank out of a database.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/graph_page.h"
#include "src/analysis/graph/page_codes.h"
#include "src/analysis/graph/stored_graph.h"
#include "src/json/value_text.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::graph {
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
  for (const auto standing : {compare::RowStanding::kIdentical, compare::RowStanding::kAgrees,
                              compare::RowStanding::kDrifts, compare::RowStanding::kDiffers}) {
    if (compare::RowStandingName(standing) == word) {
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
  AddColumnBlocks(id, std::move(columns), blocks);
  PageParts parts = PartsOf(blocks);
  parts[id] = std::move(text);
  return parts;
}

}  // namespace msprobe::analysis::graph
