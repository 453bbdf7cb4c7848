// Words with the variables filled in: what becomes of them in bash.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// All expansions of a script together: what they come to, and the spelling of every reference each
// time that it is expanded, because what expands to nothing is work, too.
constexpr size_t kExpandedLimitBytes = size_t{16} << 20U;

bool IsBlankSeparator(char c) { return c == ' ' || c == '\t' || c == '\n'; }

}  // namespace

// Collects the fields of one command.
class ShellRun::Builder {
 public:
  Builder(bool splits, std::string separators)
      : splits_(splits), separators_(std::move(separators)) {}

  bool splits() const { return splits_; }
  void BeginWord(const ShellWord& word) {
    line_ = word.line;
    begun_ = word.has_quotes;
    quoted_ = word.has_quotes;
    field_.clear();
  }
  void EndWord() {
    if (begun_) {
      const bool unknown =
          field_.starts_with(kOpenUnknown) && field_.find(kCloseUnknown) + 1 == field_.size();
      fields_.push_back({std::move(field_), unknown, unknown && !quoted_, line_});
    }
    field_ = {};
    begun_ = false;
    ends_with_separator_ = false;
  }

  // Text that stands in one field.
  void Add(std::string_view text) {
    if (ends_with_separator_) {
      NextField();
    }
    field_ += text;
    begun_ = true;
  }
  // The value of a variable. A non-blank separator ends a field even where that is empty.
  void AddValue(std::string_view text, bool quoted) {
    if (quoted || !splits_ || separators_.empty()) {
      Add(text);
      return;
    }
    size_t at = 0;
    while (at < text.size()) {
      const char c = text[at];
      if (separators_.find(c) == std::string::npos) {
        if (ends_with_separator_) {
          NextField();
        }
        field_ += c;
        begun_ = true;
        ++at;
        continue;
      }
      if (IsBlankSeparator(c)) {
        ends_with_separator_ = begun_;
        ++at;
        continue;
      }
      if (!begun_ && !ends_with_separator_) {
        begun_ = true;  // an empty field in front of it
      }
      NextField();
      ++at;
    }
  }
  void AddElements(const std::vector<std::string>& elements, bool quoted) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0 && splits_) {
        NextField();
        begun_ = quoted;
      } else if (i > 0) {
        Add(" ");
      }
      AddValue(elements[i], quoted);
    }
  }
  // Quotes around nothing but an empty "$@" leave no field.
  void DropEmptyWord() { begun_ = !field_.empty(); }

  std::vector<ShellField> TakeFields() { return std::move(fields_); }

 private:
  void NextField() { EndWord(); }

  const bool splits_;
  const std::string separators_;
  std::vector<ShellField> fields_;
  std::string field_;
  bool begun_ = false;
  bool quoted_ = false;
  bool ends_with_separator_ = false;  // blanks: a field ends if there is another one
  int line_ = 0;
};

Status ShellRun::CountBytes(size_t bytes) {
  work_.expanded_bytes += bytes;
  if (work_.expanded_bytes > kExpandedLimitBytes) {
    return BadFormatError(
        fmt::format("its variables expand to more than {} bytes", kExpandedLimitBytes));
  }
  return {};
}

std::string ShellRun::UnknownText(std::string spelling, ShellUnknown::Kind kind) {
  const auto [place, is_new] = unknown_places_.emplace(spelling, unknowns_.size());
  if (is_new) {
    unknowns_.push_back({std::move(spelling), kind, false, std::nullopt});
  }
  return fmt::format("{}{}{}", kOpenUnknown, place->second, kCloseUnknown);
}

std::vector<const ShellUnknown*> ShellRun::UnknownsIn(std::string_view text) const {
  std::vector<const ShellUnknown*> found;
  for (size_t at = text.find(kOpenUnknown); at != std::string_view::npos;
       at = text.find(kOpenUnknown, at + 1)) {
    const size_t close = text.find(kCloseUnknown, at);
    const auto number = base::ParseInt(text.substr(at + 1, close - at - 1));
    if (number && *number >= 0 && static_cast<size_t>(*number) < unknowns_.size()) {
      found.push_back(&unknowns_[static_cast<size_t>(*number)]);
    }
  }
  return found;
}

