#include "src/analysis/perf/page.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "src/analysis/perf/result_files.h"
#include "src/base/strings.h"
#include "src/report/answer_page.h"
#include "src/report/table.h"

namespace msprobe::analysis::perf {
namespace {

namespace fs = std::filesystem;
using report::AnswerPage;
using report::Tone;

// The rank to take apart: whose end-to-end time grew most, else the first that has an answer.
const RankSummary* Leading(const RunSummary& run) {
  const RankSummary* leading = nullptr;
  const auto growth = [](const RankSummary& rank) {
    return rank.comparison.end_to_end_ms - rank.base.end_to_end_ms;
  };
  for (const RankSummary& rank : run.ranks) {
    if (rank.error.empty() &&
        (leading == nullptr ||
         (rank.has_times && (!leading->has_times || growth(rank) > growth(*leading))))) {
      leading = &rank;
    }
  }
  return leading;
}

Tone ToneOf(std::string_view word) {
  return word == "SLOWER" ? Tone::kBad : word.empty() ? Tone::kCaution : Tone::kGood;
}

std::string RankLabel(const RankSummary& rank) {
  return rank.rank ? fmt::format("rank {}", *rank.rank) : std::string();
}

// What remains of a step, as the terminal calls it.
std::string_view RestName(const RankSummary& rank) {
  return rank.of_host ? "outside of operators" : "idle";
}

void PutTimes(const RankSummary& rank, AnswerPage& page) {
  if (!rank.has_times) {
    return;
  }
  page.BeginSection("What the time consists of",
                    "computing hides communication and copies that run beside it");
  const auto parts = [](const SideTimes& side) {
    return std::vector<double>{side.computing_ms, side.uncovered_communication_ms, side.copies_ms,
                               std::max(0.0, side.free_ms - side.copies_ms)};
  };
  page.AddBars({rank.of_host ? "operators (host)" : "computing", "communication not hidden",
                "copies not hidden", std::string(RestName(rank))},
               {{"base", parts(rank.base)}, {"comparison", parts(rank.comparison)}}, "ms");
}

// How much of the communication computing hides, and what of the rest is waiting for other ranks.
void PutOverlap(const RankSummary& rank, AnswerPage& page) {
  if (!rank.has_times || rank.of_host) {
    return;
  }
  double base = 0;
  double comparison = 0;
  for (const Collective& collective : rank.collectives) {
    base += collective.base_ms;
    comparison += collective.comparison_ms;
  }
  if (base <= 0 && comparison <= 0) {
    return;
  }
  const auto parts = [](double whole, const SideTimes& side) {
    const double seen = side.uncovered_communication_ms;
    const double waiting = std::clamp(side.wait_ms, 0.0, seen);
    return std::vector<double>{std::max(0.0, whole - seen), seen - waiting, waiting};
  };
  page.BeginSection("Communication and what hides it", "all collectives of a side");
  page.AddBars(
      {"hidden by computing", "transfer not hidden", "waiting not hidden"},
      {{"base", parts(base, rank.base)}, {"comparison", parts(comparison, rank.comparison)}}, "ms");
}

class TreeBuilder {
 public:
  explicit TreeBuilder(const RankSummary& rank) {
    int64_t root = -1;
    if (rank.has_times) {
      root = Add(-1, "end to end", rank.base.end_to_end_ms, rank.comparison.end_to_end_ms);
    }
    const int64_t computing = AddShare(rank, root, "computing", &SideTimes::computing_ms);
    const int64_t communication =
        AddShare(rank, root, "communication not hidden", &SideTimes::uncovered_communication_ms);
    AddShare(rank, root, "copies not hidden", &SideTimes::copies_ms);
    if (rank.has_times) {
      Add(root, std::string(RestName(rank)), std::max(0.0, rank.base.free_ms - rank.base.copies_ms),
          std::max(0.0, rank.comparison.free_ms - rank.comparison.copies_ms));
    }
    AddKernels(rank, computing, communication);
    for (const Collective& collective : rank.collectives) {
      Add(communication, collective.kind, collective.base_ms, collective.comparison_ms,
          collective.base_calls, collective.comparison_calls);
    }
  }

  const std::vector<AnswerPage::Node>& nodes() const { return nodes_; }

 private:
  int64_t Add(int64_t parent, std::string label, double base, double comparison,
              int64_t base_count = -1, int64_t comparison_count = -1) {
    nodes_.push_back(
        {parent, std::move(label), base, comparison, base_count, comparison_count, {}});
    return static_cast<int64_t>(nodes_.size()) - 1;
  }

  int64_t AddShare(const RankSummary& rank, int64_t root, std::string label,
                   double SideTimes::*time) {
    return rank.has_times ? Add(root, std::move(label), rank.base.*time, rank.comparison.*time)
                          : -1;
  }

  void AddKernels(const RankSummary& rank, int64_t computing, int64_t communication) {
    std::unordered_map<std::string_view, int64_t> families;
    for (const KernelChange& family : rank.kernel_families) {
      const int64_t share = family.family == "communication" ? communication : computing;
      families.emplace(family.family,
                       Add(share, family.family, family.base_ms, family.comparison_ms,
                           family.base_calls, family.comparison_calls));
    }
    for (const KernelChange& kernel : rank.kernels) {
      const auto family = families.find(kernel.family);
      Add(family == families.end() ? computing : family->second, kernel.name, kernel.base_ms,
          kernel.comparison_ms, kernel.base_calls, kernel.comparison_calls);
    }
  }

