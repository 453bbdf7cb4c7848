#include "src/analysis/grad/document.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::analysis::grad {
namespace {

using base::Plural;
using report::Cell;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefParameters = 10;
constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

std::string Percent(double share) { return fmt::format("{:.2f} %", share * 100); }

bool IsIdentical(const Comparison& comparison) {
  return std::all_of(comparison.ranks.begin(), comparison.ranks.end(),
                     [](const RankComparison& rank) {
                       return std::all_of(rank.summary.steps.begin(), rank.summary.steps.end(),
                                          [](const std::optional<Agreement>& step) {
                                            return !step || step->equal == step->elements;
                                          });
                     });
}

// The rank whose summary stands out first.
const RankComparison* FirstMarked(const Comparison& comparison) {
  const RankComparison* first = nullptr;
  for (const RankComparison& rank : comparison.ranks) {
    if (rank.summary.marked && (first == nullptr || rank.steps[*rank.summary.marked] <
                                                        first->steps[*first->summary.marked])) {
      first = &rank;
    }
  }
  return first;
}

size_t MarkedParameters(const Comparison& comparison) {
  size_t marked = 0;
  for (const RankComparison& rank : comparison.ranks) {
    marked +=
        static_cast<size_t>(std::count_if(rank.parameters.begin(), rank.parameters.end(),
                                          [](const Row& row) { return row.marked.has_value(); }));
  }
  return marked;
}

std::string MarkText(const RankComparison& rank, const Options& options) {
  const size_t step = *rank.summary.marked;
  const double similarity = rank.summary.steps[step]->similarity();
  const std::string where = fmt::format("rank {}, step {}: {} of the signs agree", rank.rank,
                                        rank.steps[step], Percent(similarity));
  for (size_t before = step; before-- > 0;) {
    const std::optional<Agreement>& earlier = rank.summary.steps[before];
    if (earlier && earlier->elements > 0) {
      return fmt::format("{}, after {} at step {}", where, Percent(earlier->similarity()),
                         rank.steps[before]);
    }
  }
  return fmt::format("{}, less than {} at the first step", where, Percent(options.min_similarity));
}

report::Verdict MakeVerdict(const Comparison& comparison) {
  report::Verdict verdict;
  const auto say = [&](std::string_view word, Tone tone, Standing standing,
                       const std::string& rest) {
    verdict.word = word;
    verdict.text = fmt::format("{}: {}", word, rest);
    verdict.tone = tone;
    verdict.standing = standing;
  };
  size_t marked = 0;
  double lowest = 1;
  size_t steps = 0;
  for (const RankComparison& rank : comparison.ranks) {
    marked += rank.summary.marked ? 1 : 0;
    for (const std::optional<Agreement>& step : rank.summary.steps) {
      if (step && step->elements > 0) {
        lowest = std::min(lowest, step->similarity());
        ++steps;
      }
    }
  }
  verdict.number = static_cast<double>(marked);
  verdict.unit = "ranks";
  const std::string failed =
      comparison.failed == 0
          ? ""
          : fmt::format("; {} could not be compared", Plural(comparison.failed, "gradient"));
  if (steps == 0) {
    say("NOTHING COMPARED", Tone::kBad, Standing::kNothingCompared,
        "no gradient has a partner with elements");
  } else if (const RankComparison* const first = FirstMarked(comparison)) {
    say("DIVERGED", Tone::kBad, Standing::kFindings, MarkText(*first, comparison.options) + failed);
  } else if (comparison.failed > 0) {
    say("INCOMPLETE", Tone::kCaution, Standing::kFindings,
        fmt::format("{}, of the others at least {} of the signs agree in every step",
                    failed.substr(2), Percent(lowest)));
  } else if (IsIdentical(comparison)) {
    say("IDENTICAL", Tone::kGood, Standing::kClean, "all signs agree in every step");
  } else {
    const size_t parameters = MarkedParameters(comparison);
    say("AGREE", Tone::kGood, parameters > 0 ? Standing::kFindings : Standing::kClean,
        fmt::format(
            "at least {} of the signs agree in every step{}", Percent(lowest),
            parameters == 0 ? "" : fmt::format("; {} stand out", Plural(parameters, "parameter"))));
  }
  return verdict;
}

double LowestOf(const Row& row) {
  double lowest = 2;  // above every share: rows without values come last
  for (const std::optional<Agreement>& step : row.steps) {
    if (step && step->elements > 0) {
      lowest = std::min(lowest, step->similarity());
    }
  }
  return lowest;
}

// Those that stand out first, the lowest of them in front; those of nothing but rounding last.
std::vector<const Row*> WorstFirst(const RankComparison& rank) {
  std::vector<const Row*> rows;
  for (const Row& row : rank.parameters) {
    rows.push_back(&row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return std::tuple(a->is_rounding, !a->marked, LowestOf(*a)) <
           std::tuple(b->is_rounding, !b->marked, LowestOf(*b));
  });
  return rows;
}

report::Curve CurveOf(const Row& row) {
  report::Curve curve{base::Printable(row.name), {}};
  for (const std::optional<Agreement>& step : row.steps) {
    curve.values.push_back(step && step->elements > 0 ? step->similarity() : kNoValue);
  }
  return curve;
}

Section RankSection(const RankComparison& rank) {
  Section section{fmt::format("Share of signs that agree, rank {}", rank.rank), {}};
  report::Curves curves;
  curves.unit = "share of signs";
  curves.axis = "step";
  for (const int64_t step : rank.steps) {
    curves.positions.push_back(std::to_string(step));
  }
  const std::vector<const Row*> rows = WorstFirst(rank);
  curves.items.push_back(CurveOf(rank.summary));
  report::Table table("parameters", {"Parameter", "Elements", "First", "Lowest", "At step", "Last",
                                     "Stands out at"});
  for (const Row* const row : rows) {
    curves.items.push_back(CurveOf(*row));
    std::optional<size_t> first;
    std::optional<size_t> lowest;
    std::optional<size_t> last;
    for (size_t step = 0; step < row->steps.size(); ++step) {
      if (!row->steps[step]) {
        continue;
      }
      first = first.value_or(step);
      last = step;
      if (!lowest || row->steps[step]->similarity() < row->steps[*lowest]->similarity()) {
        lowest = step;
      }
    }
    const auto share = [&](const std::optional<size_t>& step) {
      return step ? Cell::Number(row->steps[*step]->similarity()) : Cell();
    };
    const auto number = [&](const std::optional<size_t>& step) {
      return step ? Cell::Integer(rank.steps[*step]) : Cell();
    };
    const Cell cells[] = {
        table.KeepText(base::Printable(row->name)),
        first ? Cell::Integer(static_cast<int64_t>(row->steps[*first]->elements)) : Cell(),
        share(first),
        share(lowest),
        number(lowest),
        share(last),
        number(row->marked)};
    table.AddRow(cells, row->marked ? report::Fill::kYellow : report::Fill::kNone);
  }
  curves.brief.items = 1;
  curves.brief.counts_rest = false;  // the table tells of them
  section.blocks.emplace_back(std::move(curves));
  report::DataTable data{std::move(table)};
  data.brief.items = kBriefParameters;
  data.digits = 4;
  section.blocks.emplace_back(std::move(data));
  const auto rounding = std::count_if(rank.parameters.begin(), rank.parameters.end(),
                                      [](const Row& row) { return row.is_rounding; });
  if (rounding > 0) {
    section.blocks.emplace_back(report::Text{fmt::format(
        "The last of the list, {}: gradients of nothing but rounding, whose signs are chance",
        Plural(static_cast<size_t>(rounding), "parameter"))});
  }
  return section;
}

std::vector<report::TestCase> CasesOf(const Comparison& comparison) {
  std::vector<report::TestCase> cases;
  for (const RankComparison& rank : comparison.ranks) {
    report::TestCase& all = cases.emplace_back();
    all.name = fmt::format("rank {}", rank.rank);
    if (rank.summary.marked) {
      all.outcome = report::CaseOutcome::kFailed;
      all.level = all.type = "diverged";
      all.message = MarkText(rank, comparison.options);
    }
    for (const Row& row : rank.parameters) {
      report::TestCase& test = cases.emplace_back();
      test.name = fmt::format("rank {}, {}", rank.rank, base::Printable(row.name));
      const bool missing = std::any_of(row.steps.begin(), row.steps.end(),
                                       [](const auto& step) { return !step.has_value(); });
      if (row.marked || missing) {
        test.outcome = report::CaseOutcome::kFailed;
        test.level = test.type = "parameter";
        test.message = row.marked
                           ? fmt::format("step {}: {} of the signs agree", rank.steps[*row.marked],
                                         Percent(row.steps[*row.marked]->similarity()))
                           : "not compared in every step";
      }
    }
  }
  return cases;
}

}  // namespace

report::Document MakeDocument(const Comparison& comparison) {
  report::Document document;
  document.command = "grad_compare";
  document.verdict = MakeVerdict(comparison);
  document.levels = report::OutcomesOf(kGateLevels);
  report::SetFound(document.levels, "diverged", FirstMarked(comparison) != nullptr);
  report::SetFound(document.levels, "parameter",
                   MarkedParameters(comparison) > 0 || comparison.failed > 0);
  document.cases = CasesOf(comparison);
  for (const RankComparison& rank : comparison.ranks) {
    document.sections.push_back(RankSection(rank));
  }
  for (const std::filesystem::path& file : comparison.files) {
    document.files.push_back({file});
  }
  document.warnings = comparison.warnings;
  document.bytes = comparison.bytes;
  return document;
}

}  // namespace msprobe::analysis::grad
