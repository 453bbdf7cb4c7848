#include "src/analysis/ckpt/screen_report.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/ckpt/layers.h"
#include "src/base/strings.h"
#include "src/report/screen.h"
#include "src/report/table.h"
#include "src/report/writers.h"

namespace msprobe::analysis::ckpt {
namespace {

using base::FormatCount;
using base::Plural;
using base::Printable;
using report::Ink;
using report::Screen;

constexpr size_t kLargestDifferences = 10;
constexpr size_t kLayerLines = 24;
constexpr size_t kNameLines = 8;

std::string Short(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  return std::isinf(value) ? "Infinity" : fmt::format("{:.3g}", value);
}

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

void PutVerdict(Screen& screen, const Comparison& comparison,
                const std::vector<const PairResult*>& largest) {
  const size_t total = comparison.pairs.size();
  const size_t identical = comparison.CountOf(Outcome::kIdentical);
  const size_t equal = comparison.CountOf(Outcome::kEqual);
  const size_t different = comparison.CountOf(Outcome::kDifferent);
  const size_t broken =
      comparison.CountOf(Outcome::kShapes) + comparison.CountOf(Outcome::kUnreadable);
  const size_t unmatched = comparison.only_in_a.size() + comparison.only_in_b.size();
  const std::string not_finite = NotFiniteText(comparison);
  if (total == 0) {
    screen.Line(Ink::kRed,
                "NOTHING COMPARED: no parameter of one checkpoint fits one of the other");
  } else if (comparison.nothing_compared()) {
    screen.Line(Ink::kRed, broken > 0 ? fmt::format("NOTHING COMPARED: none of {} could be",
                                                    Plural(total, "common parameter"))
                                      : "NOTHING COMPARED: no common parameter has any element");
  } else if (different > 0) {
    screen.Line(Ink::kRed,
                fmt::format("DIFFERENT: {} of {}, most of all {}", FormatCount(different),
                            Plural(total, "common parameter"), Printable(largest.front()->name)));
  } else if (broken > 0) {
    screen.Line(Ink::kRed, fmt::format("DIFFERENT: {} could not be compared",
                                       Plural(broken, "common parameter")));
  } else if (!comparison.settings.empty()) {
    screen.Line(Ink::kRed, fmt::format("DIFFERENT: {} of the optimizer, all parameters agree",
                                       Plural(comparison.settings.size(), "setting")));
  } else if (unmatched > 0) {
    screen.Line(
        Ink::kYellow,
        fmt::format(
            "EQUAL IN PART: {} agree, but {} no partner{}", Plural(total, "common parameter"),
            unmatched == 1 ? "1 parameter has" : FormatCount(unmatched) + " parameters have",
            not_finite));
  } else {
    const std::string all = Plural(total, "parameter");
    screen.Line(not_finite.empty() ? Ink::kGreen : Ink::kYellow,
                (identical == total ? fmt::format("IDENTICAL: all {} are equal bit by bit", all)
                 : identical + equal == total
                     ? fmt::format("EQUAL: all {} have the same values", all)
                     : fmt::format("CLOSE: all {} agree within the tolerance", all)) +
                    not_finite);
  }
}

void PutSide(Screen& screen, std::string_view label, const SideFacts& side) {
  std::string text(checkpoint::KindName(side.kind));
  if (side.iteration) {
    text += fmt::format(", iteration {}", *side.iteration);
  }
  screen.Item(label, text + ", " + Plural(side.parameter_count, "parameter"));
  // For copying: never cut.
  screen.Raw(fmt::format("  {:<12} {}\n", "", Printable(side.path.string())));
}

void PutLargest(Screen& screen, const std::vector<const PairResult*>& largest) {
  if (largest.empty()) {
    return;
  }
  screen.Heading("Largest differences");
  report::Table table("largest", {"Relative l2", "cos", "Max abs", "Parameter"});
  for (size_t i = 0; i < std::min(largest.size(), kLargestDifferences); ++i) {
    const PairResult& pair = *largest[i];
    const report::Cell cells[] = {
        table.KeepText(Short(pair.metrics.relative_l2)),
        table.KeepText(pair.metrics.cosine ? fmt::format("{:.8g}", *pair.metrics.cosine) : "null"),
        table.KeepText(Short(pair.sums.finite.max_abs_error)),
        table.KeepText(Printable(pair.name) + Remark(pair))};
    table.AddRow(cells);
  }
  screen.Raw(report::TerminalTable(table, {screen.width(), screen.color()}));
}

void PutLayers(Screen& screen, const Comparison& comparison) {
  const std::vector<LayerDifference> layers = LayerDifferences(comparison.pairs, kLayerLines);
  double largest = 0;
  size_t name_width = 0;
  for (const LayerDifference& layer : layers) {
    largest = std::isfinite(layer.relative_l2) ? std::max(largest, layer.relative_l2) : largest;
    name_width = std::max(name_width, layer.name.size());
  }
  const bool differs = std::any_of(layers.begin(), layers.end(), [](const LayerDifference& layer) {
    return !(layer.relative_l2 == 0);
  });
  if (!differs || layers.size() < 2) {
    return;
  }
  name_width = std::min(name_width, screen.width() / 2);
  constexpr size_t kFigures = 10;
  const size_t room =
      screen.width() > name_width + kFigures + 6 ? screen.width() - name_width - kFigures - 6 : 1;
  const size_t bar_width = std::min<size_t>(room, 40);
  screen.Heading("Per layer, relative l2");
  for (const LayerDifference& layer : layers) {
    const double share =
        std::isfinite(layer.relative_l2) && largest > 0 ? layer.relative_l2 / largest : 0;
    const auto length = static_cast<size_t>(std::ceil(share * static_cast<double>(bar_width)));
    screen.Line(fmt::format("  {:<{}}  {:<{}}  {}", Printable(layer.name).substr(0, name_width),
                            name_width, Short(layer.relative_l2), kFigures,
                            std::string(length, '#')));
  }
}

void PutBroken(Screen& screen, const Comparison& comparison) {
  size_t shown = 0;
  size_t total = 0;
  for (const PairResult& pair : comparison.pairs) {
    if (pair.computed()) {
      continue;
    }
    if (total++ == 0) {
      screen.Heading("Not comparable");
    }
    if (shown < kNameLines) {
      ++shown;
      const std::string why =
          pair.outcome == Outcome::kShapes
              ? fmt::format("shapes {} and {}", ShapeText(pair.shape_a), ShapeText(pair.shape_b))
              : base::Join(pair.notes, "; ");
      screen.Line(Printable(fmt::format("  {}: {}", pair.name, why)));
    }
  }
  if (total > shown) {
    screen.Line(fmt::format("  and {}", Plural(total - shown, "more parameter")));
  }
}

void PutUnmatched(Screen& screen, std::string_view heading, const std::vector<Unmatched>& names) {
  if (names.empty()) {
    return;
  }
  screen.Heading(fmt::format("{}: {}", heading, Plural(names.size(), "parameter")));
  for (size_t i = 0; i < std::min(names.size(), kNameLines); ++i) {
    screen.Line(Printable(names[i].reason.empty()
                              ? fmt::format("  {}", names[i].name)
                              : fmt::format("  {}: {}", names[i].name, names[i].reason)));
  }
  if (names.size() > kNameLines) {
    screen.Line(fmt::format("  and {} more", FormatCount(names.size() - kNameLines)));
  }
}

void PutSettings(Screen& screen, const Comparison& comparison) {
  if (comparison.settings.empty()) {
    return;
  }
  screen.Heading("Settings of the optimizer that differ (1 / 2)");
  for (size_t i = 0; i < std::min(comparison.settings.size(), kNameLines); ++i) {
    const SettingDifference& setting = comparison.settings[i];
    screen.Line(
        Printable(fmt::format("  {}: {} / {}", setting.name, setting.text_a, setting.text_b)));
  }
  if (comparison.settings.size() > kNameLines) {
    screen.Line(fmt::format("  and {} more", FormatCount(comparison.settings.size() - kNameLines)));
  }
}

void PutCounts(Screen& screen, const Comparison& comparison) {
  screen.Heading("Counts");
  std::string text;
  for (size_t outcome = 0; outcome < kOutcomeCount; ++outcome) {
    const auto value = static_cast<Outcome>(outcome);
    const size_t count = comparison.CountOf(value);
    if (count > 0) {
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", FormatCount(count), OutcomeName(value));
    }
  }
  screen.Item("common", text.empty() ? "none" : text);
  if (comparison.only_in_a.size() + comparison.only_in_b.size() > 0) {
    screen.Item("unmatched",
                fmt::format("{} only in 1, {} only in 2", FormatCount(comparison.only_in_a.size()),
                            FormatCount(comparison.only_in_b.size())));
  }
}

void PutFiles(Screen& screen, const Comparison& comparison) {
  screen.Heading(fmt::format("Files ({} compared in {})", base::FormatBytes(comparison.bytes),
                             base::FormatSeconds(comparison.seconds)));
  // Paths are for copying: never cut.
  for (const std::filesystem::path& file : comparison.files) {
    screen.Raw(fmt::format("  {}\n", Printable(file.string())));
  }
}

}  // namespace

std::string ScreenReport(const Comparison& comparison, size_t width, bool color) {
  Screen screen(width, color);
  const std::vector<const PairResult*> largest = LargestFirst(comparison);
  PutVerdict(screen, comparison, largest);
  screen.Blank();
  PutSide(screen, "checkpoint 1", comparison.a);
  PutSide(screen, "checkpoint 2", comparison.b);
  PutLargest(screen, largest);
  PutLayers(screen, comparison);
  PutBroken(screen, comparison);
  PutSettings(screen, comparison);
  PutUnmatched(screen, "Only in checkpoint 1", comparison.only_in_a);
  PutUnmatched(screen, "Only in checkpoint 2", comparison.only_in_b);
  PutUnmatched(screen, "Left out of checkpoint 1", comparison.left_out_a);
  PutUnmatched(screen, "Left out of checkpoint 2", comparison.left_out_b);
  PutCounts(screen, comparison);
  PutFiles(screen, comparison);
  return screen.Take();
}

}  // namespace msprobe::analysis::ckpt
