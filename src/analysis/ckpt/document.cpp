#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/version.h"

#include "src/analysis/ckpt/ckpt.h"
#include "src/analysis/ckpt/compare_pairs.h"
#include "src/base/strings.h"
#include "src/json/writer.h"
#include "src/kernels/convert.h"
#include "src/report/table.h"

namespace msprobe::analysis::ckpt {
namespace {

struct Layer {
  std::string name;
  double difference = 0;  // lengths: their squares may leave the range of double
  double length = 0;
  bool non_finite = false;
};

bool IsNumber(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

void Merge(Layer& into, const Layer& next) {
  into.difference = kernels::Hypotenuse(into.difference, next.difference);
  into.length = kernels::Hypotenuse(into.length, next.length);
  into.non_finite = into.non_finite || next.non_finite;
}

std::string_view StemOf(std::string_view layer) {
  const size_t dot = layer.rfind('.');
  return dot != std::string_view::npos && IsNumber(layer.substr(dot + 1)) ? layer.substr(0, dot)
                                                                          : std::string_view();
}

// Joins `run` neighbours of one stack.
std::vector<Layer> Joined(const std::vector<Layer>& layers, size_t run) {
  std::vector<Layer> joined;
  for (size_t i = 0; i < layers.size();) {
    const std::string_view stem = StemOf(layers[i].name);
    Layer group = layers[i];
    size_t end = i + 1;
    while (!stem.empty() && end < layers.size() && end - i < run &&
           StemOf(layers[end].name) == stem) {
      Merge(group, layers[end++]);
    }
    if (end - i > 1) {
      group.name += fmt::format("-{}", layers[end - 1].name.substr(stem.size() + 1));
    }
    joined.push_back(std::move(group));
    i = end;
  }
  return joined;
}

}  // namespace

std::string_view LayerOf(std::string_view parameter) {
  size_t begin = 0;
  while (begin <= parameter.size()) {
    const size_t dot = std::min(parameter.find('.', begin), parameter.size());
    if (begin > 0 && IsNumber(parameter.substr(begin, dot - begin))) {
      return parameter.substr(0, dot);
    }
    begin = dot + 1;
  }
  const size_t last = parameter.rfind('.');
  return last == std::string_view::npos ? parameter : parameter.substr(0, last);
}

std::vector<LayerDifference> LayerDifferences(std::span<const PairResult> pairs, size_t limit) {
  std::vector<Layer> layers;
  std::unordered_map<std::string_view, size_t> places;
  for (const PairResult& pair : pairs) {
    if (!pair.computed()) {
      continue;
    }
    const std::string_view name = LayerOf(pair.name);
    const auto [place, added] = places.emplace(name, layers.size());
    if (added) {
      layers.push_back({std::string(name)});
    }
    const bool non_finite = pair.has_non_finite();
    Merge(layers[place->second], {{},
                                  non_finite ? 0 : pair.metrics.l2.value_or(0),
                                  non_finite ? 0 : pair.metrics.norm_b,
                                  non_finite && pair.outcome > Outcome::kEqual});
  }
  std::vector<Layer> shown = layers;
  for (size_t run = 2; shown.size() > limit && run <= layers.size(); run *= 2) {
    shown = Joined(layers, run);
  }
  std::vector<LayerDifference> differences;
  for (const Layer& layer : shown) {
    const double relative = layer.non_finite        ? std::numeric_limits<double>::quiet_NaN()
                            : layer.difference == 0 ? 0
                                                    : layer.difference / layer.length;
    differences.push_back({layer.name, relative});
  }
  return differences;
}

namespace {

using json::Writer;
using report::Cell;
using report::Table;

constexpr int kSchemaVersion = 1;

// One figure of a pair; both files take theirs from this list.
struct Field {
  std::string_view column;
  std::string_view key;
  enum class Kind : uint8_t { kNumber, kCount } kind;
  double (*number)(const PairResult& pair);
  uint64_t (*count)(const PairResult& pair);
  bool only_with_means = false;
};

double MeanOf(double sum, uint64_t count) {
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

constexpr auto kNumber = Field::Kind::kNumber;
constexpr auto kCount = Field::Kind::kCount;
constexpr Field kFields[] = {
    {"Relative l2", "relative_l2", kNumber,
     [](const PairResult& pair) { return pair.metrics.relative_l2; }, nullptr},
    {"Max abs error", "max_abs_error", kNumber,
     [](const PairResult& pair) { return pair.sums.finite.max_abs_error; }, nullptr},
    {"Max relative error", "max_relative_error", kNumber,
     [](const PairResult& pair) { return pair.sums.finite.max_relative_error; }, nullptr},
    {"RMS error", "rms_error", kNumber,
     [](const PairResult& pair) { return pair.metrics.rms_error; }, nullptr},
    {"Test norm", "norm_1", kNumber, [](const PairResult& pair) { return pair.metrics.norm_a; },
     nullptr},
    {"Reference norm", "norm_2", kNumber,
     [](const PairResult& pair) { return pair.metrics.norm_b; }, nullptr},
    {"Norm ratio (test / reference)", "norm_ratio", kNumber,
     [](const PairResult& pair) { return pair.metrics.norm_ratio; }, nullptr},
    {"Test mean", "mean_1", kNumber,
     [](const PairResult& pair) { return MeanOf(pair.sums.sum_a, pair.sums.finite.element_count); },
     nullptr, true},
    {"Reference mean", "mean_2", kNumber,
     [](const PairResult& pair) { return MeanOf(pair.sums.sum_b, pair.sums.finite.element_count); },
     nullptr, true},
    {"Different elements", "different_elements", kCount, nullptr,
     [](const PairResult& pair) {
       const kernels::ComparePartial& finite = pair.sums.finite;
       return finite.different_count + finite.nonfinite_mismatch_count + finite.opposite_inf_count;
     }},
    {"Test NaN", "nan_1", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.nan_count_a; }},
    {"Reference NaN", "nan_2", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.nan_count_b; }},
    {"Test inf", "inf_1", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.inf_count_a; }},
    {"Reference inf", "inf_2", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.inf_count_b; }},
};

