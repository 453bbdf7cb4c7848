#include "src/analysis/graph/graph_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
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
#include "src/dump/names.h"
#include "src/json/writer.h"
#include "src/layout/layout_file.h"
#include "src/report/texts.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kGraphPage;  // empty: not built
}

namespace msprobe::analysis::graph {

namespace {

using Columns = report::PageColumns;

// The parts of a tree or of tensors: `name`, a JSON object with the members that write(writer)
// adds, and a block "<id>_<column>" per column.
template <typename Write>
std::vector<report::PageBlock> MakeBlocks(const std::string& name, const std::string& id,
                                          Columns columns, const Write& write) {
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.Object([&] { write(writer); });
  std::vector<report::PageBlock> blocks;
  blocks.push_back({name, [text = std::move(text)](std::string& out) { out += text; }});
  report::AddColumnBlocks(id, std::move(columns), blocks);
  return blocks;
}

}  // namespace

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
  writer.Array("stacks", stacks_, [&](const std::vector<uint32_t>& stack) {
    writer.Array(stack, [&](const uint32_t frame) { writer.Int(frame); });
  });
}

PageTree::PageTree(size_t npu_nodes)
    : codes(npu_nodes),
      input_errors(npu_nodes, report::CellCodes::kNothing),
      output_errors(npu_nodes, report::CellCodes::kNothing) {}

namespace {

void AddTreeColumns(TreeSide side, const std::string& prefix, Columns& columns) {
  columns.emplace_back(prefix + "parent", std::move(side.parents));
  columns.emplace_back(prefix + "place", std::move(side.places));
  columns.emplace_back(prefix + "type", std::move(side.types));
  columns.emplace_back(prefix + "micro", std::move(side.micro_steps));
  columns.emplace_back(prefix + "stack", std::move(side.stacks));
}

void WriteTexts(std::string_view key, const std::map<uint32_t, std::string>& texts,
                json::Writer& writer) {
  writer.Object(key, [&] {
    for (const auto& [node, text] : texts) {
      writer.Member(std::to_string(node), text);
    }
  });
}

}  // namespace

std::vector<report::PageBlock> PageTree::Blocks(const std::string& id) && {
  const uint64_t nodes = npu.names.size();
  const uint64_t bench_nodes = bench ? bench->names.size() : 0;
  const std::vector<std::string_view> names = std::move(npu.names);
  const std::vector<std::string_view> bench_names =
      bench ? std::move(bench->names) : std::vector<std::string_view>();
  Columns columns;
  AddTreeColumns(std::move(npu), "n_", columns);
  if (bench) {
    AddTreeColumns(*std::move(bench), "b_", columns);
    columns.emplace_back("match", std::move(matches));
  }
  columns.emplace_back("code", std::move(codes));
  columns.emplace_back("in", std::move(input_errors));
  columns.emplace_back("out", std::move(output_errors));
  return MakeBlocks(id, id, std::move(columns), [&](json::Writer& writer) {
    writer.Member("nodes", nodes);
    writer.Member("bench_nodes", bench_nodes);
    writer.Member("micro_steps", micro_steps);
    writer.Member("texts", cells.texts());
    writer.Member("names", names);
    if (bench) {
      writer.Member("bench_names", bench_names);
    }
    writer.Object("origins", [&] {
      for (const auto& [node, origin] : origins) {
        writer.Member(std::to_string(node), std::array{origin.first, origin.second});
      }
    });
    WriteTexts("npu_unmatched", npu_unmatched, writer);
    WriteTexts("bench_unmatched", bench_unmatched, writer);
    WriteTranslations(writer);
    writer.Object("partners", [&] { write_partners(writer); });
    if (write_counts) {
      write_counts(writer);
    }
    stacks.Write(writer);
  });
}

