// Variables and arrays: what they hold, and what ${NAME...} makes of it.
#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/config_check/shell_patterns.h"
#include "src/analysis/config_check/shell_run.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::config_check::internal {
namespace {

// What a shell sets by itself: a default is never taken.
constexpr std::array<std::string_view, 16> kSetByShell = {
    "PWD",  "HOSTNAME", "UID",      "EUID",   "PPID",     "RANDOM", "SECONDS",     "LINENO",
    "BASH", "SHLVL",    "HOSTTYPE", "OSTYPE", "MACHTYPE", "PATH",   "BASH_SOURCE", "BASH_VERSION"};

}  // namespace

bool IsArgumentName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), base::IsDigit);
}

ShellRun::Variable& ShellRun::Own(const std::string& name) {
  std::shared_ptr<Variable>& variable = variables_[name];
  if (variable == nullptr) {
    variable = std::make_shared<Variable>();
  } else if (variable.use_count() > 1) {
    variable = std::make_shared<Variable>(*variable);
  }
  return *variable;
}

void ShellRun::SetText(const std::string& name, std::string value, int line) {
  Variable& variable = Own(name);
  variable.is_set = true;
  variable.exported = variable.exported || exports_all_;
  variable.line = line;
  if (variable.is_array) {
    variable.elements.clear();
    variable.elements.emplace_back("0", std::move(value));
  } else {
    variable.text = std::move(value);
  }
}

Result<ShellRun::Reference> ShellRun::LookUp(const std::string& name, const std::string& index,
                                             const std::string& spelling) {
  using Kind = ShellUnknown::Kind;
  Reference reference;
  if (name == "@" || name == "*") {
    reference.many = true;
    reference.joined = name == "*";
    reference.values = arguments_;
    reference.is_set = !arguments_.empty();
    return reference;
  }
  if (name == "#") {
    reference.is_set = true;
    reference.values = {arguments_known_ ? std::to_string(arguments_.size())
                                         : UnknownText("$#", Kind::kArgument)};
    return reference;
  }
  if (name == "?" && outcome_.code) {
    reference.is_set = true;
    reference.values = {std::to_string(*outcome_.code)};
    return reference;
  }
  if (name == "?" || name == "$" || name == "!" || name == "-" || name == "0") {
    reference.is_set = true;
    reference.values = {UnknownText("$" + name, Kind::kOther)};
    return reference;
  }
  if (IsArgumentName(name)) {
    const auto place = static_cast<size_t>(base::ParseInt(name).value_or(0));
    if (arguments_known_) {
      reference.is_set = place >= 1 && place <= arguments_.size();
      if (reference.is_set) {
        reference.values = {arguments_[place - 1]};
      }
      return reference;
    }
    const std::string text = UnknownText(fmt::format("${}", place + shifted_), Kind::kArgument);
    const ShellUnknown* unknown = UnknownsIn(text)[0];
    reference.unknown = !unknown->assumed_set && !unknown->binding;
    const std::string value = Resolve(text);
    reference.is_set = unknown->assumed_set || !value.empty();
    reference.values = {value};
    reference.is_set = reference.is_set && !reference.unknown;
    return reference;
  }
  const auto found = variables_.find(name);
  if (found != variables_.end() && (found->second->is_set || found->second->is_array)) {
    const Variable& variable = *found->second;
    if (index == "@" || index == "*") {
      reference.many = true;
      reference.joined = index == "*";
      size_t bytes = 0;
      for (const auto& [key, value] : variable.elements) {
        bytes += value.size() + 1;
      }
      MSP_RETURN_IF_ERROR(CountBytes(bytes));
      if (!variable.is_array) {
        reference.values.push_back(variable.text);
      }
      for (const auto& [key, value] : variable.elements) {
        reference.values.push_back(Resolve(value));
      }
      // The order of keys is that of bash's hash table.
      if (variable.has_keys && variable.elements.size() > 1) {
        reference.values = {UnknownText(spelling, Kind::kOther)};
      }
      reference.is_set = !reference.values.empty();
      return reference;
    }
    std::string key = index.empty() ? "0" : index;
    if (!index.empty() && variable.has_keys) {
      MSP_ASSIGN_OR_RETURN(key, OperandText(index));
    } else if (!index.empty()) {
      MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(index));
      key = number
                ? std::to_string(
                      *number < 0 && !variable.elements.empty()
                          ? *number + base::ParseInt(variable.elements.back().first).value_or(0) + 1
                          : *number)
                : std::string(1, kOpenUnknown);
    }
    if (HasUnknown(key)) {
      reference.is_set = true;
      reference.values = {UnknownText(spelling, Kind::kOther)};
      return reference;
    }
    if (!variable.is_array) {
      reference.is_set = key == "0";
      reference.values = {Resolve(variable.text)};
      return reference;
    }
    // Mostly the indices are 0, 1, 2...
    const auto place = static_cast<size_t>(std::max<int64_t>(base::ParseInt(key).value_or(0), 0));
    if (place < variable.elements.size() && variable.elements[place].first == key) {
      reference.is_set = true;
      reference.values = {Resolve(variable.elements[place].second)};
      return reference;
    }
    MSP_RETURN_IF_ERROR(CountBytes(variable.elements.size()));
    for (const auto& [element, value] : variable.elements) {
      if (element == key) {
        reference.is_set = true;
        reference.values = {Resolve(value)};
      }
    }
    return reference;
  }
  if (found != variables_.end()) {  // unset, or declared only
    return reference;
  }
  const std::string text = UnknownText(
      spelling.starts_with("${") && spelling.size() == name.size() + 3 ? spelling : "$" + name,
      Kind::kEnvironment);
  const ShellUnknown* unknown = UnknownsIn(text)[0];
  reference.values = {Resolve(text)};
  if (base::IsOneOf(name, kSetByShell) || unknown->assumed_set) {
    reference.is_set = true;
  } else if (unknown->binding) {
    reference.is_set = !unknown->binding->empty();
  } else {
    reference.unknown = true;
  }
  return reference;
}