Cell NumberCell(double value) {
  if (std::isnan(value)) {
    return Cell::Text("NaN");
  }
  if (std::isinf(value)) {
    return Cell::Text(value > 0 ? "Infinity" : "-Infinity");
  }
  return Cell::Number(value);
}

report::Fill FillOf(const PairResult& pair) {
  if (!pair.computed() || pair.has_non_finite_on_one_side()) {
    return report::Fill::kRed;
  }
  return pair.outcome == Outcome::kDifferent ? report::Fill::kYellow : report::Fill::kNone;
}

// Elements that no rounding of either format explains.
uint64_t BeyondOf(const PairResult& pair) {
  return std::min(pair.sums.beyond_a, pair.sums.beyond_b);
}

void AddPair(const PairResult& pair, const Comparison& comparison, Table& table) {
  const bool with_means = comparison.with_means;
  const bool has_figures = !comparison.of_digests;
  std::vector<Cell> cells = {
      table.KeepText(pair.name),
      Cell::Text(OutcomeName(pair.outcome)),
      table.KeepText(pair.name_a),
      table.KeepText(pair.name_b),
      Cell::Text(DTypeName(pair.dtype_a)),
      Cell::Text(DTypeName(pair.dtype_b)),
      table.KeepText(ShapeText(pair.shape_a)),
      table.KeepText(ShapeText(pair.shape_b)),
      Cell::Integer(ElementCount(pair.shape_a)),
  };
  const bool computed = has_figures && pair.computed();
  cells.push_back(computed ? NumberCell(*pair.metrics.l2) : Cell());
  cells.push_back(computed && pair.metrics.cosine ? NumberCell(*pair.metrics.cosine) : Cell());
  cells.push_back(pair.computed() ? Cell::Boolean(pair.outcome == Outcome::kIdentical) : Cell());
  for (const Field& field : kFields) {
    if (field.only_with_means && !with_means) {
      continue;
    }
    if (!computed) {
      cells.emplace_back();
    } else if (field.kind == kNumber) {
      cells.push_back(NumberCell(field.number(pair)));
    } else {
      cells.push_back(Cell::Integer(static_cast<int64_t>(field.count(pair))));
    }
  }
  cells.push_back(computed ? Cell::Integer(static_cast<int64_t>(BeyondOf(pair))) : Cell());
  cells.push_back(table.KeepText(pair.format_a));
  cells.push_back(table.KeepText(pair.format_b));
  if (comparison.of_digests) {
    cells.push_back(table.KeepText(pair.rows));
  }
  cells.push_back(table.KeepText(pair.cause));
  cells.push_back(table.KeepText(base::Join(pair.notes, "; ")));
  table.AddRow(cells, FillOf(pair));
}

void AddUnmatched(const std::vector<Unmatched>& names, std::string_view outcome, Table& table) {
  for (const Unmatched& unmatched : names) {
    std::vector<Cell> cells(table.columns().size());
    cells[0] = table.KeepText(unmatched.name);
    cells[1] = Cell::Text(outcome);
    cells[cells.size() - 2] = table.KeepText(unmatched.cause);
    cells.back() = table.KeepText(unmatched.reason);
    table.AddRow(cells, report::Fill::kRed);
  }
}

void PutShapeMember(Writer& writer, std::string_view key, const Shape& shape) {
  writer.Key(key);
  writer.BeginArray();
  for (const int64_t size : shape) {
    writer.Int(size);
  }
  writer.EndArray();
}

