#include "src/analysis/ckpt/details.h"

#include <cmath>

#include "msprobe/version.h"

#include "src/base/strings.h"
#include "src/json/writer.h"

namespace msprobe::analysis::ckpt {
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
    {"Norm 1", "norm_1", kNumber, [](const PairResult& pair) { return pair.metrics.norm_a; },
     nullptr},
    {"Norm 2", "norm_2", kNumber, [](const PairResult& pair) { return pair.metrics.norm_b; },
     nullptr},
    {"Norm ratio", "norm_ratio", kNumber,
     [](const PairResult& pair) { return pair.metrics.norm_ratio; }, nullptr},
    {"Mean 1", "mean_1", kNumber,
     [](const PairResult& pair) { return MeanOf(pair.sums.sum_a, pair.sums.finite.element_count); },
     nullptr, true},
    {"Mean 2", "mean_2", kNumber,
     [](const PairResult& pair) { return MeanOf(pair.sums.sum_b, pair.sums.finite.element_count); },
     nullptr, true},
    {"Different elements", "different_elements", kCount, nullptr,
     [](const PairResult& pair) {
       const kernels::ComparePartial& finite = pair.sums.finite;
       return finite.different_count + finite.nonfinite_mismatch_count + finite.opposite_inf_count;
     }},
    {"NaN 1", "nan_1", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.nan_count_a; }},
    {"NaN 2", "nan_2", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.nan_count_b; }},
    {"Inf 1", "inf_1", kCount, nullptr,
     [](const PairResult& pair) { return pair.sums.inf_count_a; }},
    {"Inf 2", "inf_2", kCount, nullptr,
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

void AddPair(const PairResult& pair, bool with_means, Table& table) {
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
  const bool computed = pair.computed();
  cells.push_back(computed ? NumberCell(*pair.metrics.l2) : Cell());
  cells.push_back(computed && pair.metrics.cosine ? NumberCell(*pair.metrics.cosine) : Cell());
  cells.push_back(computed ? Cell::Boolean(pair.outcome == Outcome::kIdentical) : Cell());
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
  cells.push_back(table.KeepText(base::Join(pair.notes, "; ")));
  table.AddRow(cells, FillOf(pair));
}

void AddUnmatched(const std::vector<Unmatched>& names, std::string_view outcome, Table& table) {
  for (const Unmatched& unmatched : names) {
    std::vector<Cell> cells(table.columns().size());
    cells[0] = table.KeepText(unmatched.name);
    cells[1] = Cell::Text(outcome);
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
  writer.Member("kind", checkpoint::KindName(side.kind));
  writer.Key("iteration");
  if (side.iteration) {
    writer.Int(*side.iteration);
  } else {
    writer.Null();
  }
  writer.Member("parameters", static_cast<uint64_t>(side.parameter_count));
  writer.EndObject();
}

void PutPair(Writer& writer, const PairResult& pair, bool with_means) {
  writer.BeginObject();
  writer.Member("name", pair.name);
  writer.Member("outcome", OutcomeName(pair.outcome));
  writer.Member("name_1", pair.name_a);
  writer.Member("name_2", pair.name_b);
  writer.Member("dtype_1", DTypeName(pair.dtype_a));
  writer.Member("dtype_2", DTypeName(pair.dtype_b));
  PutShapeMember(writer, "shape_1", pair.shape_a);
  PutShapeMember(writer, "shape_2", pair.shape_b);
  if (pair.computed()) {
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
  writer.Member("notes", pair.notes);
  writer.EndObject();
}

void PutUnmatched(Writer& writer, std::string_view key, const std::vector<Unmatched>& names) {
  writer.Key(key);
  writer.BeginArray();
  for (const Unmatched& unmatched : names) {
    writer.BeginObject();
    writer.Member("name", unmatched.name);
    writer.Member("reason", unmatched.reason);
    writer.EndObject();
  }
  writer.EndArray();
}

void PutAllUnmatched(Writer& writer, const Comparison& comparison) {
  PutUnmatched(writer, "only_in_1", comparison.only_in_a);
  PutUnmatched(writer, "only_in_2", comparison.only_in_b);
  PutUnmatched(writer, "left_out_1", comparison.left_out_a);
  PutUnmatched(writer, "left_out_2", comparison.left_out_b);
}

}  // namespace

Table DetailsTable(const Comparison& comparison) {
  std::vector<std::string> columns = {"Name",     "Outcome", "Name 1",  "Name 2",
                                      "Dtype 1",  "Dtype 2", "Shape 1", "Shape 2",
                                      "Elements", "l2",      "cos",     "Equal bits"};
  for (const Field& field : kFields) {
    if (!field.only_with_means || comparison.with_means) {
      columns.emplace_back(field.column);
    }
  }
  columns.emplace_back("Notes");
  Table table("ckpt_compare", std::move(columns));
  table.Reserve(comparison.pairs.size() + comparison.only_in_a.size() +
                comparison.only_in_b.size() + comparison.left_out_a.size() +
                comparison.left_out_b.size());
  for (const PairResult& pair : comparison.pairs) {
    AddPair(pair, comparison.with_means, table);
  }
  AddUnmatched(comparison.only_in_a, "only in 1", table);
  AddUnmatched(comparison.only_in_b, "only in 2", table);
  AddUnmatched(comparison.left_out_a, "left out of 1", table);
  AddUnmatched(comparison.left_out_b, "left out of 2", table);
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
    PutPair(writer, pair, comparison.with_means);
  }
  writer.EndArray();
  PutAllUnmatched(writer, comparison);
  writer.EndObject();
  return text + "\n";
}

std::string UnmatchedJson(const Comparison& comparison) {
  std::string text;
  Writer writer(text, 1);
  writer.BeginObject();
  PutAllUnmatched(writer, comparison);
  writer.EndObject();
  return text + "\n";
}

}  // namespace msprobe::analysis::ckpt
