// The tensors and arguments of a rank out of a database.
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/graph/page_codes.h"
#include "src/analysis/graph/stored_graph.h"
#include "src/dump/dump_file.h"
#include "src/json/value_tree.h"
#include "src/json/writer.h"

namespace msprobe::analysis::graph {
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
  AddColumnBlocks(id, std::move(columns), blocks);
  PageParts parts = PartsOf(blocks);
  parts[id + "_tensors"] = std::move(text);
  return parts;
}

}  // namespace msprobe::analysis::graph