// Translations of what is said about nodes; names have none.
void PageTree::WriteTranslations(json::Writer& writer) const {
  std::set<std::string_view> said;
  for (const auto* const unmatched : {&npu_unmatched, &bench_unmatched}) {
    for (const auto& [node, why] : *unmatched) {
      said.insert(why);
    }
  }
  for (const auto& [node, origin] : origins) {
    said.insert(origin.second);
  }
  std::string texts;
  json::Writer list(texts, -1);
  list.BeginObject();
  list.Member("said", std::vector<std::string>(said.begin(), said.end()));
  list.EndObject();
  writer.Key("zh");
  writer.Raw(report::TranslationsOf(texts));
}

void PageTensors::AddWords(Side& side, std::string_view node, std::string_view name,
                           const std::array<std::string_view, 3>& others) {
  if (name.starts_with(node) && name.size() > node.size()) {
    name.remove_prefix(node.size() + 1);
  }
  side.fields[0].push_back(words_.Add(name));
  for (size_t i = 0; i < others.size(); ++i) {
    side.fields[i + 1].push_back(words_.Add(others[i]));
  }
}

std::vector<report::PageBlock> PageTensors::Blocks(const std::string& id, Side npu,
                                                   std::optional<Side> bench) && {
  const uint64_t rows = npu.rows();
  const uint64_t bench_rows = bench ? bench->rows() : 0;
  Columns columns;
  const auto add = [&columns](Side& side, const std::string& prefix) {
    columns.emplace_back(prefix + "rows", std::move(side.row_counts));
    for (size_t i = 0; i < kFields; ++i) {
      columns.emplace_back(i < kWords.size() ? prefix + std::string(kWords[i])
                                             : fmt::format("{}stat{}", prefix, i - kWords.size()),
                           std::move(side.fields[i]));
    }
  };
  add(npu, "t_");
  columns.emplace_back("error", std::move(npu.errors));
  if (bench) {
    add(*bench, "u_");
  }
  return MakeBlocks(id + "_tensors", id, std::move(columns), [&](json::Writer& writer) {
    writer.Member("rows", rows);
    writer.Member("bench_rows", bench_rows);
    writer.Member("words", words_.texts());
    writer.Member("texts", cells_.texts());
  });
}

std::vector<ListedRank> ListRanks(const Answer& answer) {
  std::vector<ListedRank> ranks;
  const std::optional<size_t> leading =
      answer.comparison ? compare::LeadingPair(*answer.comparison) : std::nullopt;
  for (const RankSummary& summary : answer.ranks) {
    ListedRank& rank = ranks.emplace_back();
    rank.step = summary.step;
    rank.rank = summary.rank;
    rank.nodes = static_cast<int64_t>(summary.nodes);
    rank.bench_nodes = static_cast<int64_t>(summary.bench_nodes);
    if (summary.pair && answer.comparison) {
      const compare::PairSummary& pair = answer.comparison->pairs[*summary.pair];
      rank.verdict = compare::PairVerdictName(compare::VerdictOf(pair));
      rank.is_leading = leading == summary.pair;
      rank.npu_path = pair.npu_path;
      rank.bench_path = pair.bench_path;
      if (const auto& origin = pair.divergence.first_origin) {
        rank.title = compare::PointTitle(*origin);
        rank.first_node = origin->entry_name;
      }
    }
  }
  return ranks;
}

