#include "src/monitor/csv_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "src/base/csv.h"
#include "src/base/numbers.h"

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
    base::AppendCsvText(*text, out);
  } else {
    out += "nan";
  }
}

// Rounds numbers and spells them.
class Decimals {
 public:
  explicit Decimals(const CsvRules& rules)
      : digits_(static_cast<size_t>(rules.digits)),
        scale_(std::pow(10.0, rules.digits)),
        smallest_(rules.digits <= kMostExactDigits
                      ? std::pow(10.0, std::max(rules.digits - kMostZeros, 0))
                      : std::numeric_limits<double>::infinity()),
        significant_(rules.significant),
        too_few_(rules.significant > 0 ? std::pow(10.0, rules.significant - 1 - rules.digits) : 0),
        compat_(rules.compat) {}

  void Append(const Value& value, std::string& out) const {
    if (const auto* number = std::get_if<double>(&value)) {
      AppendNumber(*number, out);
    } else if (const auto* whole = std::get_if<int64_t>(&value)) {
      AppendNumber(static_cast<double>(*whole), out);
    } else {
      out += "nan";
    }
  }

 private:
  // Two numbers of so many digits are never the same double, so that those of the rounded number
  // are the shortest that read back the same.
  static constexpr int32_t kMostExactDigits = 15;
  static constexpr double kTooLarge = 1e15;
  // Behind the point; a number with more is spelled with an exponent.
  static constexpr int32_t kMostZeros = 4;

  void AppendNumber(double value, std::string& out) const {
    if (std::fabs(value) < too_few_ && value != 0) {
      AppendSignificant(value, out);
      return;
    }
    const double scaled = std::isfinite(value) ? std::nearbyint(value * scale_) : value;
    const double size = std::fabs(scaled);
    if (size >= smallest_ && size < kTooLarge) {
      out += scaled < 0 ? "-" : "";
      AppendScaled(static_cast<int64_t>(size), out);
    } else if (scaled == 0) {
      out += std::signbit(scaled) ? "-0.0" : "0.0";
    } else {
      const bool is_kept = !std::isfinite(scaled) && !compat_;
      AppendFloat(is_kept ? value : scaled / scale_, out);
    }
  }

  void AppendSignificant(double value, std::string& out) const {
    std::array<char, 32> text{};
    const auto end = fmt::format_to_n(text.data(), text.size(), "{:.{}e}", value, significant_ - 1);
    double rounded = value;
    std::from_chars(text.data(), end.out, rounded);
    base::AppendPythonFloatRepr(rounded, out);
  }

  // A number of units of 10^-digits_.
  void AppendScaled(int64_t units, std::string& out) const {
    const fmt::format_int text(units);
    std::string_view fraction(text.data(), text.size());
    if (fraction.size() > digits_) {
      out += fraction.substr(0, fraction.size() - digits_);
      fraction.remove_prefix(fraction.size() - digits_);
    } else {
      out += '0';
    }
    out += '.';
    out.append(digits_ - fraction.size(), '0');
    // Nothing but zeros: one of them stays.
    fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
    out += fraction.empty() ? "0" : fraction;
  }

  size_t digits_;
  double scale_;
  double smallest_;  // in units, of what is spelled without an exponent
  int32_t significant_;
  double too_few_;  // below, digits_ decimals are fewer than significant_ digits
  bool compat_;
};

}  // namespace

void AppendCsvHeader(const Batch& batch, std::string& out) {
  out += "vpp_stage,name,step";
  out += batch.has_micro_step ? ",micro_step" : "";
  for (const Statistic op : batch.columns) {
    out += ',';
    out += StatisticName(op);
  }
  out += '\n';
}

void AppendCsvRows(const Batch& batch, const CsvRules& rules, std::string& out) {
  const size_t columns = batch.columns.size();
  const Decimals decimals(rules);
  std::vector<ColumnKind> kinds(columns);
  for (size_t i = 0; i < columns; ++i) {
    kinds[i] = KindOf(batch, i);
  }
  for (const Row& row : batch.rows) {
    AppendWhole(row.stage, out);
    out += ',';
    base::AppendCsvText(row.name, out);
    out += ',';
    AppendWhole(batch.step, out);
    if (batch.has_micro_step) {
      out += ',';
      AppendWhole(row.micro_step.value_or(0), out);
    }
    for (size_t i = 0; i < columns; ++i) {
      out += ',';
      if (kinds[i] == ColumnKind::kRounded) {
        decimals.Append(row.values[i], out);
      } else {
        AppendAsItIs(row.values[i], out);
      }
    }
    out += '\n';
  }
}

}  // namespace msprobe::monitor
