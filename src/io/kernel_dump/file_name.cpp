#include "src/io/kernel_dump/file_name.h"

#include <algorithm>
#include <array>
#include <vector>

#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::io::kernel_dump {
namespace {

constexpr std::string_view kOverflowType = "Opdebug";
constexpr std::string_view kOverflowName = "Node_OpDebug";

bool IsWord(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return base::IsDigit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           c == '-';
  });
}

std::optional<uint64_t> Number(std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), base::IsDigit)) {
    return std::nullopt;
  }
  const std::optional<int64_t> number = base::ParseInt(text);
  return number && *number >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*number))
                                : std::nullopt;
}

}  // namespace

bool DumpFileName::is_overflow() const {
  return op_type == kOverflowType && op_name == kOverflowName;
}

std::optional<DumpFileName> ParseDumpFileName(std::string_view text) {
  const std::vector<std::string_view> fields = base::Split(text, '.');
  constexpr size_t kFewest = 4;
  constexpr size_t kMost = 9;
  if (fields.size() < kFewest || fields.size() > kMost || !IsWord(fields[0]) ||
      !IsWord(fields[1])) {
    return std::nullopt;
  }
  std::vector<uint64_t> numbers;
  for (size_t i = 2; i < fields.size(); ++i) {
    const std::optional<uint64_t> number = Number(fields[i]);
    if (!number) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  DumpFileName name;
  name.op_type = fields[0];
  name.op_name = fields[1];
  name.task_id = numbers[0];
  size_t at = 1;
  if (numbers.size() > 2) {
    name.stream_id = numbers[at++];
  }
  name.timestamp = numbers[at++];
  for (std::optional<uint64_t>* further :
       {&name.task_type, &name.context_id, &name.thread_id, &name.device_id}) {
    if (at < numbers.size()) {
      *further = numbers[at++];
    }
  }
  return name;
}

std::string InFileNames(std::string_view op_name) {
  std::string text(op_name);
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c == '/' || c == '.' || c == '\\' || c == ' '; }, '_');
  return text;
}

bool IsReplacedName(std::string_view name) {
  const std::string_view stem = name.substr(0, name.find('.'));
  return !stem.empty() && std::all_of(stem.begin(), stem.end(), base::IsDigit);
}

}  // namespace msprobe::io::kernel_dump