std::string PageListing::Text(const std::vector<ListedRank>& ranks) const {
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("format", kGraphPageFormat);
  if (counts != nullptr) {
    report::PutRun("graph", writer);
  } else {
    writer.Member("version", MSPROBE_VERSION);  // how the graph was made is not in the database
  }
  writer.Member("is_comparison", is_comparison);
  const auto put_look = [&](std::string_view name) {
    const compare::VerdictLook look = compare::LookOf(compare::PairVerdictByName(name));
    writer.Member("word", look.word);
    writer.Member("tone", report::ToneName(look.tone));
  };
  if (is_comparison) {
    put_look(verdict);
  }
  writer.Member("task", task);
  if (!verdict.empty()) {
    writer.Member("verdict", verdict);
  }
  writer.Member("notes", notes);
  writer.Member("compare_page", compare_page);
  writer.Objects("ranks", ranks, [&](const ListedRank& rank) {
    writer.Member("step", rank.step);
    writer.Member("rank", rank.rank);
    writer.Member("nodes", rank.nodes);
    writer.Member("bench_nodes", rank.bench_nodes);
    if (counts != nullptr) {
      const RankSummary& summary = counts->ranks[static_cast<size_t>(&rank - ranks.data())];
      writer.Member("matched", summary.matched);
      writer.Member("warned", summary.warned);
      writer.Member("failed", summary.failed);
      writer.Member("overflowing", summary.overflowing);
    }
    writer.Member("has_tensors", rank.has_tensors);
    if (is_comparison) {
      put_look(rank.verdict);
    }
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
  });
  writer.EndObject();
  return report::WithTranslations(std::move(text));
}

namespace {

// The views of a run as the parts of a page.

TreeSide SideOf(const SideView& view, StackList& stacks) {
  const std::vector<Node>& nodes = view.graph.nodes;
  TreeSide side;
  side.places.resize(nodes.size());
  for (const Node& node : nodes) {
    side.names.push_back(node.name);
    side.parents.push_back(node.parent == kNone ? 0 : node.parent + 1);
    side.types.push_back(static_cast<uint32_t>(node.type));
    side.micro_steps.push_back(node.micro_step ? static_cast<uint32_t>(*node.micro_step) + 1 : 0);
    side.stacks.push_back(stacks.Add(node.stack));
    for (uint32_t place = 0; place < node.children.size(); ++place) {
      side.places[node.children[place]] = place;
    }
  }
  return side;
}

void AddUnmatched(const SideView& side, const SideView& other,
                  std::map<uint32_t, std::string>& unmatched) {
  for (uint32_t i = 0; i < side.graph.nodes.size(); ++i) {
    if (side.graph.nodes[i].match == kNone) {
      unmatched.emplace(i, WhyUnmatched(other, side.graph.nodes[i]));
    }
  }
}

std::vector<report::PageBlock> TreeBlocks(const RankView& view, const std::string& id) {
  const std::vector<Node>& nodes = view.npu.graph.nodes;
  PageTree tree(nodes.size());
  tree.npu = SideOf(view.npu, tree.stacks);
  tree.micro_steps = view.npu.graph.micro_step_count;
  if (view.bench) {
    tree.bench = SideOf(*view.bench, tree.stacks);
    for (size_t i = 0; i < nodes.size(); ++i) {
      tree.matches.push_back(nodes[i].match == kNone ? 0 : nodes[i].match + 1);
    }
    for (size_t i = 0; i < view.bench->graph.nodes.size(); ++i) {
      const Node& node = view.bench->graph.nodes[i];
      if (node.match != kNone && nodes[node.match].name == node.name) {
        tree.bench->names[i] = {};
      }
    }
    AddUnmatched(view.npu, *view.bench, tree.npu_unmatched);
    AddUnmatched(*view.bench, view.npu, tree.bench_unmatched);
  }
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const NodeScore& score = view.npu.scores[i];
    tree.codes[i] = FigureCode(score.precision) << kFigureShift | LevelCode(score.level)
                                                                      << kLevelShift;
    if (i >= view.divergence.size()) {
      continue;
    }
    const NodeDivergence& divergence = view.divergence[i];
    tree.codes[i] |= StandingCode(divergence.standing);
    if (divergence.input_error) {
      tree.input_errors[i] = tree.cells.Number(*divergence.input_error, kErrorBits);
    }
    if (divergence.output_error) {
      tree.output_errors[i] = tree.cells.Number(*divergence.output_error, kErrorBits);
    }
    if (divergence.point != nullptr) {
      tree.origins.emplace(i, std::pair(std::string(divergence.origin), OriginText(divergence)));
    }
  }
  tree.write_partners = [&view](json::Writer& writer) {
    std::map<std::string_view, const std::vector<Partners>*> by_name;
    for (const auto& [name, partners] : view.npu.partners) {
      by_name.emplace(name, &partners);
    }
    for (const auto& [name, partners] : by_name) {
      writer.Key(name);
      WritePartners(*partners, writer);
    }
  };
  return std::move(tree).Blocks(id);
}

