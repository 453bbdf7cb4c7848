#include "src/analysis/graph/graph_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/compare/page/compare_page.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/step_views.h"
#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kGraphPage;  // empty: not built
}

namespace msprobe::analysis::graph {

uint32_t StandingCode(compare::RowStatus standing) {
  constexpr std::array<uint32_t, 5> kCodes = {0, 1, 2, 4, 5};  // 3: without a partner
  return kCodes[static_cast<size_t>(standing)];
}

uint32_t FigureCode(const std::optional<double>& precision) {
  return precision && *precision >= 0 && *precision <= 1
             ? 1 + static_cast<uint32_t>(std::lround(*precision * 2))
             : 0;
}

uint32_t LevelCode(std::string_view level) {
  return level == "medium" ? 1U : level == "high" ? 2U : level == "critical" ? 3U : 0U;
}

uint32_t StackList::Number(std::vector<uint32_t> frames) {
  const std::string key = fmt::format("{}", fmt::join(frames, ","));
  const auto [known, is_new] =
      number_of_.try_emplace(key, static_cast<uint32_t>(stacks_.size() + 1));
  if (is_new) {
    stacks_.push_back(std::move(frames));
  }
  return known->second;
}

void StackList::Write(json::Writer& writer) const {
  writer.Member("frames", lines_.texts());
  writer.Key("stacks");
  writer.BeginArray();
  for (const std::vector<uint32_t>& stack : stacks_) {
    writer.BeginArray();
    for (const uint32_t frame : stack) {
      writer.Int(frame);
    }
    writer.EndArray();
  }
  writer.EndArray();
}

namespace {

// One rank of a graph as the page of `graph --format html` takes it (docs/formats/graph_page.md).

Columns TreeColumns(const SideView& side, const std::string& prefix, StackList& stacks) {
  const Graph& graph = side.graph;
  const size_t count = graph.nodes.size();
  std::vector<uint32_t> parents(count);
  std::vector<uint32_t> places(count);  // among the children of its parent
  std::vector<uint32_t> types(count);
  std::vector<uint32_t> micro_steps(count);
  std::vector<uint32_t> stack_of(count);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes[i];
    parents[i] = node.parent == kNone ? 0 : node.parent + 1;
    types[i] = static_cast<uint32_t>(node.type);
    micro_steps[i] = node.micro_step ? static_cast<uint32_t>(*node.micro_step) + 1 : 0;
    stack_of[i] = stacks.Add(node.stack);
    for (uint32_t place = 0; place < node.children.size(); ++place) {
      places[node.children[place]] = place;
    }
  }
  Columns columns;
  columns.emplace_back(prefix + "parent", std::move(parents));
  columns.emplace_back(prefix + "place", std::move(places));
  columns.emplace_back(prefix + "type", std::move(types));
  columns.emplace_back(prefix + "micro", std::move(micro_steps));
  columns.emplace_back(prefix + "stack", std::move(stack_of));
  return columns;
}

void PutNames(const Graph& graph, const Graph* other, std::string_view key, json::Writer& writer) {
  writer.Key(key);
  writer.BeginArray();
  for (const Node& node : graph.nodes) {
    // The partner has the same name, mostly.
    const bool same =
        other != nullptr && node.match != kNone && other->nodes[node.match].name == node.name;
    writer.Text(same ? std::string_view() : node.name);
  }
  writer.EndArray();
}

// What the walk says in words, of the few nodes where it says something, and who a node
// communicates with.
void PutFindings(const RankView& view, json::Writer& writer) {
  writer.Key("origins");
  writer.BeginObject();
  for (size_t i = 0; i < view.divergence.size(); ++i) {
    if (view.divergence[i].point != nullptr) {
      writer.Key(std::to_string(i));
      writer.BeginArray();
      writer.Text(view.divergence[i].origin);
      writer.Text(OriginText(view.divergence[i]));
      writer.EndArray();
    }
  }
  writer.EndObject();
  for (const auto& [side, key] :
       {std::pair(&view.npu, "npu_unmatched"),
        std::pair(view.bench ? &*view.bench : nullptr, "bench_unmatched")}) {
    writer.Key(key);
    writer.BeginObject();
    if (view.bench && side != nullptr) {
      const SideView& other = side == &view.npu ? *view.bench : view.npu;
      for (size_t i = 0; i < side->graph.nodes.size(); ++i) {
        if (side->graph.nodes[i].match == kNone) {
          writer.Member(std::to_string(i), WhyUnmatched(other, side->graph.nodes[i]));
        }
      }
    }
    writer.EndObject();
  }
  writer.Key("partners");
  writer.BeginObject();
  std::vector<std::string_view> names;
  for (const auto& [name, partners] : view.npu.partners) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  for (const std::string_view name : names) {
    writer.Key(name);
    WritePartners(view.npu.partners.at(name), writer);
  }
  writer.EndObject();
}

// The trees of both sides, what was found at their nodes, and their stacks. `id`: the first part of
// the names of the blocks, "g3". The view must outlive them.
std::vector<report::PageBlock> TreeBlocks(const RankView& view, const std::string& id) {
  auto stacks = std::make_shared<StackList>();
  Columns columns = TreeColumns(view.npu, "n_", *stacks);
  const Graph& graph = view.npu.graph;
  const size_t count = graph.nodes.size();
  if (view.bench) {
    Columns bench = TreeColumns(*view.bench, "b_", *stacks);
    std::move(bench.begin(), bench.end(), std::back_inserter(columns));
    std::vector<uint32_t> matches(count);
    for (size_t i = 0; i < count; ++i) {
      matches[i] = graph.nodes[i].match == kNone ? 0 : graph.nodes[i].match + 1;
    }
    columns.emplace_back("match", std::move(matches));
  }
  std::vector<uint32_t> codes(count);
  std::vector<uint32_t> in(count, report::CellCodes::kNothing);
  std::vector<uint32_t> out(count, report::CellCodes::kNothing);
  report::CellCodes cells;
  for (size_t i = 0; i < count; ++i) {
    codes[i] = FigureCode(view.npu.scores[i].precision) << kFigureShift |
               LevelCode(view.npu.scores[i].level) << kLevelShift;
    if (i < view.divergence.size()) {
      const NodeDivergence& divergence = view.divergence[i];
      codes[i] |= StandingCode(divergence.standing);
      if (divergence.input_error) {
        in[i] = cells.Number(*divergence.input_error, kErrorBits);
      }
      if (divergence.output_error) {
        out[i] = cells.Number(*divergence.output_error, kErrorBits);
      }
    }
  }
  columns.emplace_back("code", std::move(codes));
  columns.emplace_back("in", std::move(in));
  columns.emplace_back("out", std::move(out));

  std::vector<report::PageBlock> blocks;
  blocks.push_back({id, [&view, stacks, texts = cells.texts()](std::string& text) {
                      json::Writer writer(text, -1, json::Writer::NonFinite::kText);
                      writer.BeginObject();
                      writer.Member("nodes", static_cast<uint64_t>(view.npu.graph.nodes.size()));
                      writer.Member(
                          "bench_nodes",
                          static_cast<uint64_t>(view.bench ? view.bench->graph.nodes.size() : 0));
                      writer.Member("micro_steps", view.npu.graph.micro_step_count);
                      writer.Member("texts", texts);
                      PutNames(view.npu.graph, nullptr, "names", writer);
                      if (view.bench) {
                        PutNames(view.bench->graph, &view.npu.graph, "bench_names", writer);
                      }
                      PutFindings(view, writer);
                      stacks->Write(writer);
                      writer.EndObject();
                    }});
  report::AddColumnBlocks(id, std::move(columns), blocks);
  return blocks;
}

// The rows of one side, node after node.
struct TensorColumns {
  std::vector<uint32_t> row_counts;  // by node
  std::vector<uint32_t> labels, dtypes, shapes, sums;
  std::array<std::vector<uint32_t>, compare::kStatCount> stats;
  std::vector<uint32_t> errors;  // relative; of the NPU side
};

class TensorCollector {
 public:
  explicit TensorCollector(const RankView& view) : view_(view) {
    words_.Add("");  // number 0: none
  }

