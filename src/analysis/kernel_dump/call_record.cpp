#include "src/analysis/kernel_dump/call_record.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr uint64_t kLargestRecord = uint64_t{1} << 30U;
constexpr std::string_view kStackMark = "stack_info";

using json::ConfigKind;
using json::ConfigValue;

std::string NumberText(const ConfigValue& value) {
  switch (value.kind) {
    case ConfigKind::kInt:
      return std::to_string(value.integer);
    case ConfigKind::kFloat:
      return base::PythonFloatRepr(value.number);
    case ConfigKind::kText:
      return value.text;
    case ConfigKind::kBool:
      return value.boolean ? "True" : "False";
    default:
      return "None";
  }
}

std::string ListText(const ConfigValue& list) {
  std::string text = "[";
  for (const ConfigValue& item : list.items) {
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", NumberText(item));
  }
  return text + "]";
}

void AddStack(const ConfigValue& line, std::vector<std::string>& lines) {
  for (const ConfigValue& item : line.items) {
    if (item.kind != ConfigKind::kList) {
      continue;
    }
    // Innermost first in the file; people read it the other way round.
    for (auto frame = item.items.rbegin(); frame != item.items.rend(); ++frame) {
      const std::string text =
          frame->kind == ConfigKind::kList ? ListText(*frame) : NumberText(*frame);
      for (const std::string_view part : base::Split(base::Trim(text), '\n')) {
        lines.push_back("  " + base::Printable(part));
      }
    }
  }
}

// [name, step, [], dtype, shape, [max, min, mean]], of which old versions lack the step or the
// list.
void AddTensor(const ConfigValue& line, std::vector<std::string>& lines) {
  std::string dtype = "None";
  std::optional<size_t> shape;
  std::optional<size_t> values;
  for (size_t i = 1; i < line.items.size(); ++i) {
    const ConfigValue& item = line.items[i];
    if (item.kind == ConfigKind::kText && !shape) {
      dtype = item.text;
    } else if (item.kind == ConfigKind::kList && (dtype != "None" || !item.items.empty())) {
      (shape ? values : shape) = i;
    }
  }
  const ConfigValue none;
  const ConfigValue& summary = values ? line.items[*values] : none;
  const auto value = [&](size_t index) {
    return index < summary.items.size() ? NumberText(summary.items[index]) : std::string("None");
  };
  lines.push_back(base::Printable(fmt::format(
      "  [{}][dtype: {}][shape: {}][max: {}][min: {}][mean: {}]", line.items[0].text, dtype,
      shape ? ListText(line.items[*shape]) : "[]", value(0), value(1), value(2))));
}

}  // namespace

Result<std::vector<std::string>> DescribeCalls(const std::filesystem::path& file,
                                               const std::string& name) {
  MSP_ASSIGN_OR_RETURN(const std::string text, base::ReadTextFile(file, kLargestRecord));
  std::vector<std::string> lines;
  uint64_t number = 0;
  for (const std::string_view row : base::Split(text, '\n')) {
    ++number;
    if (base::Trim(row).empty() || row.find(name) == std::string_view::npos) {
      continue;
    }
    const Result<json::Config> parsed =
        json::ParseJsonData(row, fmt::format("{} line {}", file.string(), number));
    MSP_RETURN_IF_ERROR(parsed.ok() ? Status() : Status(parsed.status()));
    const ConfigValue& line = parsed->root;
    if (line.kind != ConfigKind::kList || line.items.empty() ||
        line.items[0].kind != ConfigKind::kText || !line.items[0].text.starts_with(name)) {
      continue;
    }
    if (line.items[0].text.find(kStackMark) != std::string::npos) {
      AddStack(line, lines);
    } else {
      AddTensor(line, lines);
    }
  }
  if (lines.empty()) {
    return NotFoundError(
        fmt::format("{}: no call whose name begins with \"{}\"", file.string(), name));
  }
  return lines;
}

}  // namespace msprobe::analysis::kernel_dump
