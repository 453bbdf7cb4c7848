#include "src/monitor/csv_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "src/base/number_text.h"

namespace msprobe::monitor {
namespace {

enum class ColumnKind { kText, kAsItIs, kWhole, kRounded };

// One value that is text makes the column text; a bool keeps all numbers as they are; else all are
// whole, or all are rounded.
ColumnKind KindOf(const Batch& batch, size_t column) {
  bool has_bool = false;
  bool all_whole = true;
  for (const Row& row : batch.rows) {
    const Value& value = row.values[column];
    if (std::holds_alternative<std::string>(value)) {
      return ColumnKind::kText;
    }
    has_bool = has_bool || std::holds_alternative<bool>(value);
    all_whole = all_whole && std::holds_alternative<int64_t>(value);
  }
  return has_bool ? ColumnKind::kAsItIs : all_whole ? ColumnKind::kWhole : ColumnKind::kRounded;
}

void AppendWhole(int64_t value, std::string& out) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void AppendText(std::string_view text, std::string& out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) {
    out += c;
    if (c == '"') {
      out += '"';
    }
  }
  out += '"';
}

void AppendFloat(double value, std::string& out) {
  if (std::isnan(value)) {
    out += "nan";
  } else {
    base::AppendPythonFloatRepr(value, out);
  }
}

void AppendAsItIs(const Value& value, std::string& out) {
  if (const auto* truth = std::get_if<bool>(&value)) {
    out += *truth ? "True" : "False";
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendWhole(*whole, out);
  } else if (const auto* number = std::get_if<double>(&value)) {
    AppendFloat(*number, out);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    AppendText(*text, out);
  } else {
    out += "nan";
  }
}

double RoundTo(double value, double scale, bool compat) {
  if (!std::isfinite(value)) {
    return value;
  }
  const double scaled = value * scale;
  return std::isfinite(scaled) || compat ? std::nearbyint(scaled) / scale : value;
}

void AppendRounded(const Value& value, double scale, bool compat, std::string& out) {
  if (const auto* number = std::get_if<double>(&value)) {
    AppendFloat(RoundTo(*number, scale, compat), out);
  } else if (const auto* whole = std::get_if<int64_t>(&value)) {
    AppendFloat(RoundTo(static_cast<double>(*whole), scale, compat), out);
  } else {
    out += "nan";
  }
}

}  // namespace

void AppendCsvHeader(const Batch& batch, std::string& out) {
  out += "vpp_stage,name,step";
  out += batch.has_micro_step ? ",micro_step" : "";
  for (const Op op : batch.columns) {
    out += ',';
    out += OpName(op);
  }
  out += '\n';
}

void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out) {
  const size_t columns = batch.columns.size();
  const double scale = std::pow(10.0, rules.digits);
  std::vector<ColumnKind> kinds(columns);
  for (size_t i = 0; i < columns; ++i) {
    kinds[i] = KindOf(batch, i);
  }
  for (const Row& row : batch.rows) {
    AppendWhole(row.stage, out);
    out += ',';
    AppendText(row.name, out);
    out += ',';
    AppendWhole(batch.step, out);
    if (batch.has_micro_step) {
      out += ',';
      AppendWhole(row.micro_step.value_or(0), out);
    }
    for (size_t i = 0; i < columns; ++i) {
      out += ',';
      if (kinds[i] == ColumnKind::kRounded) {
        AppendRounded(row.values[i], scale, rules.compat, out);
      } else {
        AppendAsItIs(row.values[i], out);
      }
    }
    out += '\n';
  }
}

}  // namespace msprobe::monitor