std::string ShellRun::Spelled(std::string_view text) const {
  std::string spelled;
  while (!text.empty()) {
    const size_t open = std::min(text.find(kOpenUnknown), text.size());
    spelled += text.substr(0, open);
    text.remove_prefix(open);
    if (text.empty()) {
      break;
    }
    const size_t close = std::min(text.find(kCloseUnknown), text.size() - 1);
    for (const ShellUnknown* unknown : UnknownsIn(text.substr(0, close + 1))) {
      spelled += unknown->spelling;
    }
    text.remove_prefix(close + 1);
  }
  return spelled;
}

std::string ShellRun::Resolve(std::string text) const {
  if (!HasUnknown(text)) {
    return text;
  }
  std::string resolved;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find(kOpenUnknown), rest.size());
    resolved += rest.substr(0, open);
    rest.remove_prefix(open);
    if (rest.empty()) {
      break;
    }
    const size_t close = std::min(rest.find(kCloseUnknown), rest.size() - 1);
    const std::vector<const ShellUnknown*> unknown = UnknownsIn(rest.substr(0, close + 1));
    if (!unknown.empty() && unknown[0]->binding) {
      resolved += *unknown[0]->binding;
    } else {
      resolved += rest.substr(0, close + 1);
    }
    rest.remove_prefix(close + 1);
  }
  return resolved;
}

std::string ShellRun::Separators() const {
  const auto found = variables_.find("IFS");
  return found == variables_.end() || !found->second->is_set || HasUnknown(found->second->text)
             ? std::string(" \t\n")
             : found->second->text;
}

Result<std::string> ShellRun::OperandText(std::string_view text) {
  MSP_ASSIGN_OR_RETURN(const ShellWord word, ParseOperand(text, true));
  return Text(word);
}

Result<std::string> ShellRun::Text(const ShellWord& word) {
  Builder builder(false, {});
  builder.BeginWord(word);
  MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
  builder.EndWord();
  std::vector<ShellField> fields = builder.TakeFields();
  return fields.empty() ? std::string() : Resolve(std::move(fields[0].text));
}

Result<std::string> ShellRun::Pattern(const ShellWord& word) {
  std::string pattern;
  for (const ShellSegment& segment : word.segments) {
    if (segment.part == ShellPart::kText || segment.part == ShellPart::kOpaque) {
      pattern += segment.quoted ? EscapedPattern(segment.text) : segment.text;
      continue;
    }
    ShellWord part;
    part.line = word.line;
    part.segments.push_back(segment);
    MSP_ASSIGN_OR_RETURN(const std::string text, Text(part));
    pattern += segment.quoted && !HasUnknown(text) ? EscapedPattern(text) : text;
  }
  return pattern;
}