void PutSide(Writer& writer, std::string_view key, const SideFacts& side) {
  writer.Key(key);
  writer.BeginObject();
  writer.Member("path", side.path.string());
  writer.Member("kind",
                side.text.empty() ? checkpoint::KindName(side.kind) : std::string_view(side.text));
  writer.Key("iteration");
  if (side.iteration) {
    writer.Int(*side.iteration);
  } else {
    writer.Null();
  }
  writer.Member("parameters", static_cast<uint64_t>(side.parameter_count));
  writer.EndObject();
}

void PutPair(Writer& writer, const PairResult& pair, const Comparison& comparison) {
  const bool with_means = comparison.with_means;
  const bool has_figures = !comparison.of_digests && pair.computed();
  writer.BeginObject();
  writer.Member("name", pair.name);
  writer.Member("outcome", OutcomeName(pair.outcome));
  writer.Member("name_1", pair.name_a);
  writer.Member("name_2", pair.name_b);
  writer.Member("dtype_1", DTypeName(pair.dtype_a));
  writer.Member("dtype_2", DTypeName(pair.dtype_b));
  PutShapeMember(writer, "shape_1", pair.shape_a);
  PutShapeMember(writer, "shape_2", pair.shape_b);
  if (has_figures) {
    writer.Member("l2", *pair.metrics.l2);
    writer.Key("cos");
    if (pair.metrics.cosine) {
      writer.Float(*pair.metrics.cosine);
    } else {
      writer.Null();
    }
    writer.Member("equal_bits", pair.outcome == Outcome::kIdentical);
    for (const Field& field : kFields) {
      if (field.only_with_means && !with_means) {
        continue;
      }
      if (field.kind == kNumber) {
        writer.Member(field.key, field.number(pair));
      } else {
        writer.Member(field.key, field.count(pair));
      }
    }
  }
  if (has_figures) {
    writer.Member("beyond_rounding", BeyondOf(pair));
  }
  writer.Member("format_1", pair.format_a);
  writer.Member("format_2", pair.format_b);
  if (comparison.of_digests) {
    writer.Member("rows", pair.rows);
  }
  writer.Member("cause", pair.cause);
  writer.Member("notes", pair.notes);
  writer.EndObject();
}

void PutUnmatched(Writer& writer, std::string_view key, const std::vector<Unmatched>& names,
                  bool with_cause) {
  writer.Key(key);
  writer.BeginArray();
  for (const Unmatched& unmatched : names) {
    writer.BeginObject();
    writer.Member("name", unmatched.name);
    writer.Member("reason", unmatched.reason);
    if (with_cause) {
      writer.Member("cause", unmatched.cause);
    }
    writer.EndObject();
  }
  writer.EndArray();
}

void PutAllUnmatched(Writer& writer, const Comparison& comparison, bool with_cause) {
  PutUnmatched(writer, "only_in_1", comparison.only_in_a, with_cause);
  PutUnmatched(writer, "only_in_2", comparison.only_in_b, with_cause);
  PutUnmatched(writer, "left_out_1", comparison.left_out_a, false);
  PutUnmatched(writer, "left_out_2", comparison.left_out_b, false);
}

}  // namespace

Table DetailsTable(const Comparison& comparison) {
  std::vector<std::string> columns = {"Name",       "Outcome",
                                      "Test name",  "Reference name",
                                      "Test dtype", "Reference dtype",
                                      "Test shape", "Reference shape",
                                      "Elements",   "l2",
                                      "cos",        "Equal bits"};
  for (const Field& field : kFields) {
    if (!field.only_with_means || comparison.with_means) {
      columns.emplace_back(field.column);
    }
  }
  for (const std::string_view column :
       {"Beyond rounding", "format_1", "format_2", "rows", "cause", "Notes"}) {
    if (column != "rows" || comparison.of_digests) {
      columns.emplace_back(column);
    }
  }
  Table table("ckpt_compare", std::move(columns));
  table.Reserve(comparison.pairs.size() + comparison.only_in_a.size() +
                comparison.only_in_b.size() + comparison.left_out_a.size() +
                comparison.left_out_b.size());
  for (const PairResult& pair : comparison.pairs) {
    AddPair(pair, comparison, table);
  }
  AddUnmatched(comparison.only_in_a, "only in the test", table);
  AddUnmatched(comparison.only_in_b, "only in the reference", table);
  AddUnmatched(comparison.left_out_a, "left out of the test", table);
  AddUnmatched(comparison.left_out_b, "left out of the reference", table);
  return table;
}

