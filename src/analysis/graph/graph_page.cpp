#include "src/analysis/graph/graph_page.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/compare/summary.h"
#include "src/analysis/graph/page_columns.h"
#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kGraphPage;  // empty: not built
}

namespace msprobe::analysis::graph {
namespace {

constexpr uint64_t kRoomForShell = 400'000;

uint64_t BytesOf(const std::vector<std::string>& elements) {
  uint64_t bytes = 0;
  for (const std::string& element : elements) {
    bytes += element.size();
  }
  return bytes;
}

}  // namespace

Status GraphPage::Available() {
  if (resources::kGraphPage.empty()) {
    return UnsupportedError("this msprobe was built without the page for --format html")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; other formats do not "
            "need it");
  }
  return {};
}

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
