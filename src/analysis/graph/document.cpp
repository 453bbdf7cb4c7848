#include "src/analysis/graph/document.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/document.h"
#include "src/analysis/compare/summary.h"
#include "src/base/strings.h"

namespace msprobe::analysis::graph {
namespace {

using base::FormatCount;
using base::Plural;
using report::Item;
using report::List;
using report::ListKind;
using report::Standing;
using report::Tone;

constexpr size_t kBriefRanks = 8;

struct Totals {
  uint64_t nodes = 0;
  uint64_t bench_nodes = 0;
  uint64_t matched = 0;
  uint64_t judged = 0;
  uint64_t warned = 0;
  uint64_t failed = 0;
  uint64_t overflowing = 0;

  bool has_unmatched() const { return matched != nodes || matched != bench_nodes; }
};

Totals TotalsOf(const Answer& answer) {
  Totals totals;
  for (const RankSummary& rank : answer.ranks) {
    totals.nodes += rank.nodes;
    totals.bench_nodes += rank.bench_nodes;
    totals.matched += rank.matched;
    totals.judged += rank.passed + rank.warned + rank.failed;
    totals.warned += rank.warned;
    totals.failed += rank.failed;
    totals.overflowing += rank.overflowing;
  }
  return totals;
}

std::string Judged(const Totals& totals) { return Plural(totals.judged, "node") + " with values"; }

report::Verdict MakeGraphVerdict(const Answer& answer, const Totals& totals) {
  report::Verdict verdict;
  verdict.unit = "nodes";
  const auto say = [&verdict](std::string_view word, Tone tone, uint64_t number,
                              const std::string& text, Standing standing) {
    verdict.word = word;
    verdict.text = fmt::format("{}: {}", word, text);
    verdict.tone = tone;
    verdict.number = static_cast<double>(number);
    verdict.standing = standing;
  };
  const std::string graphs = Plural(answer.ranks.size(), "graph");
  if (!answer.is_comparison) {
    say("BUILT", Tone::kStrong, totals.nodes,
        fmt::format("{} of {}", graphs, Plural(totals.nodes, "node")), Standing::kClean);
  } else if (totals.failed > 0) {
    say("DIFFERENT", Tone::kBad, totals.failed,
        fmt::format("{} of {} are judged errors", FormatCount(totals.failed), Judged(totals)),
        Standing::kFindings);
  } else if (totals.has_unmatched()) {
    say("DIFFERENT IN STRUCTURE", Tone::kCaution, totals.nodes - totals.matched,
        fmt::format("{} of {} have a partner among {}", FormatCount(totals.matched),
                    Plural(totals.nodes, "node"), FormatCount(totals.bench_nodes)),
        Standing::kFindings);
  } else if (totals.warned > 0) {
    say("WARNINGS", Tone::kCaution, totals.warned,
        fmt::format("{} of {} are judged warnings", FormatCount(totals.warned), Judged(totals)),
        Standing::kFindings);
  } else if (answer.mode && totals.judged == 0) {
    say("NOTHING COMPARED", Tone::kBad, 0, "no node has values on both sides",
        Standing::kNothingCompared);
  } else {
    say("PASS", Tone::kGood, totals.matched,
        answer.mode ? fmt::format("all {} pass the rules of 26.x", Judged(totals))
                    : fmt::format("all {} have a partner", Plural(totals.nodes, "node")),
        Standing::kClean);
  }
  return verdict;
}

// Nodes are judged by the rules of 26.x, the run by the walk of `compare`, which sees below those
// rules and says where it starts. What the rules find where the walk finds nothing is told.
report::Verdict MakeVerdict(const Answer& answer, const Totals& totals) {
  report::Verdict verdict = MakeGraphVerdict(answer, totals);
  if (answer.comparison) {
    switch (compare::VerdictOf(*answer.comparison)) {
      case compare::PairVerdict::kUnequalBits:
      case compare::PairVerdict::kUnreadable:
      case compare::PairVerdict::kDrifts:
      case compare::PairVerdict::kDiffers:
      case compare::PairVerdict::kFailed:
        verdict = compare::MakeVerdict(*answer.comparison);
        break;
      default:
        if (verdict.standing == Standing::kClean) {
          verdict = compare::MakeVerdict(*answer.comparison);
        }
    }
  }
  if (answer.incomplete) {
    verdict.standing = Standing::kIncomplete;
  }
  return verdict;
}

const compare::PairSummary* PairOf(const Answer& answer, const RankSummary& rank) {
  return rank.pair ? &answer.comparison->pairs[*rank.pair] : nullptr;
}

bool IsDifferent(const compare::RunSummary& comparison) {
  const std::vector<report::LevelOutcome> levels = compare::LevelsOf(comparison);
  return std::any_of(levels.begin(), levels.end(), [](const report::LevelOutcome& level) {
    return level.word == "different" && level.found;
  });
}

report::TestCase CaseOf(const Answer& answer, const RankSummary& rank) {
  report::TestCase test;
  if (const compare::PairSummary* const pair = PairOf(answer, rank)) {
    compare::RunSummary alone;
    alone.pairs.push_back(*pair);
    test = compare::CasesOf(alone).front();
    // Of the levels of compare a graph has one.
    if (!test.level.empty() && !base::IsOneOf("different", test.further_levels)) {
      test = {};
    } else if (!test.level.empty()) {
      test.level = "different";
    }
    test.further_levels.clear();
  }
  test.name = fmt::format("step {} rank {}", rank.step, rank.rank);
  if (rank.failed > 0 && test.outcome == report::CaseOutcome::kPassed) {
    test.outcome = report::CaseOutcome::kFailed;
    test.level = "error";
    test.type = "different";
    test.message =
        fmt::format("{} nodes are judged errors, first {}", rank.failed, rank.first_failed);
  } else if (rank.failed > 0) {
    test.further_levels.emplace_back("error");
  }
  return test;
}

std::string TextOfRank(const Answer& answer, const RankSummary& rank) {
  std::string text = Plural(rank.nodes, "node");
  if (answer.is_comparison) {
    text += fmt::format(", {} matched with {}", FormatCount(rank.matched),
                        FormatCount(rank.bench_nodes));
    if (answer.mode) {
      text += fmt::format(": {} pass, {} warning, {} error", FormatCount(rank.passed),
                          FormatCount(rank.warned), FormatCount(rank.failed));
    }
  }
  if (rank.overflowing > 0) {
    text += fmt::format(", {} with NaN or infinity", FormatCount(rank.overflowing));
  }
  return text;
}

}  // namespace

report::Document MakeDocument(const Answer& answer) {
  report::Document document;
  document.command = "graph";
  const Totals totals = TotalsOf(answer);
  document.verdict = MakeVerdict(answer, totals);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "error", totals.failed > 0);
  report::SetFound(document.levels, "unmatched", answer.is_comparison && totals.has_unmatched());
  report::SetFound(document.levels, "different",
                   answer.comparison ? IsDifferent(*answer.comparison) : totals.failed > 0);
  List ranks = {ListKind::kNamed, {}, {.items = kBriefRanks}};
  for (const RankSummary& rank : answer.ranks) {
    const std::string name = fmt::format("step {} rank {}", rank.step, rank.rank);
    Item item = {name, TextOfRank(answer, rank),
                 rank.failed > 0   ? Tone::kBad
                 : rank.warned > 0 ? Tone::kCaution
                                   : Tone::kPlain};
    if (!rank.first_failed.empty()) {
      item.details.push_back({"first error", rank.first_failed});
    }
    if (const compare::PairSummary* const pair = PairOf(answer, rank);
        pair != nullptr && pair->divergence.first_origin) {
      item.details.push_back(
          {"starts with", "starts with " + compare::PointTitle(*pair->divergence.first_origin)});
    }
    ranks.items.push_back(std::move(item));
    document.cases.push_back(CaseOf(answer, rank));
  }
  if (answer.comparison) {
    document.sections.push_back(compare::MakeOrigins(*answer.comparison));
  }
  document.sections.emplace_back().blocks.emplace_back(std::move(ranks));
  bool is_page = false;
  for (const std::filesystem::path& file : answer.files) {
    document.files.push_back({file});
    is_page = is_page || file.extension() == ".html";
  }
  if (answer.comparison) {
    if (std::string next = compare::NextStep(*answer.comparison); !next.empty()) {
      document.next.push_back(std::move(next));
    }
  }
  if (!answer.files.empty() && !is_page) {
    report::List hint{report::ListKind::kSentences, {}};
    hint.items.push_back(
        {"", fmt::format("To see it in a browser: msprobe serve {}, or --format html for a page",
                         base::Printable(answer.files.front().parent_path().string()))});
    document.sections.emplace_back().blocks.emplace_back(std::move(hint));
  }
  document.warnings = answer.warnings;
  document.bytes = answer.size_bytes;
  document.seconds = answer.seconds;
  document.deed = answer.is_comparison ? "compared" : "read";
  return document;
}

}  // namespace msprobe::analysis::graph
