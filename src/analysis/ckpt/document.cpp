#include "src/analysis/ckpt/document.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/layers.h"
#include "src/base/strings.h"
#include "src/report/number_text.h"

namespace msprobe::analysis::ckpt {
namespace {

using base::FormatCount;
using base::Plural;
using report::List;
using report::ListKind;
using report::Section;
using report::Standing;
using report::Tone;

constexpr size_t kBriefDifferences = 10;
constexpr size_t kLayerLines = 24;
constexpr size_t kBriefNames = 8;

std::string Short(double value) { return report::NumberText(value, 3); }

// By size, with what is not a number in front and what is within the tolerance behind.
std::vector<const PairResult*> LargestFirst(const Comparison& comparison) {
  std::vector<const PairResult*> different;
  for (const PairResult& pair : comparison.pairs) {
    if (pair.outcome == Outcome::kDifferent || pair.outcome == Outcome::kClose) {
      different.push_back(&pair);
    }
  }
  std::stable_sort(different.begin(), different.end(),
                   [](const PairResult* x, const PairResult* y) {
                     if (x->outcome != y->outcome) {
                       return x->outcome > y->outcome;
                     }
                     const double a = x->metrics.relative_l2;
                     const double b = y->metrics.relative_l2;
                     return std::isnan(a) != std::isnan(b) ? std::isnan(a) : a > b;
                   });
  return different;
}

// ", but 3 hold NaN"; empty where all values are finite.
std::string NotFiniteText(const Comparison& comparison) {
  size_t nan = 0;
  size_t infinite = 0;
  for (const PairResult& pair : comparison.pairs) {
    if (pair.sums.nan_count_a + pair.sums.nan_count_b > 0) {
      ++nan;
    } else if (pair.has_non_finite()) {
      ++infinite;
    }
  }
  std::string text;
  for (const auto& [count, what] : {std::pair(nan, "NaN"), std::pair(infinite, "infinity")}) {
    if (count > 0) {
      text += fmt::format("{} {} hold{} {}", text.empty() ? ", but" : " and", FormatCount(count),
                          count == 1 ? "s" : "", what);
    }
  }
  return text;
}

// What the figures of a row do not tell.
std::string Remark(const PairResult& pair) {
  const kernels::ComparePartial& finite = pair.sums.finite;
  if (pair.has_non_finite()) {
    return fmt::format(" (NaN: {} and {}, infinities: {} and {})",
                       FormatCount(pair.sums.nan_count_a), FormatCount(pair.sums.nan_count_b),
                       FormatCount(pair.sums.inf_count_a), FormatCount(pair.sums.inf_count_b));
  }
  return finite.different_count == 0 && pair.outcome == Outcome::kDifferent
             ? " (equal as float32, not in every digit)"
             : "";
}

report::Verdict MakeVerdict(const Comparison& comparison,
                            const std::vector<const PairResult*>& largest) {
  const size_t total = comparison.pairs.size();
  const size_t identical = comparison.CountOf(Outcome::kIdentical);
  const size_t equal = comparison.CountOf(Outcome::kEqual);
  const size_t different = comparison.CountOf(Outcome::kDifferent);
  const size_t unreadable = comparison.CountOf(Outcome::kUnreadable);
  const size_t broken = comparison.CountOf(Outcome::kShapes) + unreadable;
  const size_t unmatched = comparison.only_in_a.size() + comparison.only_in_b.size();
  const std::string not_finite = NotFiniteText(comparison);
  report::Verdict verdict;
  verdict.unit = "parameters";
  const auto say = [&](std::string_view word, Tone tone, Standing standing, size_t number,
                       const std::string& rest) {
    verdict.word = word;
    verdict.text = fmt::format("{}: {}", word, rest);
    verdict.tone = tone;
    verdict.standing = standing;
    verdict.number = static_cast<double>(number);
  };
  if (total == 0) {
    say("NOTHING COMPARED", Tone::kBad, Standing::kNothingCompared, 0,
        "the checkpoints have no parameter in common");
  } else if (comparison.nothing_compared()) {
    say("NOTHING COMPARED", Tone::kBad, Standing::kNothingCompared, 0,
        broken > 0 ? fmt::format("none of {} could be", Plural(total, "common parameter"))
                   : "no common parameter has any element");
  } else if (different > 0) {
    say("DIFFERENT", Tone::kBad, Standing::kFindings, different,
        fmt::format("{} of {}, most of all {}", FormatCount(different),
                    Plural(total, "common parameter"), largest.front()->name));
  } else if (broken > 0) {
    say("DIFFERENT", Tone::kBad, Standing::kFindings, broken,
        fmt::format("{} could not be compared", Plural(broken, "common parameter")));
  } else if (!comparison.settings.empty()) {
    say("DIFFERENT", Tone::kBad, Standing::kFindings, comparison.settings.size(),
        fmt::format("{} of the optimizer, all parameters agree",
                    Plural(comparison.settings.size(), "setting")));
    verdict.unit = "settings";
  } else if (unmatched > 0) {
    say("EQUAL IN PART", Tone::kCaution, Standing::kFindings, unmatched,
        fmt::format(
            "{} agree, but {} no partner{}", Plural(total, "common parameter"),
            unmatched == 1 ? "1 parameter has" : FormatCount(unmatched) + " parameters have",
            not_finite));
  } else {
    const std::string all = Plural(total, "parameter");
    const Tone tone = not_finite.empty() ? Tone::kGood : Tone::kCaution;
    const Standing standing = not_finite.empty() ? Standing::kClean : Standing::kFindings;
    if (identical == total) {
      say("IDENTICAL", tone, standing, total,
          fmt::format("all {} are equal bit by bit{}", all, not_finite));
    } else if (identical + equal == total) {
      say("EQUAL", tone, standing, total,
          fmt::format("all {} have the same values{}", all, not_finite));
    } else {
      say("CLOSE", tone, standing, total,
          fmt::format("all {} agree within the tolerance{}", all, not_finite));
    }
  }
  if (unreadable > 0) {
    verdict.standing = Standing::kIncomplete;
  }
  return verdict;
}

report::Item SideItem(std::string label, const SideFacts& side) {
  std::string text(checkpoint::KindName(side.kind));
  if (side.iteration) {
    text += fmt::format(", iteration {}", *side.iteration);
  }
  report::Item item{std::move(label), text + ", " + Plural(side.parameter_count, "parameter")};
  item.source = report::SourceLine{side.path.string()};
  item.details.push_back({"path", side.path.string()});
  return item;
}

Section SidesSection(const Comparison& comparison) {
  Section section;
  section.blocks.emplace_back(
      List{ListKind::kFacts,
           {SideItem("checkpoint 1", comparison.a), SideItem("checkpoint 2", comparison.b)}});
  return section;
}

Section LargestSection(const std::vector<const PairResult*>& largest) {
  report::Table table("largest", {"Relative l2", "cos", "Max abs", "Parameter"});
  for (const PairResult* const pair : largest) {
    const report::Cell cells[] = {
        table.KeepText(Short(pair->metrics.relative_l2)),
        table.KeepText(pair->metrics.cosine ? report::NumberText(*pair->metrics.cosine, 8)
                                            : "null"),
        table.KeepText(Short(pair->sums.finite.max_abs_error)),
        table.KeepText(pair->name + Remark(*pair))};
    table.AddRow(cells);
  }
  Section section{"Largest differences", {}};
  section.blocks.emplace_back(report::DataTable{std::move(table), {kBriefDifferences}});
  return section;
}

Section LayersSection(const Comparison& comparison) {
  Section section{"Per layer, relative l2", {}};
  report::Bars bars;
  bars.unit = "relative l2";
  bool differs = false;
  for (const LayerDifference& layer : LayerDifferences(comparison.pairs, kLayerLines)) {
    bars.items.push_back({layer.name, layer.relative_l2});
    differs = differs || !(layer.relative_l2 == 0);
  }
  if (differs && bars.items.size() > 1) {
    section.blocks.emplace_back(std::move(bars));
  }
  return section;
}

report::Brief BriefNames(size_t all, std::string_view noun) {
  return {kBriefNames,
          all > kBriefNames ? fmt::format("and {}", Plural(all - kBriefNames, noun)) : ""};
}

Section BrokenSection(const Comparison& comparison) {
  List list{ListKind::kNamed, {}};
  for (const PairResult& pair : comparison.pairs) {
    if (!pair.computed()) {
      list.items.push_back(
          {pair.name,
           pair.outcome == Outcome::kShapes
               ? fmt::format("shapes {} and {}", ShapeText(pair.shape_a), ShapeText(pair.shape_b))
               : base::Join(pair.notes, "; ")});
    }
  }
  list.brief = BriefNames(list.items.size(), "more parameter");
  Section section{"Not comparable", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section UnmatchedSection(std::string_view heading, const std::vector<Unmatched>& names) {
  List list{ListKind::kNamed, {}, {kBriefNames}};
  for (const Unmatched& name : names) {
    list.items.push_back({name.name, name.reason});
  }
  Section section{fmt::format("{}: {}", heading, Plural(names.size(), "parameter")), {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section SettingsSection(const Comparison& comparison) {
  List list{ListKind::kNamed, {}, {kBriefNames}};
  for (const SettingDifference& setting : comparison.settings) {
    list.items.push_back({setting.name, fmt::format("{} / {}", setting.text_a, setting.text_b)});
  }
  Section section{"Settings of the optimizer that differ (1 / 2)", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

Section CountsSection(const Comparison& comparison) {
  std::string text;
  for (size_t outcome = 0; outcome < kOutcomeCount; ++outcome) {
    const auto value = static_cast<Outcome>(outcome);
    const size_t count = comparison.CountOf(value);
    if (count > 0) {
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", FormatCount(count), OutcomeName(value));
    }
  }
  List list{ListKind::kFacts, {{"common", text.empty() ? "none" : text}}};
  if (comparison.only_in_a.size() + comparison.only_in_b.size() > 0) {
    list.items.push_back({"unmatched", fmt::format("{} only in 1, {} only in 2",
                                                   FormatCount(comparison.only_in_a.size()),
                                                   FormatCount(comparison.only_in_b.size()))});
  }
  Section section{"Counts", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

// The level of a pair that is not as it should be; empty for one that is.
std::string_view LevelOf(const PairResult& pair) {
  if (!pair.computed() || pair.has_non_finite_on_one_side()) {
    return "error";
  }
  if (pair.outcome == Outcome::kDifferent) {
    return "different";
  }
  return pair.has_non_finite() ? "nan" : "";
}

std::vector<report::TestCase> MakeCases(const Comparison& comparison) {
  std::vector<report::TestCase> cases;
  for (const PairResult& pair : comparison.pairs) {
    report::TestCase& test = cases.emplace_back();
    test.name = pair.name;
    test.level = LevelOf(pair);
    if (test.level.empty()) {
      continue;
    }
    test.outcome = pair.outcome == Outcome::kUnreadable ? report::CaseOutcome::kError
                                                        : report::CaseOutcome::kFailed;
    test.type = OutcomeName(pair.outcome);
    test.message =
        pair.computed()
            ? fmt::format("relative l2 {}, max abs {}{}", Short(pair.metrics.relative_l2),
                          Short(pair.sums.finite.max_abs_error), Remark(pair))
        : pair.outcome == Outcome::kShapes
            ? fmt::format("shapes {} and {}", ShapeText(pair.shape_a), ShapeText(pair.shape_b))
            : base::Join(pair.notes, "; ");
  }
  for (const auto& [names, side] :
       {std::pair(&comparison.only_in_a, 1), std::pair(&comparison.only_in_b, 2)}) {
    for (const Unmatched& name : *names) {
      cases.push_back({name.name, 0, report::CaseOutcome::kFailed, "missing", "missing",
                       fmt::format("only in checkpoint {}{}{}", side,
                                   name.reason.empty() ? "" : ": ", name.reason)});
    }
  }
  for (const SettingDifference& setting : comparison.settings) {
    cases.push_back({setting.name, 0, report::CaseOutcome::kFailed, "different", "setting",
                     fmt::format("{} / {}", setting.text_a, setting.text_b)});
  }
  return cases;
}

std::vector<report::LevelOutcome> MakeLevels(const Comparison& comparison) {
  std::vector<report::LevelOutcome> levels = report::OutcomesOf(kGateLevels);
  for (const PairResult& pair : comparison.pairs) {
    if (const std::string_view level = LevelOf(pair); !level.empty()) {
      report::SetFound(levels, level, true);
    }
  }
  if (comparison.only_in_a.size() + comparison.only_in_b.size() > 0) {
    report::SetFound(levels, "missing", true);
  }
  if (!comparison.settings.empty()) {
    report::SetFound(levels, "different", true);
  }
  return levels;
}

Section SameContentSection(const Comparison& comparison) {
  List list{ListKind::kNamed, {}, {kBriefNames}};
  for (const SameContent& same : comparison.same_content) {
    list.items.push_back({same.name_a, fmt::format("equals {} of checkpoint 2{}", same.name_b,
                                                   same.transposed ? " transposed" : "")});
  }
  Section section{"Equal under another name", {}};
  section.blocks.emplace_back(std::move(list));
  return section;
}

std::vector<std::string> NextSteps(const Comparison& comparison) {
  if (!comparison.same_content.empty()) {
    const std::string count = Plural(comparison.same_content.size(), "parameter");
    return {comparison.wrote_mapping
                ? fmt::format("Check the mapping of {} that was written, and pass it with "
                              "--mapping.",
                              count)
                : fmt::format("{} equal another one under another name: --suggest-mapping FILE "
                              "writes a mapping of them, and --mapping FILE uses it.",
                              count)};
  }
  if (comparison.pairs.empty()) {
    return {
        "Name what belongs together in a file of rules, and pass it with --mapping FILE "
        "(docs/formats/ckpt_mapping.md)."};
  }
  return {};
}

}  // namespace

report::Document MakeDocument(const Comparison& comparison) {
  const std::vector<const PairResult*> largest = LargestFirst(comparison);
  report::Document document;
  document.command = "ckpt_compare";
  document.verdict = MakeVerdict(comparison, largest);
  document.levels = MakeLevels(comparison);
  document.cases = MakeCases(comparison);
  document.sections.push_back(SidesSection(comparison));
  document.sections.push_back(LargestSection(largest));
  document.sections.push_back(LayersSection(comparison));
  document.sections.push_back(BrokenSection(comparison));
  document.sections.push_back(SettingsSection(comparison));
  document.sections.push_back(SameContentSection(comparison));
  document.sections.push_back(UnmatchedSection("Only in checkpoint 1", comparison.only_in_a));
  document.sections.push_back(UnmatchedSection("Only in checkpoint 2", comparison.only_in_b));
  document.sections.push_back(UnmatchedSection("Left out of checkpoint 1", comparison.left_out_a));
  document.sections.push_back(UnmatchedSection("Left out of checkpoint 2", comparison.left_out_b));
  document.sections.push_back(CountsSection(comparison));
  for (const std::filesystem::path& file : comparison.files) {
    document.files.push_back({file});
  }
  document.next = NextSteps(comparison);
  document.warnings = comparison.warnings;
  document.bytes = comparison.bytes;
  document.seconds = comparison.seconds;
  return document;
}

}  // namespace msprobe::analysis::ckpt