std::string DetailsJson(const Comparison& comparison) {
  std::string text;
  Writer writer(text, 1, Writer::NonFinite::kText);
  writer.BeginObject();
  writer.Member("schema_version", kSchemaVersion);
  writer.Member("version", MSPROBE_VERSION);
  PutSide(writer, "checkpoint_1", comparison.a);
  PutSide(writer, "checkpoint_2", comparison.b);
  writer.Key("counts");
  writer.BeginObject();
  for (size_t outcome = 0; outcome < kOutcomeCount; ++outcome) {
    const auto value = static_cast<Outcome>(outcome);
    if (value == Outcome::kNotComparable && !comparison.of_digests) {
      continue;
    }
    writer.Member(OutcomeName(value), static_cast<uint64_t>(comparison.CountOf(value)));
  }
  writer.Member("only in 1", static_cast<uint64_t>(comparison.only_in_a.size()));
  writer.Member("only in 2", static_cast<uint64_t>(comparison.only_in_b.size()));
  writer.EndObject();
  writer.Key("settings");
  writer.BeginArray();
  for (const SettingDifference& setting : comparison.settings) {
    writer.BeginObject();
    writer.Member("name", setting.name);
    writer.Member("value_1", setting.text_a);
    writer.Member("value_2", setting.text_b);
    writer.EndObject();
  }
  writer.EndArray();
  writer.Member("warnings", comparison.warnings);
  writer.Key("parameters");
  writer.BeginArray();
  for (const PairResult& pair : comparison.pairs) {
    PutPair(writer, pair, comparison);
  }
  writer.EndArray();
  PutAllUnmatched(writer, comparison, true);
  if (comparison.with_sensitivity) {
    PutSensitivity(writer, comparison);
  }
  writer.EndObject();
  return text + "\n";
}

std::string UnmatchedJson(const Comparison& comparison) {
  std::string text;
  Writer writer(text, 1);
  writer.BeginObject();
  PutAllUnmatched(writer, comparison, false);
  writer.EndObject();
  return text + "\n";
}