  TensorColumns Collect(const SideView& side, uint64_t most_rows) {
    TensorColumns columns;
    const compare::Side& rows = side.dump->side();
    const bool is_npu = &side == &view_.npu;
    uint64_t taken = 0;
    for (const Node& node : side.graph.nodes) {
      uint32_t count = 0;
      if (node.entry != kNone && taken < most_rows) {
        const compare::SideEntry& entry = rows.entries[node.entry];
        for (uint32_t i = 0; i < entry.row_count; ++i) {
          AddRow(entry.name, rows.rows[entry.first_row + i], columns);
          columns.errors.push_back(is_npu ? ErrorOf(entry.first_row + i)
                                          : report::CellCodes::kNothing);
        }
        count = entry.row_count;
        taken += count;
      }
      columns.row_counts.push_back(count);
    }
    return columns;
  }

  void Write(json::Writer& writer) const {
    writer.Member("words", words_.texts());
    writer.Member("texts", cells_.texts());
  }

 private:
  uint32_t ErrorOf(uint32_t row) {
    if (!view_.result || row >= view_.result->rows.size() ||
        !view_.result->rows[row].distance.comparable) {
      return report::CellCodes::kNothing;
    }
    return cells_.Number(view_.result->rows[row].distance.relative, kErrorBits);
  }