Status ShellRun::ExpandVariable(const ShellSegment& segment, int depth, Builder& out) {
  MSP_RETURN_IF_ERROR(CountBytes(segment.text.size()));
  MSP_ASSIGN_OR_RETURN(Reference reference, Look(segment));
  const std::string& operation = segment.operation;
  if (segment.prefix == '#') {
    if (reference.unknown ||
        std::any_of(reference.values.begin(), reference.values.end(),
                    [](const std::string& v) { return HasUnknown(v); }) ||
        ((segment.name == "@" || segment.name == "*") && !arguments_known_)) {
      out.Add(UnknownText(segment.text, ShellUnknown::Kind::kOther));
      return {};
    }
    const size_t size = reference.many             ? reference.values.size()
                        : reference.values.empty() ? 0
                                                   : reference.values[0].size();
    out.AddValue(std::to_string(size), segment.quoted);
    return {};
  }
  const bool is_set = reference.is_set;
  const bool has_text =
      is_set && !(reference.values.size() == 1 && reference.values.front().empty());
  const bool use_operand = operation.starts_with(':') ? !has_text : !is_set;
  const std::string_view kind =
      std::string_view(operation).substr(operation.size() == 2 && operation[0] == ':' ? 1 : 0);
  if (kind == "+" ? !use_operand : (kind == "-" || kind == "=") && use_operand) {
    MSP_ASSIGN_OR_RETURN(ShellWord operand, ParseOperand(segment.operand, segment.quoted));
    if (reference.unknown && IsArgumentName(segment.name)) {
      WarnAt(segment.line,
             fmt::format("{}: the default, as if the script had no arguments", segment.text));
    }
    if (kind == "=") {
      Builder value(false, {});
      value.BeginWord(operand);
      MSP_RETURN_IF_ERROR(ExpandWord(operand, depth + 1, value));
      value.EndWord();
      std::vector<ShellField> fields = value.TakeFields();
      SetText(segment.name, fields.empty() ? std::string() : std::move(fields[0].text),
              segment.line);
    }
    return ExpandWord(operand, depth + 1, out);
  }
  if (kind == "+") {
    return {};
  }
  if (reference.unknown && !reference.many) {
    const bool plain = operation.empty() || kind == "?" || kind == "-" || kind == "=";
    if (plain && operation.empty()) {
      out.Add(reference.values[0]);
    } else {
      out.Add(UnknownText(segment.text,
                          plain ? ShellUnknown::Kind::kEnvironment : ShellUnknown::Kind::kOther));
    }
    return {};
  }
  if (!operation.empty() && kind != "-" && kind != "=" && kind != "?") {
    MSP_RETURN_IF_ERROR(ApplyOperation(segment, reference, depth + 1));
  }
  if (reference.many) {
    if (reference.values.empty()) {
      out.DropEmptyWord();
      return {};
    }
    size_t bytes = 0;
    for (const std::string& value : reference.values) {
      bytes += value.size() + 1;
    }
    MSP_RETURN_IF_ERROR(CountBytes(bytes));
    if (reference.joined && segment.quoted) {
      const std::string separators = Separators();
      out.AddValue(base::Join(reference.values, std::string_view(separators).substr(0, 1)), true);
    } else {
      out.AddElements(reference.values, segment.quoted);
    }
    return {};
  }
  if (!reference.values.empty()) {
    MSP_RETURN_IF_ERROR(CountBytes(reference.values[0].size()));
    out.AddValue(reference.values[0], segment.quoted);
  }
  return {};
}

Status ShellRun::ExpandWord(const ShellWord& word, int depth, Builder& out) {
  if (depth > kDeepestDefaults) {
    return BadFormatError(fmt::format("more than {} nested defaults", kDeepestDefaults));
  }
  for (size_t i = 0; i < word.segments.size(); ++i) {
    const ShellSegment& segment = word.segments[i];
    MSP_RETURN_IF_ERROR(CountBytes(segment.text.size()));
    switch (segment.part) {
      case ShellPart::kText: {
        std::string_view text = segment.text;
        if (i == 0 && !segment.quoted && text.starts_with('~') &&
            (text.size() == 1 || text[1] == '/')) {
          out.Add(UnknownText("~", ShellUnknown::Kind::kEnvironment));
          text.remove_prefix(1);
        }
        // Unquoted blanks are there in the operand of a default only, and split it.
        if (!text.empty() || segment.quoted) {
          out.AddValue(text, segment.quoted || depth == 0);
        }
        break;
      }
      case ShellPart::kOpaque:
        out.Add(UnknownText(segment.text, ShellUnknown::Kind::kOther));
        break;
      case ShellPart::kCommand: {
        MSP_ASSIGN_OR_RETURN(const std::string text, Substitute(segment));
        MSP_RETURN_IF_ERROR(CountBytes(text.size()));
        out.AddValue(text, segment.quoted);
        break;
      }
      case ShellPart::kArithmetic: {
        MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> value, Arithmetic(segment.operand));
        out.AddValue(
            value ? std::to_string(*value) : UnknownText(segment.text, ShellUnknown::Kind::kOther),
            segment.quoted);
        break;
      }
      case ShellPart::kVariable:
        MSP_RETURN_IF_ERROR(ExpandVariable(segment, depth, out));
        break;
    }
  }
  return {};
}

Result<std::vector<ShellField>> ShellRun::Expand(const std::vector<ShellWord>& words) {
  Builder builder(true, Separators());
  for (const ShellWord& braced : words) {
    const std::vector<ShellWord> made = WordsOfBraces(braced);
    constexpr size_t kCost = 64;  // of making a word
    MSP_RETURN_IF_ERROR(CountBytes(made.size() > 1 ? made.size() * kCost : 0));
    for (const ShellWord& word : made) {
      builder.BeginWord(word);
      MSP_RETURN_IF_ERROR(ExpandWord(word, 0, builder), fmt::format("line {}", word.line));
      builder.EndWord();
    }
  }
  return builder.TakeFields();
}

}  // namespace msprobe::analysis::config_check::internal
