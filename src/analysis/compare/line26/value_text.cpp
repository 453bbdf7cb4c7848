#include "src/analysis/compare/line26/value_text.h"

#include <cmath>
#include <string>

#include "src/base/numbers.h"

namespace msprobe::analysis::compare {
namespace {

using report::Cell;

Cell NumberCell(double number) {
  if (std::isnan(number)) {
    return Cell::Text("Nan");
  }
  if (std::isinf(number)) {
    return Cell::Text(number > 0 ? " inf" : " -inf");
  }
  return Cell::Number(number);
}

std::string TextOf(const StatValue& stat) {
  switch (stat.kind) {
    case StatKind::kNone:
      return "None";
    case StatKind::kBool:
      return stat.boolean ? "True" : "False";
    case StatKind::kInteger:
      return std::to_string(stat.integer);
    case StatKind::kNumber:
      return base::PythonFloatRepr(stat.number);
    case StatKind::kText:
      break;
  }
  return std::string(stat.text);
}

}  // namespace

std::string_view RequiresGradText(const SideRow& row) {
  switch (row.requires_grad) {
    case RequiresGrad::kFalse:
      return "False";
    case RequiresGrad::kTrue:
      return "True";
    case RequiresGrad::kNone:
      return "None";
    case RequiresGrad::kAbsent:
      break;
  }
  return row.is_tensor ? "" : kNoValue;
}

Cell StatisticCell(const StatValue& stat) {
  switch (stat.kind) {
    case StatKind::kNone:
      return Cell::Text("None");
    case StatKind::kBool:
      return Cell::Text(stat.boolean ? "True" : "False");
    case StatKind::kInteger:
      return Cell::Integer(stat.integer);
    case StatKind::kText:
      return Cell::Text(stat.text);
    case StatKind::kNumber:
      break;
  }
  return NumberCell(stat.number);
}

Cell MetricCell26(const Metric& metric, report::Table& table) {
  switch (metric.kind) {
    case MetricKind::kNumber:
      return NumberCell(metric.number);
    case MetricKind::kPercent:
      return table.KeepText(base::PythonFloatRepr(metric.number) + '%');
    case MetricKind::kText:
      break;
  }
  // The metrics of tensors are shared with the older tables, which mark infinities with a tab.
  if (metric.text == "inf\t") {
    return Cell::Text(" inf");
  }
  return Cell::Text(metric.text == "-inf\t" ? " -inf" : metric.text);
}

bool SameText(const StatValue& a, const StatValue& b) {
  if (a.kind != b.kind) {
    return (a.kind == StatKind::kText || b.kind == StatKind::kText) && TextOf(a) == TextOf(b);
  }
  switch (a.kind) {
    case StatKind::kNone:
      return true;
    case StatKind::kBool:
      return a.boolean == b.boolean;
    case StatKind::kInteger:
      return a.integer == b.integer;
    case StatKind::kText:
      return a.text == b.text;
    case StatKind::kNumber:
      break;
  }
  if (std::isnan(a.number) || std::isnan(b.number)) {
    return std::isnan(a.number) && std::isnan(b.number);
  }
  return a.number == b.number && std::signbit(a.number) == std::signbit(b.number);
}

}  // namespace msprobe::analysis::compare