  void AddRow(std::string_view entry, const compare::SideRow& row, TensorColumns& columns) {
    std::string_view label = row.name;
    if (label.starts_with(entry) && label.size() > entry.size()) {
      label.remove_prefix(entry.size() + 1);
    }
    columns.labels.push_back(words_.Add(label));
    columns.dtypes.push_back(words_.Add(row.dtype));
    columns.shapes.push_back(words_.Add(row.shape));
    columns.sums.push_back(view_.mode == compare::CompareMode::kMd5 ? words_.Add(row.md5) : 0);
    for (size_t i = 0; i < compare::kStatCount; ++i) {
      columns.stats[i].push_back(compare::StatCode(row.stats[i], cells_));
    }
  }

  const RankView& view_;
  report::TextList words_;
  report::CellCodes cells_;
};

Columns NamedColumns(TensorColumns columns, const std::string& prefix, bool with_errors) {
  Columns named;
  named.emplace_back(prefix + "rows", std::move(columns.row_counts));
  named.emplace_back(prefix + "label", std::move(columns.labels));
  named.emplace_back(prefix + "dtype", std::move(columns.dtypes));
  named.emplace_back(prefix + "shape", std::move(columns.shapes));
  named.emplace_back(prefix + "sum", std::move(columns.sums));
  for (size_t i = 0; i < columns.stats.size(); ++i) {
    named.emplace_back(fmt::format("{}stat{}", prefix, i), std::move(columns.stats[i]));
  }
  if (with_errors) {
    named.emplace_back("error", std::move(columns.errors));
  }
  return named;
}

// The tensors and arguments of all nodes, `most_rows` at most on each side: those of the nodes in
// front.
std::vector<report::PageBlock> TensorBlocks(const RankView& view, const std::string& id,
                                            uint64_t most_rows) {
  TensorCollector collector(view);
  TensorColumns npu = collector.Collect(view.npu, most_rows);
  const uint64_t npu_rows = npu.labels.size();
  Columns columns = NamedColumns(std::move(npu), "t_", true);
  uint64_t bench_rows = 0;
  if (view.bench) {
    TensorColumns bench = collector.Collect(*view.bench, most_rows);
    bench_rows = bench.labels.size();
    Columns named = NamedColumns(std::move(bench), "u_", false);
    std::move(named.begin(), named.end(), std::back_inserter(columns));
  }
  std::string listing;
  json::Writer writer(listing, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("rows", npu_rows);
  writer.Member("bench_rows", bench_rows);
  collector.Write(writer);
  writer.EndObject();
  std::vector<report::PageBlock> blocks;
  blocks.push_back(
      {id + "_tensors", [text = std::move(listing)](std::string& out) { out += text; }});
  report::AddColumnBlocks(id, std::move(columns), blocks);
  return blocks;
}

constexpr uint64_t kRoomForShell = 400'000;

uint64_t BytesOf(const std::vector<std::string>& elements) {
  uint64_t bytes = 0;
  for (const std::string& element : elements) {
    bytes += element.size();
  }
  return bytes;
}

}  // namespace

Status GraphPage::Available() { return report::CheckShell(resources::kGraphPage); }

std::string_view GraphPage::Shell() { return resources::kGraphPage; }

void GraphPage::Add(const RankView& view) {
  const size_t index = count_++;
  const std::string id = fmt::format("g{}", index);
  Elements tree;
  tree.texts = report::PackBlocks(TreeBlocks(view, id), pool_);
  tree.bytes = BytesOf(tree.texts);
  tree_bytes_ += tree.bytes;
  trees_.push_back(std::move(tree));
  has_tensors_.push_back(false);

  const bool parts =
      view.comparison != nullptr && view.comparison->divergence.first_origin.has_value();
  const Place place(!parts, view.step, index);
  // Only where a more important rank would push it out anyway is the work saved.
  if (tree_bytes_ + tensor_bytes_ + kRoomForShell >= kMostBytes && !tensors_.empty() &&
      std::prev(tensors_.end())->first < place) {
    return;
  }
  Elements tensors;
  tensors.texts = report::PackBlocks(TensorBlocks(view, id, kMostRowsPerRank), pool_);
  tensors.bytes = BytesOf(tensors.texts);
  tensor_bytes_ += tensors.bytes;
  tensors_.emplace(place, std::move(tensors));
  has_tensors_[index] = true;
  while (tree_bytes_ + tensor_bytes_ + kRoomForShell > kMostBytes && !tensors_.empty()) {
    const auto last = std::prev(tensors_.end());
    tensor_bytes_ -= last->second.bytes;
    has_tensors_[std::get<size_t>(last->first)] = false;
    tensors_.erase(last);
  }
}

std::string GraphPage::Listing(const Answer& answer, const std::string& compare_page) const {
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("format", kGraphPageFormat);
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("is_comparison", answer.is_comparison);
  writer.Member("task", TaskName(answer.mode));
  std::optional<size_t> leading;
  if (answer.comparison) {
    writer.Member("verdict", compare::PairVerdictName(compare::VerdictOf(*answer.comparison)));
    leading = compare::LeadingPair(*answer.comparison);
  }
  writer.Member("notes", notes_);
  writer.Member("compare_page", compare_page);
  writer.Key("ranks");
  writer.BeginArray();
  for (size_t i = 0; i < answer.ranks.size() && i < count_; ++i) {
    const RankSummary& rank = answer.ranks[i];
    writer.BeginObject();
    writer.Member("step", rank.step);
    writer.Member("rank", rank.rank);
    writer.Member("nodes", rank.nodes);
    writer.Member("bench_nodes", rank.bench_nodes);
    writer.Member("matched", rank.matched);
    writer.Member("warned", rank.warned);
    writer.Member("failed", rank.failed);
    writer.Member("overflowing", rank.overflowing);
    writer.Member("has_tensors", static_cast<bool>(has_tensors_[i]));
    if (rank.pair && answer.comparison) {
      const compare::PairSummary& pair = answer.comparison->pairs[*rank.pair];
      writer.Member("verdict", compare::PairVerdictName(compare::VerdictOf(pair)));
      writer.Member("is_leading", leading == rank.pair);
      writer.Member("npu_path", pair.npu_path);
      writer.Member("bench_path", pair.bench_path);
      if (const auto& origin = pair.divergence.first_origin) {
        writer.Member("title", compare::PointTitle(*origin));
        writer.Member("first_node", origin->entry_name);
      }
    }
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return text;
}

Status GraphPage::Write(const std::filesystem::path& path, const Answer& answer) {
  notes_.clear();
  const auto without =
      static_cast<uint64_t>(std::count(has_tensors_.begin(), has_tensors_.end(), false));
  if (without > 0) {
    notes_.push_back(fmt::format(
        "the page holds {} without tensors, so that it stays below {}; the .vis.db file has them",
        base::Plural(without, "rank"), base::FormatBytes(kMostBytes)));
  }
  std::vector<std::string> elements;
  const std::string compare_page =
      answer.is_comparison ? report::PageBeside(path, "msprobe compare") : std::string();
  elements.push_back(
      report::PackBlock({"run", [&](std::string& out) { out += Listing(answer, compare_page); }}));
  const auto take = [&elements](Elements& some) {
    std::move(some.texts.begin(), some.texts.end(), std::back_inserter(elements));
    some.texts.clear();
  };
  for (Elements& tree : trees_) {
    take(tree);
  }
  for (auto& [place, tensors] : tensors_) {
    take(tensors);
  }
  return report::WriteWebPage(path, resources::kGraphPage, elements).status();
}

}  // namespace msprobe::analysis::graph