namespace {

using base::FormatCount;
using base::Plural;
using report::AnswerOutcome;
using report::List;
using report::ListKind;
using report::Section;
using report::Tone;

constexpr size_t kShownDifferences = 10;
constexpr size_t kLayerLines = 24;
constexpr size_t kNamesLimit = 8;

std::string Short(double value) { return report::NumberText(value, 3); }

// By size, with what is not a number in front and what is within the tolerance behind.
std::vector<const PairResult*> LargestFirst(const Comparison& comparison) {
  std::vector<const PairResult*> different;
  for (const PairResult& pair : comparison.pairs) {
    if (pair.outcome >= Outcome::kClose && pair.outcome <= Outcome::kDifferent) {
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
  if (!pair.rows.empty()) {
    return fmt::format(" (rows {})", pair.rows);
  }
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
  const size_t unreadable =
      comparison.CountOf(Outcome::kUnreadable) + comparison.CountOf(Outcome::kNotComparable);
  const size_t broken = comparison.CountOf(Outcome::kShapes) + unreadable;
  const size_t unmatched = comparison.only_in_a.size() + comparison.only_in_b.size();
  const std::string not_finite = NotFiniteText(comparison);
  report::Verdict verdict;
  verdict.unit = "parameters";
  const auto say = [&](std::string_view word, Tone tone, AnswerOutcome outcome, size_t number,
                       const std::string& rest) {
    verdict.Say(word, rest, tone, outcome);
    verdict.number = static_cast<double>(number);
  };
  if (total == 0) {
    say("NOTHING COMPARED", Tone::kBad, AnswerOutcome::kNothingCompared, 0,
        "the checkpoints have no parameter in common");
  } else if (comparison.nothing_compared()) {
    say("NOTHING COMPARED", Tone::kBad, AnswerOutcome::kNothingCompared, 0,
        broken > 0 ? fmt::format("none of {} could be", Plural(total, "common parameter"))
                   : "no common parameter has any element");
  } else if (different > 0) {
    say("DIFFERENT", Tone::kBad, AnswerOutcome::kFindings, different,
        !comparison.of_digests
            ? fmt::format("{} of {}, most of all {}", FormatCount(different),
                          Plural(total, "common parameter"), largest.front()->name)
        : largest.front()->cause.empty()
            ? fmt::format("{} of {}, first {} in rows {}", FormatCount(different),
                          Plural(total, "common parameter"), largest.front()->name,
                          largest.front()->rows)
            : fmt::format("{} of {}, first {} in rows {} ({})", FormatCount(different),
                          Plural(total, "common parameter"), largest.front()->name,
                          largest.front()->rows, largest.front()->cause));
  } else if (broken > 0) {
    say("DIFFERENT", Tone::kBad, AnswerOutcome::kFindings, broken,
        fmt::format("{} could not be compared", Plural(broken, "common parameter")));
  } else if (!comparison.settings.empty()) {
    say("DIFFERENT", Tone::kBad, AnswerOutcome::kFindings, comparison.settings.size(),
        fmt::format("{} of the optimizer, all parameters agree",
                    Plural(comparison.settings.size(), "setting")));
    verdict.unit = "settings";
  } else if (unmatched > 0) {
    say("EQUAL IN PART", Tone::kCaution, AnswerOutcome::kFindings, unmatched,
        fmt::format(
            "{} agree, but {} no partner{}", Plural(total, "common parameter"),
            unmatched == 1 ? "1 parameter has" : FormatCount(unmatched) + " parameters have",
            not_finite));
  } else if (comparison.of_digests && comparison.is_incomplete) {
    say("INCOMPLETE", Tone::kCaution, AnswerOutcome::kIncomplete, total,
        fmt::format("{} agree, but digests of ranks are missing",
                    Plural(total, "common parameter")));
  } else {
    const std::string all = Plural(total, "parameter");
    const Tone tone = not_finite.empty() ? Tone::kGood : Tone::kCaution;
    const AnswerOutcome outcome =
        not_finite.empty() ? AnswerOutcome::kClean : AnswerOutcome::kFindings;
    if (identical == total) {
      say("IDENTICAL", tone, outcome, total,
          comparison.of_digests ? fmt::format("all {} have equal digests", all)
                                : fmt::format("all {} are equal bit by bit{}", all, not_finite));
    } else if (identical + equal == total) {
      say("EQUAL", tone, outcome, total,
          fmt::format("all {} have the same values{}", all, not_finite));
    } else if (const size_t rounded = comparison.CountOf(Outcome::kRounding); rounded > 0) {
      say("EXPECTED ROUNDING", tone, outcome, total,
          fmt::format("{} of {} differ by what the coarser format rounds, the others not at all{}",
                      FormatCount(rounded), all, not_finite));
    } else {
      say("CLOSE", tone, outcome, total,
          fmt::format("all {} agree within the tolerance{}", all, not_finite));
    }
  }
  if (unreadable > 0) {
    verdict.outcome = AnswerOutcome::kIncomplete;
  }
  if (comparison.is_incomplete) {
    verdict.outcome = AnswerOutcome::kIncomplete;
  }
  return verdict;
}

report::Item SideItem(std::string label, const SideFacts& side) {
  std::string text = side.text.empty() ? std::string(checkpoint::KindName(side.kind)) : side.text;
  if (side.iteration) {
    text += fmt::format(", iteration {}", *side.iteration);
  }
  report::Item item{std::move(label), text + ", " + Plural(side.parameter_count, "parameter")};
  item.source = report::SourceLine{side.path.string()};
  item.details.push_back({"path", side.path.string()});
  return item;
}

Section SidesSection(const Comparison& comparison) {
  return report::MakeSection(
      "", List{ListKind::kFacts,
               {SideItem("test", comparison.a), SideItem("reference", comparison.b)}});
}

Section LargestSection(const std::vector<const PairResult*>& largest) {
  report::Table table("largest", {"Relative l2", "cos", "Max abs", "Parameter"});
  for (const PairResult* const pair : largest) {
    table.AddRow({table.KeepText(Short(pair->metrics.relative_l2)),
                  table.KeepText(pair->metrics.cosine ? report::NumberText(*pair->metrics.cosine, 8)
                                                      : "null"),
                  table.KeepText(Short(pair->sums.finite.max_abs_error)),
                  table.KeepText(pair->name + Remark(*pair) +
                                 (pair->cause.empty() ? "" : fmt::format(" ({})", pair->cause)))});
  }
  return report::MakeSection("Largest differences",
                             report::DataTable{std::move(table), {kShownDifferences}});
}

// The rows of digests that differ; sizes of differences are not known.
Section RowsSection(const std::vector<const PairResult*>& different) {
  report::Table table("different", {"Rows", "Cause", "Parameter"});
  for (const PairResult* const pair : different) {
    table.AddRow({table.KeepText(pair->rows),
                  table.KeepText(pair->cause.empty() ? "-" : pair->cause),
                  table.KeepText(pair->name)});
  }
  return report::MakeSection("Different", report::DataTable{std::move(table), {kShownDifferences}});
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

// Error and effect of the parameters, the most sensitive ones first.
Section SensitivitySection(const Comparison& comparison) {
  if (!comparison.with_sensitivity) {
    return {};
  }
  const bool with_effect = !comparison.activations.empty();
  std::vector<std::string> columns = {"Relative error", "Parameter", "Format"};
  if (with_effect) {
    columns.insert(columns.begin(), "Effect on output");
  }
  const auto add = [&](const Sensitivity& row, report::Table& table) {
    std::vector<Cell> cells;
    if (with_effect) {
      cells.push_back(table.KeepText(!row.effect ? row.why_no_effect
                                     : row.basis == "at most"
                                         ? fmt::format("at most {}", Short(*row.effect))
                                         : Short(*row.effect)));
    }
    cells.push_back(table.KeepText(Short(row.relative_error)));
    cells.push_back(table.KeepText(row.name));
    cells.push_back(table.KeepText(row.format));
    table.AddRow(cells);
  };
  report::Table table("sensitivity", std::move(columns));
  for (const Sensitivity& row : comparison.sensitivity) {
    add(row, table);
  }
  if (table.row_count() == 0) {
    return report::MakeSection(
        "Sensitivity to quantisation",
        List{ListKind::kSentences, {{"", "no parameter is quantised on either side"}}});
  }
  return report::MakeSection("Sensitivity to quantisation",
                             report::DataTable{std::move(table), {kShownDifferences}});
}

Section SensitiveLayersSection(const Comparison& comparison) {
  Section section{"Sensitivity to quantisation, per layer", {}};
  report::Bars bars;
  const bool with_effect =
      std::any_of(comparison.sensitivity_of_layers.begin(), comparison.sensitivity_of_layers.end(),
                  [](const Sensitivity& layer) { return layer.effect.has_value(); });
  bars.unit = with_effect ? "effect on output" : "relative error";
  for (const Sensitivity& layer : comparison.sensitivity_of_layers) {
    if (bars.items.size() < kLayerLines && (layer.effect || !with_effect)) {
      bars.items.push_back({layer.name, with_effect ? *layer.effect : layer.relative_error});
    }
  }
  if (bars.items.size() > 1) {
    section.blocks.emplace_back(std::move(bars));
  }
  return section;
}

report::DisplayLimit NamesLimit(size_t all, std::string_view noun) {
  return {kNamesLimit,
          all > kNamesLimit ? fmt::format("and {}", Plural(all - kNamesLimit, noun)) : ""};
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
  list.display_limit = NamesLimit(list.items.size(), "more parameter");
  return report::MakeSection("Not comparable", std::move(list));
}

Section UnmatchedSection(std::string_view heading, const std::vector<Unmatched>& names) {
  List list{ListKind::kNamed, {}, {kNamesLimit}};
  for (const Unmatched& name : names) {
    list.items.push_back({name.name, name.reason});
  }
  return report::MakeSection(fmt::format("{}: {}", heading, Plural(names.size(), "parameter")),
                             std::move(list));
}

Section SettingsSection(const Comparison& comparison) {
  List list{ListKind::kNamed, {}, {kNamesLimit}};
  for (const SettingDifference& setting : comparison.settings) {
    list.items.push_back({setting.name, fmt::format("{} / {}", setting.text_a, setting.text_b)});
  }
  return report::MakeSection("Settings of the optimizer that differ (test / reference)",
                             std::move(list));
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
    list.items.push_back({"unmatched", fmt::format("{} only in the test, {} only in the reference",
                                                   FormatCount(comparison.only_in_a.size()),
                                                   FormatCount(comparison.only_in_b.size()))});
  }
  return report::MakeSection("Counts", std::move(list));
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
    test.outcome = pair.outcome == Outcome::kUnreadable || pair.outcome == Outcome::kNotComparable
                       ? report::CaseOutcome::kError
                       : report::CaseOutcome::kFailed;
    test.type = OutcomeName(pair.outcome);
    test.message =
        comparison.of_digests && pair.computed()
            ? fmt::format("rows {}{}", pair.rows,
                          pair.cause.empty() ? "" : fmt::format(", {}", pair.cause))
        : pair.computed()
            ? fmt::format("relative l2 {}, max abs {}{}", Short(pair.metrics.relative_l2),
                          Short(pair.sums.finite.max_abs_error), Remark(pair))
        : pair.outcome == Outcome::kShapes
            ? fmt::format("shapes {} and {}", ShapeText(pair.shape_a), ShapeText(pair.shape_b))
            : base::Join(pair.notes, "; ");
  }
  for (const auto& [names, side] :
       {std::pair(&comparison.only_in_a, "test"), std::pair(&comparison.only_in_b, "reference")}) {
    for (const Unmatched& name : *names) {
      cases.push_back(
          {name.name, 0, report::CaseOutcome::kFailed, "missing", "missing",
           fmt::format("only in the {}{}{}", side, name.reason.empty() ? "" : ": ", name.reason)});
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

constexpr std::string_view kSameContent = "Equal under another name, or transposed";

List SameContentOf(const Comparison& comparison) {
  List list{ListKind::kNamed, {}, {kNamesLimit}};
  for (const SameContent& same : comparison.same_content) {
    list.items.push_back({same.name_a, fmt::format("equals {} of the reference{}", same.name_b,
                                                   same.transposed ? " transposed" : "")});
  }
  return list;
}

report::Advice NextStep(const Comparison& comparison) {
  if (!comparison.same_content.empty()) {
    return report::Advice(
        comparison.wrote_mapping ? "ckpt_compare.check_mapping" : "ckpt_compare.suggest_mapping",
        {FormatCount(comparison.same_content.size())});
  }
  return comparison.pairs.empty() ? report::Advice("ckpt_compare.write_mapping") : report::Advice();
}

constexpr size_t kMostKinds = 120;     // columns that a map can show
constexpr size_t kMostLayers = 1'000;  // rows; several layers share one where there are more

// What is behind the layer in a name, with '*' for numbers: the experts of a layer are of one kind.
std::string KindOf(std::string_view name, std::string_view layer) {
  const std::string_view rest =
      name.size() > layer.size() ? name.substr(layer.size() + (name[layer.size()] == '.' ? 1 : 0))
                                 : name;
  std::string kind;
  for (const std::string_view part : base::Split(rest, '.')) {
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    kind.append(kind.empty() ? "" : ".").append(number ? "*" : part);
  }
  return kind;
}

// One cell of the map: the parameters of one kind in one layer, or in the layers that share a row.
struct MapCell {
  double value = 0;
  size_t count = 0;
  size_t different = 0;
  std::string worst;
  size_t layer = 0;  // of the worst
  std::set<std::string> formats;
  std::set<std::string> causes;
};

// "bf16", or "fp8_e4m3 block 128x128 and bf16" of two sides.
std::string FormatsText(const PairResult& pair) {
  return pair.format_a == pair.format_b ? pair.format_a
                                        : fmt::format("{} and {}", pair.format_a, pair.format_b);
}

std::string JoinedTexts(const std::set<std::string>& texts) {
  return base::Join(std::vector<std::string>(texts.begin(), texts.end()), ", ");
}

std::string MapCellText(const MapCell& cell) {
  std::string text = fmt::format("{} of {} different, most of all {}", cell.different,
                                 base::Plural(cell.count, "parameter"), cell.worst);
  if (!cell.formats.empty()) {
    text += "; " + JoinedTexts(cell.formats);
  }
  if (!cell.causes.empty()) {
    text += "; cause: " + JoinedTexts(cell.causes);
  }
  return text;
}

// Which formats the parameters have, and the causes that were found; where there is neither another
// format nor a cause, nothing.
void AddFormats(const Comparison& comparison, report::PageView& page) {
  struct OfFormats {
    size_t parameters = 0;
    size_t different = 0;
    std::set<std::string> causes;
    std::string first;
  };
  std::map<std::pair<std::string, std::string>, OfFormats> formats;
  bool has_cause = false;
  for (const PairResult& pair : comparison.pairs) {
    OfFormats& of = formats[{pair.format_a, pair.format_b}];
    ++of.parameters;
    of.different += pair.outcome > Outcome::kRounding ? 1 : 0;
    of.first = of.first.empty() ? pair.name : of.first;
    if (!pair.cause.empty()) {
      of.causes.insert(pair.cause);
      has_cause = true;
    }
  }
  const bool are_same = std::all_of(formats.begin(), formats.end(), [](const auto& of) {
    return of.first.first == of.first.second;
  });
  if (are_same && !has_cause) {
    return;
  }
  report::Table table("formats",
                      {"format_1", "format_2", "Parameters", "Different", "cause", "First"});
  for (const auto& [sides, of] : formats) {
    table.AddRow({table.KeepText(sides.first), table.KeepText(sides.second),
                  Cell::Integer(static_cast<int64_t>(of.parameters)),
                  Cell::Integer(static_cast<int64_t>(of.different)),
                  table.KeepText(JoinedTexts(of.causes)), table.KeepText(of.first)});
  }
  page.Add("Formats and causes", "", report::DataTable{std::move(table)});
}

// Layers by kinds; the largest relative l2 of a cell stands for it.
void AddMap(const Comparison& comparison, report::PageView& page) {
  std::vector<std::string> layers;
  std::vector<std::string> kinds;
  std::unordered_map<std::string, uint32_t> layer_numbers;
  std::unordered_map<std::string, uint32_t> kind_numbers;
  const auto number_of = [](std::string name, std::vector<std::string>& names,
                            std::unordered_map<std::string, uint32_t>& numbers) {
    const auto [found, is_new] = numbers.emplace(name, static_cast<uint32_t>(names.size()));
    if (is_new) {
      names.push_back(std::move(name));
    }
    return found->second;
  };
  std::vector<std::pair<uint32_t, uint32_t>> at;  // of each pair
  for (const PairResult& pair : comparison.pairs) {
    const std::string_view layer = LayerOf(pair.name);
    at.emplace_back(number_of(std::string(layer), layers, layer_numbers),
                    number_of(KindOf(pair.name, layer), kinds, kind_numbers));
  }
  if (layers.size() < 2) {
    return;
  }
  if (kinds.size() > kMostKinds) {
    page.notes.push_back(fmt::format("no map of layers by kind: {} are too many",
                                     base::Plural(kinds.size(), "kind")));
    return;
  }
  const size_t share = (layers.size() + kMostLayers - 1) / kMostLayers;
  std::map<std::pair<uint32_t, uint32_t>, MapCell> map;
  for (size_t i = 0; i < at.size(); ++i) {
    const PairResult& pair = comparison.pairs[i];
    MapCell& cell = map[{static_cast<uint32_t>(at[i].first / share), at[i].second}];
    const double value = !pair.computed()        ? std::numeric_limits<double>::quiet_NaN()
                         : comparison.of_digests ? (pair.outcome == Outcome::kDifferent ? 1.0 : 0.0)
                                                 : pair.metrics.relative_l2;
    if (cell.count == 0 || std::isnan(value) || value > cell.value) {
      cell.value = value;
      cell.worst = pair.name;
      cell.layer = at[i].first;
    }
    ++cell.count;
    cell.different += pair.outcome > Outcome::kRounding ? 1 : 0;
    constexpr size_t kMostTexts = 4;
    if (cell.formats.size() < kMostTexts && !pair.format_a.empty()) {
      cell.formats.insert(FormatsText(pair));
    }
    if (cell.causes.size() < kMostTexts && !pair.cause.empty()) {
      cell.causes.insert(pair.cause);
    }
  }
  report::Map picture{{}, kinds, {}};
  for (size_t first = 0; first < layers.size(); first += share) {
    const size_t last = std::min(first + share, layers.size()) - 1;
    picture.rows.push_back(first == last ? layers[first]
                                         : fmt::format("{} .. {}", layers[first], layers[last]));
  }
  for (const auto& [where, cell] : map) {
    picture.items.push_back({where.first, where.second, cell.value, MapCellText(cell),
                             cell.count == 1 ? cell.worst : layers[cell.layer] + "."});
  }
  page.Add("Layers by kind",
           comparison.of_digests ? "1: a digest differs"
           : share == 1          ? "largest relative l2"
                                 : fmt::format("largest relative l2; {} layers share a row", share),
           std::move(picture));
}

report::PageView MakePage(const Comparison& comparison) {
  report::PageView page;
  page.sides = {comparison.a.path.string(), comparison.b.path.string()};
  const size_t different = comparison.CountOf(Outcome::kDifferent);
  page.facts = {{FormatCount(comparison.pairs.size()),
                 comparison.pairs.size() == 1 ? "parameter" : "parameters"},
                {FormatCount(different), "different", different > 0 ? Tone::kBad : Tone::kPlain}};
  if (const size_t alone = comparison.only_in_a.size() + comparison.only_in_b.size(); alone > 0) {
    page.facts.push_back({FormatCount(alone), "without partner", Tone::kBad});
  }
  page.Add(std::string(kSameContent), "", SameContentOf(comparison));
  AddMap(comparison, page);
  AddFormats(comparison, page);
  report::Table settings("settings", {"Setting", "Test", "Reference"});
  for (const SettingDifference& setting : comparison.settings) {
    settings.AddRow({settings.KeepText(setting.name), settings.KeepText(setting.text_a),
                     settings.KeepText(setting.text_b)});
  }
  page.Add("Settings of the optimizer that differ", "", report::DataTable{std::move(settings)});
  if (comparison.with_sensitivity) {
    page.Add("Sensitivity to quantisation", "", report::DataTable{SensitivityTable(comparison)});
  }
  page.Add("Parameters", "", report::DataTable{DetailsTable(comparison)});
  return page;
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
  if (comparison.of_digests) {
    document.sections.push_back(RowsSection(largest));
  } else {
    document.sections.push_back(LargestSection(largest));
    document.sections.push_back(LayersSection(comparison));
    document.sections.push_back(SensitivitySection(comparison));
    document.sections.push_back(SensitiveLayersSection(comparison));
  }
  document.sections.push_back(BrokenSection(comparison));
  document.sections.push_back(SettingsSection(comparison));
  document.sections.push_back(
      report::MakeSection(std::string(kSameContent), SameContentOf(comparison)));
  document.sections.push_back(UnmatchedSection("Only in the test", comparison.only_in_a));
  document.sections.push_back(UnmatchedSection("Only in the reference", comparison.only_in_b));
  document.sections.push_back(UnmatchedSection("Left out of the test", comparison.left_out_a));
  document.sections.push_back(UnmatchedSection("Left out of the reference", comparison.left_out_b));
  document.sections.push_back(CountsSection(comparison));
  document.AddFiles(comparison.files);
  document.Advise(NextStep(comparison));
  document.warnings = comparison.warnings;
  document.bytes = comparison.bytes;
  document.seconds = comparison.seconds;
  if (!comparison.page.empty()) {
    document.page = MakePage(comparison);
  }
  return document;
}

}  // namespace msprobe::analysis::ckpt
