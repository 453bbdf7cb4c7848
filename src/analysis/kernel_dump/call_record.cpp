#include "src/analysis/kernel_dump/call_record.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/json/config.h"

namespace msprobe::analysis::kernel_dump {
namespace {

constexpr uint64_t kLargestRecord = uint64_t{1} << 30U;
constexpr std::string_view kStackMark = "stack_info";

using json::Json;

std::string NumberText(const Json& value) {
  std::string text = json::TextOf(value);
  if (!value.is_string()) {
    json::AppendPythonRepr(value.is_structured() ? Json() : value, text);
  }
  return text;
}

std::string ListText(const Json& list) {
  std::string text = "[";
  for (const Json& item : list) {
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", NumberText(item));
  }
  return text + "]";
}

void AddStack(const Json& line, std::vector<std::string>& lines) {
  for (const Json& item : line) {
    // Innermost first in the file; people read it the other way round.
    const std::span<const Json> frames = json::ItemsOf(item);
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
      const std::string text = frame->is_array() ? ListText(*frame) : NumberText(*frame);
      for (const std::string_view part : base::Split(base::Trim(text), '\n')) {
        lines.push_back("  " + base::Printable(part));
      }
    }
  }
}

// [name, step, [], dtype, shape, [max, min, mean]], of which old versions lack the step or the
// list.
void AddTensor(const Json& line, std::vector<std::string>& lines) {
  std::string dtype = "None";
  std::optional<size_t> shape;
  std::optional<size_t> values;
  for (size_t i = 1; i < line.size(); ++i) {
    const Json& item = line[i];
    if (item.is_string() && !shape) {
      dtype = json::TextOf(item);
    } else if (item.is_array() && (dtype != "None" || !item.empty())) {
      (shape ? values : shape) = i;
    }
  }
  const std::span<const Json> summary =
      values ? json::ItemsOf(line[*values]) : std::span<const Json>();
  const auto value = [&](size_t index) {
    return index < summary.size() ? NumberText(summary[index]) : std::string("None");
  };
  lines.push_back(base::Printable(
      fmt::format("  [{}][dtype: {}][shape: {}][max: {}][min: {}][mean: {}]", json::TextOf(line[0]),
                  dtype, shape ? ListText(line[*shape]) : "[]", value(0), value(1), value(2))));
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
    MSP_ASSIGN_OR_RETURN(
        const Json line,
        json::ParseJsonData(row, fmt::format("{} line {}", file.string(), number)));
    if (!line.is_array() || line.empty() || !line[0].is_string() ||
        !json::TextOf(line[0]).starts_with(name)) {
      continue;
    }
    if (json::TextOf(line[0]).find(kStackMark) != std::string::npos) {
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