// Collects the tensors of nodes from the first on, until there are `most_rows`.
class TensorCollector {
 public:
  explicit TensorCollector(const RankView& view) : view_(view) {}

  std::vector<report::PageBlock> Blocks(const std::string& id, uint64_t most_rows) {
    PageTensors::Side npu = Collect(view_.npu, most_rows);
    std::optional<PageTensors::Side> bench;
    if (view_.bench) {
      bench = Collect(*view_.bench, most_rows);
    }
    return std::move(tensors_).Blocks(id, std::move(npu), std::move(bench));
  }

 private:
  PageTensors::Side Collect(const SideView& side, uint64_t most_rows) {
    PageTensors::Side columns;
    const compare::Side& rows = side.dump->side();
    layout_.reset();
    if (auto read = layout::ReadLayout(rows.json_path.parent_path()); read.ok()) {
      layout_ = *std::move(read);
    }
    for (const Node& node : side.graph.nodes) {
      uint32_t count = 0;
      if (node.entry != kNone && columns.rows() < most_rows) {
        const compare::SideEntry& entry = rows.entries[node.entry];
        count = entry.row_count;
        for (uint32_t i = entry.first_row; i < entry.first_row + count; ++i) {
          AddRow(entry.name, rows.rows[i], columns);
          if (&side == &view_.npu) {
            columns.errors.push_back(ErrorOf(i));
          }
        }
      }
      columns.row_counts.push_back(count);
    }
    return columns;
  }

  uint32_t ErrorOf(uint32_t row) {
    if (!view_.result || row >= view_.result->rows.size() ||
        !view_.result->rows[row].distance.comparable) {
      return report::CellCodes::kNothing;
    }
    return tensors_.cells().Number(view_.result->rows[row].distance.relative, kErrorBits);
  }

  void AddRow(std::string_view entry, const compare::SideRow& row, PageTensors::Side& columns) {
    const bool has_sums = view_.mode == compare::CompareMode::kMd5;
    tensors_.AddWords(columns, entry, row.name,
                      {row.dtype, WithLayout(entry, row), has_sums ? row.md5 : std::string_view()});
    for (size_t i = 0; i < compare::kStatCount; ++i) {
      columns.fields[PageTensors::kWords.size() + i].push_back(
          compare::StatCode(row.stats[i], tensors_.cells()));
    }
  }

  // The shape, of a parameter with what the rank's layout.json says of it.
  std::string WithLayout(std::string_view entry, const compare::SideRow& row) const {
    std::string text(row.shape);
    if (layout_ && (row.state == dump::RowState::kParameters ||
                    row.state == dump::RowState::kParametersGrad)) {
      const std::string_view path = dump::ParseEntryName(entry).subject;
      const std::string_view name = row.name.substr(row.name.rfind('.') + 1);
      if (const layout::ParameterRecord* record = layout_->Find(fmt::format("{}.{}", path, name))) {
        text += fmt::format(" {}", record->Text());
      }
    }
    return text;
  }

  const RankView& view_;
  PageTensors tensors_;
  std::optional<layout::RankLayout> layout_;  // of the rank whose rows are collected
};

constexpr uint64_t kRoomForShell = 400'000;

GraphPage::Elements Packed(std::span<const report::PageBlock> blocks, base::ThreadPool& pool) {
  GraphPage::Elements elements;
  elements.texts = report::PackBlocks(blocks, pool);
  for (const std::string& text : elements.texts) {
    elements.bytes += text.size();
  }
  return elements;
}

std::string IdOf(size_t index) { return fmt::format("g{}", index); }

