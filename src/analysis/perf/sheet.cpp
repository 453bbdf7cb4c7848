#include "src/analysis/perf/sheet.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "src/base/numbers.h"

namespace msprobe::analysis::perf {

double RoundToDigits(double value, int digits) {
  // From 2^53 on a double has no decimals left.
  if (!(std::fabs(value) < 9007199254740992.0)) {
    return value;
  }
  std::array<char, 64> text;
  const auto written = std::to_chars(text.data(), text.data() + text.size(), value,
                                     std::chars_format::fixed, digits);
  double rounded = value;
  std::from_chars(text.data(), written.ptr, rounded);
  return rounded;
}

Difference Differ(double base, double comparison) {
  Difference result;
  result.difference = RoundToDigits(comparison - base, 2) + 0.0;  // -0.0 becomes 0.0
  if (base == 0) {
    result.ratio = comparison == 0 ? 1.0 : std::numeric_limits<double>::infinity();
  } else {
    result.ratio = RoundToDigits(comparison / base, 4);
  }
  if (std::isnan(result.difference)) {
    result.difference = 0;
  }
  if (std::isnan(result.ratio)) {
    result.ratio = 1;
  }
  return result;
}

namespace {

using profile::kNoText;
using profile::Profile;
using profile::TextId;

void AppendOrNone(const Profile& side, TextId id, std::string& out) {
  out += id == kNoText ? std::string_view("None") : side.texts[id];
}

}  // namespace

void AppendKernelText(const Profile& side, const profile::Kernel& kernel, std::string& out) {
  out += side.texts[kernel.name];
  if (side.device == profile::Device::kNpu) {
    out += ", ";
    AppendOrNone(side, kernel.task_id, out);
    out += ", ";
    AppendOrNone(side, kernel.task_type, out);
    if (kernel.shapes != kNoText) {
      out += ", [input shapes: ";
      out += side.texts[kernel.shapes];
      out += "]";
    }
  }
  out += " [duration: ";
  base::AppendPythonFloatRepr(kernel.duration_us, out);
  out += "]\n";
}

void AppendAllocationText(const Profile& side, const profile::Allocation& allocation,
                          std::string_view name, std::string& out) {
  out += name;
  out += ", (";
  out += side.texts[allocation.allocated];
  out += ", ";
  out += side.texts[allocation.released];
  out += "), [duration: ";
  base::AppendPythonFloatRepr(allocation.duration_us, out);
  out += "], [size: ";
  // An integer too large to be exact prints as the number it became.
  constexpr double kExact = 9007199254740992.0;
  if (allocation.size_is_integer && allocation.size_kb <= kExact && allocation.size_kb >= -kExact) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(),
                                   static_cast<int64_t>(allocation.size_kb));
    out.append(digits.data(), end.ptr);
  } else {
    base::AppendPythonFloatRepr(allocation.size_kb, out);
  }
  out += "]\n";
}

void DetailText::Count(size_t from) {
  for (size_t i = from; i < text_.size(); ++i) {
    const bool continues = (static_cast<unsigned char>(text_[i]) & 0xC0U) == 0x80U;
    if (continues) {
      continue;
    }
    if (characters_ == most()) {
      text_.resize(i);
      return;
    }
    ++characters_;
  }
}

namespace {

bool IsRatio(std::string_view name) {
  return name.substr(0, 5) == "Diff " && name.size() >= 10 &&
         name.substr(name.size() - 5) == "Ratio";
}

}  // namespace

report::FormattedTable MakeSheet(std::string_view name, std::vector<std::string> columns,
                                 std::vector<report::ColumnLayout> layouts, size_t front_columns,
                                 size_t side_columns, const PairOptions& options) {
  using report::Shade;
  report::FormattedTable sheet;
  const size_t comparison = front_columns + side_columns;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const bool of_comparison = i >= comparison && i < comparison + side_columns;
    layouts[i].header = of_comparison ? Shade::kYellow : Shade::kGreen;
    layouts[i].is_ratio = IsRatio(columns[i]);
  }
  sheet.columns = std::move(layouts);
  sheet.table = report::Table(std::string(name), std::move(columns));
  sheet.titles = {
      {front_columns, comparison - 1, "Base Profiling: " + options.base.string(), Shade::kGreen},
      {comparison, comparison + side_columns - 1,
       "Comparison Profiling: " + options.comparison.string(), Shade::kYellow}};
  return sheet;
}

report::Cell TextCells::operator()(profile::TextId id) {
  std::string_view& kept = kept_[id];
  if (kept.data() == nullptr) {
    kept = table_->Keep((*texts_)[id]);
  }
  return report::Cell::Text(kept);
}

report::Cell KeptTexts::operator()(std::string_view text) {
  auto found = kept_.find(text);
  if (found == kept_.end()) {
    found = kept_.insert(table_->Keep(text)).first;
  }
  return report::Cell::Text(*found);
}

}  // namespace msprobe::analysis::perf