Result<ShellRun::Reference> ShellRun::Look(const ShellSegment& segment) {
  if (segment.prefix == '!') {
    Reference reference;
    if (segment.index == "@" || segment.index == "*") {
      reference.many = true;
      const auto found = variables_.find(segment.name);
      if (found != variables_.end()) {
        for (const auto& [key, value] : found->second->elements) {
          reference.values.push_back(key);
        }
        if (found->second->has_keys && reference.values.size() > 1) {
          reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
        }
      }
      reference.is_set = !reference.values.empty();
      return reference;
    }
    MSP_ASSIGN_OR_RETURN(reference, LookUp(segment.name, segment.index, segment.text));
    const std::string target = reference.values.empty() ? std::string() : reference.values[0];
    const bool is_name = !target.empty() && (StartsName(target[0]) || base::IsDigit(target[0])) &&
                         std::all_of(target.begin(), target.end(),
                                     [](char c) { return StartsName(c) || base::IsDigit(c); });
    if (!is_name || !segment.index.empty()) {
      reference = {};
      reference.is_set = true;
      reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
      return reference;
    }
    return LookUp(target, {}, "$" + target);
  }
  return LookUp(segment.name, segment.index, segment.text);
}

// All but the defaults.
Status ShellRun::ApplyOperation(const ShellSegment& segment, Reference& reference, int depth) {
  const std::string& operation = segment.operation;
  const auto opaque = [&] {
    reference.is_set = true;
    reference.many = false;
    reference.values = {UnknownText(segment.text, ShellUnknown::Kind::kOther)};
  };
  if (std::any_of(reference.values.begin(), reference.values.end(),
                  [](const std::string& value) { return HasUnknown(value); })) {
    opaque();
    return {};
  }
  if (operation == ":") {
    const size_t colon = segment.operand.find(':');
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> offset,
                         Arithmetic(std::string_view(segment.operand).substr(0, colon)));
    std::optional<int64_t> length = std::numeric_limits<int64_t>::max();
    if (colon != std::string::npos) {
      MSP_ASSIGN_OR_RETURN(length, Arithmetic(std::string_view(segment.operand).substr(colon + 1)));
    }
    if (!offset || !length || (segment.name == "@" && *offset < 1)) {
      opaque();
      return {};
    }
    const auto cut = [&](int64_t size) {
      int64_t first = *offset < 0 ? size + *offset : *offset;
      first = std::clamp<int64_t>(first, 0, size);
      const int64_t last =
          *length < 0 ? std::max(first, size + *length) : first + std::min(*length, size - first);
      return std::pair(static_cast<size_t>(first), static_cast<size_t>(last - first));
    };
    if (reference.many) {
      // Those of the script count from 1.
      const bool arguments = segment.name == "@" || segment.name == "*";
      const auto size = static_cast<int64_t>(reference.values.size());
      int64_t first = *offset < 0 ? size + *offset : *offset - (arguments ? 1 : 0);
      first = std::clamp<int64_t>(first, 0, size);
      const int64_t count = std::clamp<int64_t>(*length, 0, size - first);
      reference.values = {reference.values.begin() + first,
                          reference.values.begin() + first + count};
      return {};
    }
    for (std::string& value : reference.values) {
      const auto [first, count] = cut(static_cast<int64_t>(value.size()));
      value = value.substr(first, count);
    }
    return {};
  }
  if (operation.starts_with('^') || operation.starts_with(',')) {
    for (std::string& value : reference.values) {
      const size_t count = operation.size() == 2 ? value.size() : std::min<size_t>(1, value.size());
      for (size_t i = 0; i < count; ++i) {
        const auto byte = static_cast<unsigned char>(value[i]);
        value[i] = static_cast<char>(operation[0] == '^' ? std::toupper(byte) : std::tolower(byte));
      }
    }
    if (!segment.operand.empty()) {
      opaque();
    }
    return {};
  }
  if (depth > kDeepestDefaults) {
    return BadFormatError(fmt::format("more than {} nested defaults", kDeepestDefaults));
  }
  const bool replaces = operation.starts_with('/');
  std::string_view pattern_text = segment.operand;
  std::string_view replacement_text;
  if (replaces) {
    size_t slash = 0;
    while (slash < pattern_text.size() && pattern_text[slash] != '/') {
      slash += pattern_text[slash] == '\\' ? 2 : 1;
    }
    replacement_text = pattern_text.substr(std::min(slash + 1, pattern_text.size()));
    pattern_text = pattern_text.substr(0, std::min(slash, pattern_text.size()));
  }
  MSP_ASSIGN_OR_RETURN(const ShellWord pattern_word, ParseOperand(pattern_text, false));
  MSP_ASSIGN_OR_RETURN(const std::string pattern, Pattern(pattern_word));
  MSP_ASSIGN_OR_RETURN(const ShellWord replacement_word, ParseOperand(replacement_text, false));
  MSP_ASSIGN_OR_RETURN(const std::string replacement, Text(replacement_word));
  if (HasUnknown(pattern) || HasUnknown(replacement) ||
      !MatchesPattern(pattern, std::string_view()).has_value() ||
      (replaces && replacement.find('&') != std::string::npos)) {
    opaque();
    return {};
  }
  const auto matches = [&](std::string_view text) {
    return MatchesPattern(pattern, text).value_or(false);
  };
  for (std::string& value : reference.values) {
    const std::string_view text = value;
    // Each length is tried, at each place: a value too long for that stays as it is spelled.
    constexpr size_t kLongest = 4096;
    constexpr size_t kLongestReplaced = 256;
    const bool has_star = pattern.find('*') != std::string::npos;
    if (value.size() > (replaces && has_star ? kLongestReplaced : kLongest)) {
      opaque();
      return {};
    }
    MSP_RETURN_IF_ERROR(CountBytes(value.size() * 16));
    if (!replaces) {
      const bool front = operation[0] == '#';
      const bool longest = operation.size() == 2;
      for (size_t i = 0; i <= text.size(); ++i) {
        const size_t size = longest ? text.size() - i : i;
        const std::string_view part =
            front ? text.substr(0, size) : text.substr(text.size() - size);
        if (matches(part)) {
          value = front ? value.substr(size) : value.substr(0, value.size() - size);
          break;
        }
      }
      continue;
    }
    if (pattern.empty()) {
      continue;
    }
    std::string result;
    size_t at = 0;
    bool done = false;
    while (at <= text.size()) {
      size_t size = std::string_view::npos;
      const bool here = operation == "/#" ? at == 0 : true;
      if (!done && here) {
        const size_t longest = has_star ? text.size() : std::min(text.size(), at + pattern.size());
        for (size_t end = longest;; --end) {
          const bool fits = operation != "/%" || end == text.size();
          if (fits && matches(text.substr(at, end - at))) {
            size = end - at;
            break;
          }
          if (end == at) {
            break;
          }
        }
      }
      if (size != std::string_view::npos && (size > 0 || operation == "/#" || operation == "/%")) {
        result += replacement;
        at += size;
        done = operation != "//";
        if (size > 0) {
          continue;
        }
      }
      if (at < text.size()) {
        result += text[at];
      }
      ++at;
    }
    value = std::move(result);
  }
  return {};
}