GraphPage::Elements TreeElements(const RankView& view, const std::string& id,
                                 base::ThreadPool& pool) {
  return Packed(TreeBlocks(view, id), pool);
}

GraphPage::Elements TensorElements(const RankView& view, const std::string& id,
                                   base::ThreadPool& pool) {
  return Packed(TensorCollector(view).Blocks(id, GraphPage::kMostRowsPerRank), pool);
}

bool Parts(const RankView& view) {
  return view.comparison != nullptr && view.comparison->divergence.first_origin.has_value();
}

// The ids of blocks begin with that of their rank, here with IdOf(0).
void Renumber(size_t index, GraphPage::Elements& elements) {
  const std::string mark = fmt::format("id=\"{}", IdOf(0));
  elements.bytes = 0;
  for (std::string& text : elements.texts) {
    if (const size_t at = text.find(mark); at != std::string::npos) {
      text.replace(at, mark.size(), fmt::format("id=\"{}", IdOf(index)));
    }
    elements.bytes += text.size();
  }
}

}  // namespace

Status GraphPage::Available() { return report::CheckShell(resources::kGraphPage); }

std::string_view GraphPage::Shell() { return resources::kGraphPage; }

// Only where a more important rank would push it out anyway there is none.
bool GraphPage::HasRoomFor(const Place& place) const {
  return tree_bytes_ + tensor_bytes_ + kRoomForShell < kMostBytes || tensors_.empty() ||
         std::prev(tensors_.end())->first > place;
}

void GraphPage::AddTensors(const Place& place, Elements tensors) {
  tensor_bytes_ += tensors.bytes;
  tensors_.emplace(place, std::move(tensors));
  has_tensors_[std::get<size_t>(place)] = true;
  while (tree_bytes_ + tensor_bytes_ + kRoomForShell > kMostBytes && !tensors_.empty()) {
    const auto last = std::prev(tensors_.end());
    tensor_bytes_ -= last->second.bytes;
    has_tensors_[std::get<size_t>(last->first)] = false;
    tensors_.erase(last);
  }
}

void GraphPage::AddTree(Elements tree) {
  ++count_;
  tree_bytes_ += tree.bytes;
  trees_.push_back(std::move(tree));
  has_tensors_.push_back(false);
}

void GraphPage::Add(const RankView& view) {
  const size_t index = count_;
  AddTree(TreeElements(view, IdOf(index), pool_));
  const Place place(!Parts(view), view.step, index);
  if (HasRoomFor(place)) {  // otherwise the work is saved
    AddTensors(place, TensorElements(view, IdOf(index), pool_));
  }
}

GraphPage::Rank GraphPage::MakeRank(const RankView& view, base::ThreadPool& pool) {
  const std::string id = IdOf(0);  // until Take() knows which one it is
  return {TreeElements(view, id, pool), TensorElements(view, id, pool), Parts(view), view.step};
}

void GraphPage::Take(Rank rank) {
  const size_t index = count_;
  Renumber(index, rank.tree);
  Renumber(index, rank.tensors);
  AddTree(std::move(rank.tree));
  const Place place(!rank.parts, rank.step, index);
  if (HasRoomFor(place)) {
    AddTensors(place, std::move(rank.tensors));
  }
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
  std::vector<ListedRank> ranks = ListRanks(answer);
  ranks.resize(std::min(ranks.size(), count_));
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i].has_tensors = has_tensors_[i];
  }
  PageListing listing;
  listing.is_comparison = answer.is_comparison;
  listing.task = TaskName(answer.mode);
  listing.notes = notes_;
  listing.counts = &answer;
  if (answer.comparison) {
    listing.verdict = compare::PairVerdictName(compare::VerdictOf(*answer.comparison));
  }
  std::vector<std::string> elements;
  const std::string compare_page =
      answer.is_comparison ? report::PageBeside(path, "msprobe compare") : std::string();
  listing.compare_page = compare_page;
  elements.push_back(
      report::PackBlock({"run", [&](std::string& out) { out += listing.Text(ranks); }}));
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
