#include "src/analysis/config_check/shell_variables.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "src/base/number_text.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// All expansions of a script together: what they come to, and the spelling of every reference each
// time that it is expanded, because what expands to nothing is work, too.
constexpr size_t kExpandedLimitBytes = size_t{16} << 20U;
constexpr int kDeepestDefaults = 16;  // of ${A:-${B:-...}}
constexpr std::string_view kSplitAt = " \t\n";

}  // namespace

// Collects the fields of one command.
class ShellVariables::Builder {
 public:
  explicit Builder(bool splits) : splits_(splits) {}

  void BeginWord(const ShellWord& word) {
    line_ = word.line;
    begun_ = word.has_quotes;
    unknown_ = word.segments.size() == 1;
    field_.clear();
  }
  void EndWord() {
    if (begun_) {
      fields_.push_back({std::move(field_), unknown_, line_});
    }
    field_ = {};
    begun_ = false;
  }

  // Text that stands in one field.
  void Add(std::string_view text) {
    field_ += text;
    begun_ = true;
    unknown_ = false;
  }
  void AddUnknown(std::string_view text) {
    field_ += text;
    begun_ = true;
  }
  // The value of a variable.
  void AddValue(std::string_view text, bool quoted) {
    if (quoted || !splits_) {
      Add(text);
      return;
    }
    unknown_ = false;
    while (!text.empty()) {
      const size_t blanks = std::min(text.find_first_not_of(kSplitAt), text.size());
      if (blanks > 0) {
        NextField();
      }
      text.remove_prefix(blanks);
      const size_t size = std::min(text.find_first_of(kSplitAt), text.size());
      if (size > 0) {
        Add(text.substr(0, size));
      }
      text.remove_prefix(size);
    }
  }
  // "${A[@]}": every element is a field of its own.
  void AddElements(const std::vector<std::string>& elements, bool quoted) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0 && splits_) {
        NextField();
      } else if (i > 0) {
        Add(" ");
      }
      AddValue(elements[i], quoted);
    }
    unknown_ = false;
  }
  // Quotes around nothing but an empty "$@" leave no field.
  void DropEmptyWord() { begun_ = !field_.empty(); }

  std::vector<ShellField> TakeFields() { return std::move(fields_); }

 private:
  void NextField() {
    EndWord();
    unknown_ = false;
  }

  const bool splits_;
  std::vector<ShellField> fields_;
  std::string field_;
  bool begun_ = false;
  bool unknown_ = false;
  int line_ = 0;
};

Status ShellVariables::Count(size_t bytes) {
  expanded_bytes_ += bytes;
  if (expanded_bytes_ > kExpandedLimitBytes) {
    return BadFormatError(
        fmt::format("its variables expand to more than {} bytes", kExpandedLimitBytes));
  }
  return {};
}

Status ShellVariables::ExpandVariable(const ShellSegment& segment, int depth, Builder& out) {
  MSP_RETURN_IF_ERROR(Count(segment.text.size()));
  // The arguments that the script itself will be given.
  if (segment.name == "@" || segment.name == "*") {
    out.DropEmptyWord();
    return {};
  }
  const auto known = values_.find(segment.name);
  const bool is_set = known != values_.end() && !known->second.empty();
  const bool has_text = is_set && (known->second.size() > 1 || !known->second.front().empty());
  const bool use_operand = segment.operation.starts_with(':') ? !has_text : !is_set;
  const bool has_default = segment.operation.ends_with('-') || segment.operation.ends_with('=');
  if (segment.operation.ends_with('+') ? !use_operand : has_default && use_operand) {
    MSP_ASSIGN_OR_RETURN(ShellWord operand, LexOperand(segment.operand, segment.quoted));
    if (segment.operation.ends_with('=')) {
      Builder value(false);
      value.BeginWord(operand);
      MSP_RETURN_IF_ERROR(ExpandWord(operand, depth + 1, value));
      value.EndWord();
      std::vector<ShellField> fields = value.TakeFields();
      values_[segment.name] = {fields.empty() ? std::string() : std::move(fields[0].text)};
    }
    return ExpandWord(operand, depth + 1, out);
  }
  if (segment.operation.ends_with('+')) {
    return {};
  }
  if (known == values_.end()) {
    out.AddUnknown(segment.text);
    return {};
  }
  const std::vector<std::string>& elements = known->second;
  if (segment.index == "@" || segment.index == "*") {
    size_t bytes = 0;
    for (const std::string& element : elements) {
      bytes += element.size() + 1;
    }
    MSP_RETURN_IF_ERROR(Count(bytes));
    if (elements.empty()) {
      out.DropEmptyWord();
    }
    out.AddElements(elements, segment.quoted);
    return {};
  }
  const int64_t index = base::ParseInt(segment.index).value_or(0);
  if (index >= 0 && static_cast<size_t>(index) < elements.size()) {
    const std::string& element = elements[static_cast<size_t>(index)];
    MSP_RETURN_IF_ERROR(Count(element.size()));
    out.AddValue(element, segment.quoted);
  }
  return {};
}

Status ShellVariables::ExpandWord(const ShellWord& word, int depth, Builder& out) {
  if (depth > kDeepestDefaults) {
    return BadFormatError(fmt::format("more than {} nested defaults", kDeepestDefaults));
  }
  for (const ShellSegment& segment : word.segments) {
    switch (segment.part) {
      case ShellPart::kText:
        MSP_RETURN_IF_ERROR(Count(segment.text.size()));
        // Unquoted blanks are there in the operand of a default only, and split it.
        out.AddValue(segment.text, segment.quoted);
        break;
      case ShellPart::kOpaque:
        MSP_RETURN_IF_ERROR(Count(segment.text.size()));
        out.AddUnknown(segment.text);
        break;
      case ShellPart::kVariable:
        MSP_RETURN_IF_ERROR(ExpandVariable(segment, depth, out));
        break;
    }
  }
  return {};
}

Status ShellVariables::Assign(const ShellAssignment& assignment) {
  std::vector<std::string> values;
  Builder builder(assignment.is_array);
  for (const ShellWord& word : assignment.words) {
    builder.BeginWord(word);
    MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
    builder.EndWord();
  }
  for (ShellField& field : builder.TakeFields()) {
    values.push_back(std::move(field.text));
  }
  if (!assignment.is_array && values.empty()) {
    values.emplace_back();
  }
  std::vector<std::string>& target = values_[assignment.name];
  if (!assignment.appends) {
    target = std::move(values);
  } else if (assignment.is_array) {
    target.insert(target.end(), std::make_move_iterator(values.begin()),
                  std::make_move_iterator(values.end()));
  } else if (target.empty()) {
    target = std::move(values);
  } else {
    target.front() += values.front();
  }
  return {};
}

Result<std::vector<ShellField>> ShellVariables::Expand(const std::vector<ShellWord>& words) {
  Builder builder(true);
  for (const ShellWord& word : words) {
    builder.BeginWord(word);
    MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
    builder.EndWord();
  }
  return builder.TakeFields();
}

}  // namespace msprobe::analysis::config_check::internal
