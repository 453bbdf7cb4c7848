#include "src/analysis/rl/document.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::rl {
namespace {

using base::FormatCount;
using base::Plural;
using report::Cell;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

bool Differs(const KeySummary& key) {
  return key.identical < key.compared || key.only_first + key.only_second + key.failed > 0;
}

report::Verdict MakeVerdict(const Comparison& comparison) {
  report::Verdict verdict;
  verdict.unit = "keys";
  if (ComparedNothing(comparison)) {
    verdict.word = "NOTHING COMPARED";
    verdict.text = "NOTHING COMPARED: no array has a partner";
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kNothingCompared;
  } else if (HasDifferences(comparison)) {
    verdict.word = "DIFFERENT";
    verdict.text = fmt::format("DIFFERENT: see the {} below",
                               HasDifferentKeys(comparison) ? "keys" : "tokens");
    verdict.tone = Tone::kBad;
    verdict.standing = Standing::kFindings;
  } else {
    verdict.word = "IDENTICAL";
    verdict.text = fmt::format("IDENTICAL: all {}", Plural(comparison.keys.size(), "key"));
    verdict.tone = Tone::kGood;
  }
  verdict.number =
      static_cast<double>(std::count_if(comparison.keys.begin(), comparison.keys.end(), Differs));
  return verdict;
}

// Column Shape counts pairs of other shapes, NaN elements that are NaN on one side only.
Section KeysSection(const Comparison& comparison) {
  report::Table table("keys", {"Key", "Pairs", "Same", "Only a", "Only b", "Shape", "Failed", "NaN",
                               "Max error", "Where"});
  const auto count = [](uint64_t value) { return Cell::Integer(static_cast<int64_t>(value)); };
  for (const KeySummary& key : comparison.keys) {
    const Cell cells[] = {table.KeepText(base::Printable(key.key)),
                          count(key.compared),
                          count(key.identical),
                          count(key.only_first),
                          count(key.only_second),
                          count(key.other_shape),
                          count(key.failed),
                          count(key.nan_mismatches),
                          Cell::Number(key.max_abs),
                          table.KeepText(key.worst)};
    table.AddRow(cells);
  }
  Section section;
  section.blocks.emplace_back(report::DataTable{std::move(table)});
  return section;
}

Section TokensSection(const TokenSummary& summary) {
  const TokenNumbers& numbers = summary.numbers;
  std::string text = fmt::format("tokens of {} (a) and {} (b): {} compared", summary.key.first,
                                 summary.key.second, Plural(numbers.tokens, "token"));
  const auto tell = [&](uint64_t count, const std::string& words) {
    text += count > 0 ? ", " + words : std::string();
  };
  tell(numbers.masked, FormatCount(numbers.masked) + " masked");
  tell(summary.unpaired, Plural(summary.unpaired, "array") + " without a partner");
  tell(summary.other_shape, Plural(summary.other_shape, "pair") + " of other shapes");
  tell(summary.failed, Plural(summary.failed, "pair") + " failed");
  List list{ListKind::kNamed, {}};
  if (numbers.tokens > 0) {
    std::string difference =
        fmt::format("max {:.6g}, mean {:.6g}, std {:.6g}", numbers.max_difference,
                    numbers.difference.mean(), numbers.difference.standard_deviation());
    if (numbers.log_difference.count() > 0) {
      difference += fmt::format("; mean of a - b: {:.6g}", numbers.log_difference.mean());
    }
    list.items.push_back({"probability difference", std::move(difference)});
    list.items.back().number = numbers.max_difference;
  }
  if (!summary.worst_token.empty()) {
    list.items.push_back({"worst token", summary.worst_token});
  }
  if (!summary.largest_mean.empty()) {
    list.items.push_back({"largest mean", fmt::format("{}; smallest: {}", summary.largest_mean,
                                                      summary.smallest_mean)});
  }
  Section section{std::move(text), {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

// A case per key, and one per key whose tokens were compared.
std::vector<report::TestCase> CasesOf(const Comparison& comparison) {
  std::vector<report::TestCase> cases;
  const auto add = [&](std::string name, bool differs, std::string message) {
    report::TestCase& test = cases.emplace_back();
    test.name = std::move(name);
    if (differs) {
      test.outcome = report::CaseOutcome::kFailed;
      test.level = "different";
      test.type = "different";
      test.message = std::move(message);
    }
  };
  for (const KeySummary& key : comparison.keys) {
    add(key.key, Differs(key),
        fmt::format("{} of {} differ, {} without a partner, {} failed; max error {:.6g}{}{}",
                    key.compared - key.identical, Plural(key.compared, "pair"),
                    key.only_first + key.only_second, key.failed, key.max_abs,
                    key.worst.empty() ? "" : " at ", key.worst));
  }
  for (const TokenSummary& tokens : comparison.tokens) {
    add(fmt::format("tokens of {}", tokens.key.first), HasDifferences(tokens),
        fmt::format("{} of {} differ; worst token: {}", tokens.numbers.different,
                    Plural(tokens.numbers.tokens, "token"), tokens.worst_token));
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Comparison& comparison) {
  report::Document document;
  document.command = "rl_compare";
  document.verdict = MakeVerdict(comparison);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "different", HasDifferences(comparison));
  document.cases = CasesOf(comparison);
  document.sections.push_back(KeysSection(comparison));
  for (const TokenSummary& tokens : comparison.tokens) {
    document.sections.push_back(TokensSection(tokens));
  }
  for (const std::filesystem::path& file : comparison.files) {
    document.files.push_back({file});
  }
  document.warnings = comparison.warnings;
  return document;
}

}  // namespace msprobe::analysis::rl
