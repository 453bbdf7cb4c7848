#include "src/analysis/compare/page/compare_page.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/compare/run_verdict.h"
#include "src/analysis/compare/summary_json.h"
#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/report/web_page.h"

namespace msprobe::resources {
extern const std::string_view kComparePage;  // empty: not built
}

namespace msprobe::analysis::compare {
namespace {

constexpr int64_t kPageFormat = 1;             // what tools/web/compare expects
constexpr uint64_t kRoomForListing = 400'000;  // the shell and the list of pairs

constexpr uint64_t kMostBytesOfRows = ComparePage::kMostBytes - kRoomForListing;

}  // namespace

Status ComparePage::Available() {
  if (resources::kComparePage.empty()) {
    return UnsupportedError("this msprobe was built without the page for --format html")
        .WithHint(
            "run tools/dev/build_web.sh (needs npm) and build msprobe again; other formats do not "
            "need it");
  }
  return {};
}

void ComparePage::Add(size_t index, const PairSummary& summary, const ComparedPair& pair) {
  if (pair.result.rows.empty()) {
    return;
  }
  const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
  const Place place(VerdictOf(summary) < PairVerdict::kUnequalBits, summary.step.value_or(0),
                    !origin.has_value(), origin && origin->from_other_rank, index);
  // Only where a more important pair would push it out anyway is the work saved.
  if (kept_bytes_ >= kMostBytesOfRows && !kept_.empty() && std::prev(kept_.end())->first < place) {
    return;
  }
  const std::string id = fmt::format("p{}", index);
  uint64_t most_rows = kMostRowsPerPair;
  PairColumns columns = MakePairColumns(pair, id, most_rows, pool_);
  while (columns.bytes > kMostBytesOfRows && columns.rows > 1) {
    most_rows = std::max<uint64_t>(
        1, std::min(columns.rows - 1, columns.rows * kMostBytesOfRows / columns.bytes * 9 / 10));
    columns = MakePairColumns(pair, id, most_rows, pool_);
  }
  kept_bytes_ += columns.bytes;
  kept_.emplace(place, std::move(columns));
  while (kept_bytes_ > kMostBytesOfRows && kept_.size() > 1) {
    const auto last = std::prev(kept_.end());
    kept_bytes_ -= last->second.bytes;
    kept_.erase(last);
  }
}

std::string ComparePage::Listing(const RunSummary& summary, const std::string& graph_page) const {
  std::vector<uint64_t> rows_shown(summary.pairs.size());
  for (const auto& [place, columns] : kept_) {
    rows_shown[std::get<size_t>(place)] = columns.rows;
  }
  std::string text;
  json::Writer writer(text, -1, json::Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("format", kPageFormat);
  writer.Member("version", MSPROBE_VERSION);
  writer.Member("verdict", PairVerdictName(VerdictOf(summary)));
  const std::optional<size_t> leading = LeadingPair(summary);
  PutNumber(writer, "leading", leading ? std::optional<int64_t>(*leading) : std::nullopt);
  PutCounts(writer, "totals", summary.totals);
  std::vector<std::string> verdicts;
  for (size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    verdicts.emplace_back(VerdictText(static_cast<Verdict>(verdict)));
  }
  writer.Member("row_verdicts", verdicts);
  writer.Member("npu_only", summary.npu_only);
  writer.Member("bench_only", summary.bench_only);
  writer.Member("notes", notes_);
  writer.Member("graph_page", graph_page);
  writer.Key("pairs");
  writer.BeginArray();
  for (size_t i = 0; i < summary.pairs.size(); ++i) {
    const PairSummary& pair = summary.pairs[i];
    writer.BeginObject();
    writer.Member("name", PairName(pair));
    writer.Member("verdict", PairVerdictName(VerdictOf(pair)));
    writer.Member("error", pair.error);
    writer.Member("hint", NothingComparedHint(pair));
    writer.Member("npu_path", pair.npu_path);
    writer.Member("bench_path", pair.bench_path);
    PutNumber(writer, "step", pair.step);
    PutNumber(writer, "rank", pair.rank);
    writer.Member("is_debug", pair.is_debug);
    writer.Member("mode", CompareModeName(pair.mode));
    writer.Member("task", pair.task);
    PutCounts(writer, "counts", pair.counts);
    writer.Member("calls", pair.divergence.compared_entry_count);
    writer.Member("calls_agree", pair.divergence.agreeing_entry_count);
    const std::optional<DivergencePoint>& origin = pair.divergence.first_origin;
    writer.Member("origin", origin ? PointTitle(*origin) : std::string());
    writer.Member("rows_shown", rows_shown[i]);
    writer.Key("files");
    writer.BeginArray();
    for (const std::filesystem::path& file : pair.files) {
      writer.Text(file.filename().string());
    }
    writer.EndArray();
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return text;
}

Status ComparePage::Write(const std::filesystem::path& path, const RunSummary& summary) {
  notes_.clear();
  uint64_t without_rows = 0;
  uint64_t with_rows = 0;
  for (const PairSummary& pair : summary.pairs) {
    with_rows += pair.counts.rows > 0 ? 1 : 0;
  }
  without_rows = with_rows - kept_.size();
  if (without_rows > 0) {
    notes_.push_back(fmt::format(
        "the page lists {} without rows, so that it stays below {}; their tables hold all",
        base::Plural(without_rows, "pair"), base::FormatBytes(kMostBytes)));
  }
  for (const auto& [place, columns] : kept_) {
    const PairSummary& pair = summary.pairs[std::get<size_t>(place)];
    if (columns.rows < pair.counts.rows) {
      notes_.push_back(fmt::format(
          "the page holds {} of the {} of {}, those that stand out first; its table holds all",
          base::FormatCount(columns.rows), base::Plural(pair.counts.rows, "row"), PairName(pair)));
    }
  }
  std::vector<std::string> elements;
  const std::string graph_page = report::PageBeside(path, "msprobe graph");
  elements.push_back(
      report::PackBlock({"run", [&](std::string& out) { out += Listing(summary, graph_page); }}));
  for (auto& [place, columns] : kept_) {
    std::move(columns.elements.begin(), columns.elements.end(), std::back_inserter(elements));
    columns.elements.clear();
  }
  return report::WriteWebPage(path, resources::kComparePage, elements).status();
}

}  // namespace msprobe::analysis::compare