Status ShellRun::SetElement(Variable& variable, const std::string& index, std::string value,
                            bool appends) {
  std::string key;
  if (index.empty()) {
    key = variable.elements.empty()
              ? "0"
              : std::to_string(base::ParseInt(variable.elements.back().first).value_or(0) + 1);
  } else if (variable.has_keys) {
    MSP_ASSIGN_OR_RETURN(key, OperandText(index));
  } else {
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(index));
    if (!number) {
      // Whichever it is: none of them is known any more.
      variable.elements = {{"0", UnknownText("$" + index, ShellUnknown::Kind::kOther)}};
      return {};
    }
    key = std::to_string(*number);
  }
  if (!index.empty()) {
    MSP_RETURN_IF_ERROR(CountBytes(variable.elements.size()));
    for (auto& [known, old] : variable.elements) {
      if (known == key) {
        old = appends ? old + value : std::move(value);
        return {};
      }
    }
  }
  if (index.empty() || variable.has_keys) {
    variable.elements.emplace_back(key, std::move(value));
    return {};
  }
  // In the order of the indices.
  const auto place =
      std::upper_bound(variable.elements.begin(), variable.elements.end(),
                       base::ParseInt(key).value_or(0), [](int64_t number, const auto& element) {
                         return number < base::ParseInt(element.first).value_or(0);
                       });
  variable.elements.emplace(place, key, std::move(value));
  return {};
}

