#include "src/analysis/monitor/answers.h"

#include <utility>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::monitor {
namespace {

using base::Plural;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

// Figures that the verdict tells in its sentence, for programs.
Section FiguresSection(std::initializer_list<std::pair<std::string_view, double>> figures) {
  List list{ListKind::kFacts, {}, {0}};
  for (const auto& [label, number] : figures) {
    list.items.push_back({std::string(label), fmt::format("{:.0f}", number)});
    list.items.back().number = number;
  }
  Section section;
  section.blocks.emplace_back(std::move(list));
  return section;
}

report::Verdict Written(std::string text, uint64_t number, std::string_view unit) {
  report::Verdict verdict;
  verdict.word = "WRITTEN";
  verdict.tone = Tone::kStrong;
  verdict.text = std::move(text);
  verdict.number = static_cast<double>(number);
  verdict.unit = unit;
  return verdict;
}

// Fails when there is one of what is counted.
report::TestCase CaseOf(std::string name, std::string level, uint64_t count,
                        std::string_view noun) {
  report::TestCase test;
  test.name = std::move(name);
  if (count > 0) {
    test.outcome = report::CaseOutcome::kFailed;
    test.type = level;
    test.level = std::move(level);
    test.message = Plural(count, noun);
  }
  return test;
}

}  // namespace

report::Document MakeDocument(const AnalyseResult& result) {
  report::Document document;
  document.command = "monitor analyse";
  report::Verdict& verdict = document.verdict;
  verdict.word = result.alerts > 0 ? "ALERTS" : "NO ALERTS";
  verdict.text = fmt::format("Top {} anomalies are listed as follows:", result.top.size());
  verdict.number = static_cast<double>(result.alerts);
  verdict.unit = "alerts";
  verdict.tone = Tone::kStrong;
  verdict.standing = result.alerts > 0          ? report::Standing::kFindings
                     : !result.warnings.empty() ? report::Standing::kNothingCompared
                                                : report::Standing::kClean;
  document.levels = report::OutcomesOf(kAnalyseLevels);
  report::SetFound(document.levels, "alert", result.alerts > 0);
  report::TestCase alerts = CaseOf("alerts", "alert", result.alerts, "alert");
  for (const Anomaly& anomaly : result.top) {
    alerts.details += anomaly.message + "\n";
  }
  if (verdict.standing == report::Standing::kNothingCompared) {
    alerts.outcome = report::CaseOutcome::kError;
    alerts.message = result.warnings.front();
  }
  document.cases.push_back(std::move(alerts));
  List list{ListKind::kNamed, {}};
  for (size_t i = 0; i < result.top.size(); ++i) {
    list.items.push_back({fmt::format("{}", i), result.top[i].message});
  }
  List counts{ListKind::kSentences,
              {{"", fmt::format("{} of {}", Plural(result.alerts, "alert"),
                                Plural(result.ranks, "rank"))}}};
  Section& section = document.sections.emplace_back();
  section.blocks.emplace_back(std::move(list));
  document.sections.push_back({"Counts", {}});
  document.sections.back().blocks.emplace_back(std::move(counts));
  document.files.push_back({result.file});
  document.warnings = result.warnings;
  return document;
}

report::Document MakeDocument(const EventResult& result) {
  report::Document document;
  document.command = "monitor csv2tb";
  document.verdict =
      Written(fmt::format("{} of {} in {}", Plural(result.scalars, "number"),
                          Plural(result.ranks, "rank"), Plural(result.files, "event file")),
              result.scalars, "numbers");
  document.sections.push_back(FiguresSection({{"ranks", static_cast<double>(result.ranks)},
                                              {"files", static_cast<double>(result.files)}}));
  document.files.push_back({result.output / "", "event files"});
  document.warnings = result.warnings;
  return document;
}

report::Document MakeDocument(const ReportOutcome& outcome, const std::filesystem::path& page) {
  report::Document document;
  document.command = "monitor report";
  document.verdict =
      Written(fmt::format("{} of {} series and {}, steps {} to {}: {}, {} not finite; a page of {}",
                          Plural(outcome.rows, "row"), base::FormatCount(outcome.series),
                          Plural(outcome.ranks, "rank"), outcome.first_step, outcome.last_step,
                          Plural(outcome.alerts, "alert"), Plural(outcome.non_finite, "number"),
                          base::FormatBytes(outcome.size_bytes)),
              outcome.rows, "rows");
  document.verdict.standing = outcome.alerts + outcome.non_finite > 0 ? report::Standing::kFindings
                                                                      : report::Standing::kClean;
  document.levels = report::OutcomesOf(kReportLevels);
  report::SetFound(document.levels, "not_finite", outcome.non_finite > 0);
  report::SetFound(document.levels, "alert", outcome.alerts > 0);
  document.cases.push_back(
      CaseOf("numbers that are not finite", "not_finite", outcome.non_finite, "number"));
  document.cases.push_back(CaseOf("alerts", "alert", outcome.alerts, "alert"));
  document.sections.push_back(
      FiguresSection({{"series", static_cast<double>(outcome.series)},
                      {"ranks", static_cast<double>(outcome.ranks)},
                      {"first step", static_cast<double>(outcome.first_step)},
                      {"last step", static_cast<double>(outcome.last_step)},
                      {"alerts", static_cast<double>(outcome.alerts)},
                      {"not finite", static_cast<double>(outcome.non_finite)},
                      {"bytes", static_cast<double>(outcome.size_bytes)}}));
  document.files.push_back({page});
  document.warnings = outcome.warnings;
  return document;
}

report::Document MakeDocument(std::span<const StoreResult> stores) {
  report::Document document;
  document.command = "monitor csv2db";
  uint64_t rows = 0;
  std::vector<std::string> texts;
  for (const StoreResult& store : stores) {
    rows += store.rows;
    texts.push_back(fmt::format("{}: {} of {} and {}", store.file.filename().string(),
                                Plural(store.rows, "row"), Plural(store.names, "name"),
                                Plural(store.ranks, "rank")));
    document.sections.push_back(FiguresSection({{"rows", static_cast<double>(store.rows)},
                                                {"names", static_cast<double>(store.names)},
                                                {"ranks", static_cast<double>(store.ranks)}}));
    document.sections.back().title = store.file.filename().string();
    document.files.push_back({store.file});
    document.warnings.insert(document.warnings.end(), store.warnings.begin(), store.warnings.end());
  }
  document.verdict = Written(base::Join(texts, "; "), rows, "rows");
  return document;
}

}  // namespace msprobe::monitor