  std::vector<AnswerPage::Node> nodes_;
};

void PutFindings(const RankSummary& rank, AnswerPage& page) {
  if (rank.findings.empty()) {
    return;
  }
  report::Table table("findings", {"Where", "Metric", "Base", "Comparison", "Change", "Base calls",
                                   "Comparison calls", "Note", "Call stack"});
  for (const Finding& finding : rank.findings) {
    const report::Cell cells[] = {table.KeepText(finding.where),
                                  table.KeepText(finding.metric),
                                  report::Cell::Number(finding.base),
                                  report::Cell::Number(finding.comparison),
                                  report::Cell::Number(finding.comparison - finding.base),
                                  report::Cell::Integer(finding.base_calls),
                                  report::Cell::Integer(finding.comparison_calls),
                                  table.KeepText(finding.note),
                                  table.KeepText(finding.call_stack)};
    table.AddRow(cells);
  }
  page.BeginSection("Operators and modules that changed", "ms, or MB of memory");
  page.AddTable(table);
}

void PutRanks(const RunSummary& run, AnswerPage& page) {
  if (run.ranks.size() < 2) {
    return;
  }
  report::Table table("ranks", {"Rank", "Verdict", "Base ms", "Comparison ms", "Computing change",
                                "Communication change", "Idle change", "Error"});
  for (const RankSummary& rank : run.ranks) {
    const auto change = [&](double SideTimes::*time) {
      return rank.has_times ? report::Cell::Number(rank.comparison.*time - rank.base.*time)
                            : report::Cell();
    };
    const auto figure = [&](double value) {
      return rank.has_times ? report::Cell::Number(value) : report::Cell();
    };
    const report::Cell cells[] = {report::Cell::Integer(rank.rank.value_or(-1)),
                                  table.KeepText(rank.verdict.word),
                                  figure(rank.base.end_to_end_ms),
                                  figure(rank.comparison.end_to_end_ms),
                                  change(&SideTimes::computing_ms),
                                  change(&SideTimes::uncovered_communication_ms),
                                  change(&SideTimes::free_ms),
                                  table.KeepText(rank.error)};
    table.AddRow(cells, rank.error.empty() ? report::Fill::kNone : report::Fill::kRed);
  }
  page.BeginSection("All ranks");
  page.AddTable(table);
}

fs::path PathBesideTables(const fs::path& folder, const std::string& stamp, const RunSummary& run) {
  fs::path stem = ResultStem(folder, stamp, std::nullopt);
  if (run.ranks.size() == 1 && !run.ranks[0].files.empty()) {
    const fs::path table = run.ranks[0].files[0];
    if (table.extension() == ".xlsx") {
      stem = table.parent_path() / table.stem();
    }
  }
  return stem.string() + ".html";
}

}  // namespace

Result<PerfPage> WritePage(const fs::path& folder, const std::string& stamp,
                           const RunSummary& run) {
  AnswerPage page("perf_compare");
  const RankSummary* const leading = Leading(run);
  if (leading == nullptr) {
    page.SetVerdict("FAILED", "FAILED: no rank could be compared", Tone::kBad);
  } else {
    const std::string where =
        run.ranks.size() > 1 ? fmt::format(" ({})", RankLabel(*leading)) : std::string();
    page.SetVerdict(
        leading->verdict.word,
        (leading->verdict.text.empty() ? "the profiles contain no times" : leading->verdict.text) +
            where,
        ToneOf(leading->verdict.word));
    page.SetSides(leading->comparison_path, leading->base_path);  // the side under test first
    if (run.ranks.size() > 1) {
      page.AddFact(base::FormatCount(run.ranks.size()), "ranks");
    }
    if (leading->has_times) {
      page.AddFact(fmt::format("{:.4g} ms", leading->base.end_to_end_ms), "base");
      page.AddFact(fmt::format("{:.4g} ms", leading->comparison.end_to_end_ms), "comparison",
                   leading->verdict.word == "SLOWER" ? Tone::kBad : Tone::kPlain);
    }
    PutTimes(*leading, page);
    PutOverlap(*leading, page);
    const TreeBuilder tree(*leading);
    if (!tree.nodes().empty()) {
      page.BeginSection("What changed, down to kernels",
                        "kernels of a family may run concurrently: their sum may exceed it");
      page.AddTree(tree.nodes(), "ms");
    }
    PutFindings(*leading, page);
  }
  PutRanks(run, page);
  const fs::path path = PathBesideTables(folder, stamp, run);
  std::vector<report::OutputFile> written;
  for (const RankSummary& rank : run.ranks) {
    for (const std::string& file : rank.files) {
      written.push_back({file});
    }
  }
  page.AddFiles(written, path);
  MSP_RETURN_IF_ERROR(page.Write(path));
  return PerfPage{path, page.notes()};
}

}  // namespace msprobe::analysis::perf