Status ShellRun::Assign(const ShellAssignment& assignment) {
  const int line = assignment.words.empty() ? 0 : assignment.words.front().line;
  if (assignment.is_array) {
    // Values first: they may be made of the array itself.
    std::vector<std::pair<std::string, std::vector<ShellField>>> values;
    for (size_t i = 0; i < assignment.words.size(); ++i) {
      const std::string& index = assignment.indices[i];
      auto& [key, fields] = values.emplace_back(index, std::vector<ShellField>());
      if (index.empty()) {
        MSP_ASSIGN_OR_RETURN(fields, Expand({assignment.words[i]}));
      } else {
        MSP_ASSIGN_OR_RETURN(std::string text, Text(assignment.words[i]));
        fields.push_back({std::move(text), false, false, line});
      }
    }
    Variable& variable = Own(assignment.name);
    if (!variable.is_array && assignment.appends && variable.is_set) {
      variable.elements = {{"0", variable.text}};
    } else if (!assignment.appends) {
      variable.elements.clear();
    }
    variable.is_array = true;
    variable.is_set = true;
    variable.line = line;
    for (auto& [key, fields] : values) {
      for (ShellField& field : fields) {
        MSP_RETURN_IF_ERROR(SetElement(variable, key, std::move(field.text), false));
      }
    }
    return {};
  }
  MSP_ASSIGN_OR_RETURN(std::string value, Text(assignment.words.at(0)));
  if (!assignment.index.empty()) {
    Variable& variable = Own(assignment.name);
    if (!variable.is_array) {
      variable.is_array = true;
      if (variable.is_set) {
        variable.elements = {{"0", variable.text}};
      }
    }
    variable.is_set = true;
    return SetElement(variable, assignment.index, std::move(value), assignment.appends);
  }
  const auto known = variables_.find(assignment.name);
  const bool is_integer = known != variables_.end() && known->second->is_integer;
  if (is_integer) {
    MSP_ASSIGN_OR_RETURN(const std::optional<int64_t> number, Arithmetic(value));
    value = number ? std::to_string(*number)
                   : UnknownText("$" + assignment.name, ShellUnknown::Kind::kOther);
  }
  if (assignment.appends) {
    MSP_ASSIGN_OR_RETURN(const Reference before,
                         LookUp(assignment.name, {}, "$" + assignment.name));
    const std::string old = before.values.empty() ? std::string() : before.values[0];
    if (is_integer) {
      const std::optional<int64_t> a = base::ParseInt(old.empty() ? "0" : old);
      const std::optional<int64_t> b = base::ParseInt(value);
      value = a && b ? std::to_string(static_cast<int64_t>(static_cast<uint64_t>(*a) +
                                                           static_cast<uint64_t>(*b)))
                     : UnknownText("$" + assignment.name, ShellUnknown::Kind::kOther);
    } else {
      MSP_RETURN_IF_ERROR(CountBytes(old.size()));
      value = old + value;
    }
  }
  SetText(assignment.name, std::move(value), line);
  return {};
}

}  // namespace msprobe::analysis::config_check::internal
