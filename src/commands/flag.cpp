#include "src/commands/flag.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <span>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "src/base/output_files.h"
#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

// The conditions on a value, and the name of its place in messages.
struct Rule {
  std::string_view name;
  const std::vector<std::string>& values;
  Bounds bounds;
  bool is_folder = false;  // whether or not it is there
};

// "a whole number from 0 to 64"
std::string NumberText(bool is_whole, const Bounds& bounds) {
  const std::string number = is_whole ? "a whole number" : "a number";
  if (!std::isinf(bounds.most)) {
    return fmt::format("{} from {:.17g} to {:.17g}", number, bounds.least, bounds.most);
  }
  return std::isinf(bounds.least) ? number
                                  : fmt::format("{} of at least {:.17g}", number, bounds.least);
}

template <typename Number>
Status ReadNumber(const Rule& rule, std::string_view text, Number& number) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr bool whole = std::is_integral_v<Number>;
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !(static_cast<double>(value) >= rule.bounds.least) ||
      !(static_cast<double>(value) <= rule.bounds.most)) {
    return UsageError(fmt::format("{} takes {}, not \"{}\"", rule.name,
                                  NumberText(whole, rule.bounds), base::Printable(text)));
  }
  number = value;
  return {};
}

Status CheckValue(const Rule& rule, const std::string& text) {
  if (rule.values.empty() ||
      std::find(rule.values.begin(), rule.values.end(), text) != rule.values.end()) {
    return {};
  }
  Status error = UsageError(
      fmt::format("{} takes {}, not \"{}\"", rule.name, AnyOf(rule.values), base::Printable(text)));
  if (const auto nearest = base::NearestMatch(text, rule.values)) {
    error.WithHint(fmt::format("did you mean {}?", *nearest));
  }
  return error;
}

// One value into a variable that holds one.
Status Read(const Rule& rule, const std::string& text, bool& value) {
  constexpr std::array<std::string_view, 5> kYes = {"true", "1", "yes", "on", "y"};
  constexpr std::array<std::string_view, 5> kNo = {"false", "0", "no", "off", "n"};
  const std::string word = base::AsciiLower(text);
  const bool yes = std::find(kYes.begin(), kYes.end(), word) != kYes.end();
  if (!yes && std::find(kNo.begin(), kNo.end(), word) == kNo.end()) {
    return UsageError(
        fmt::format("{} takes true or false, not \"{}\"", rule.name, base::Printable(text)));
  }
  value = yes;
  return {};
}
template <typename Number>
requires std::is_arithmetic_v<Number> Status Read(const Rule& rule, const std::string& text,
                                                  Number& value) {
  return ReadNumber(rule, text, value);
}
template <typename Number>
Status Read(const Rule& rule, const std::string& text, std::optional<Number>& value) {
  return ReadNumber(rule, text, value.emplace());
}
Status Read(const Rule& rule, const std::string& text, std::string& value) {
  MSP_RETURN_IF_ERROR(CheckValue(rule, text));
  value = text;
  return {};
}
Status Read(const Rule& rule, const std::string& text, std::filesystem::path& value) {
  MSP_RETURN_IF_ERROR(CheckValue(rule, text));
  value = text;
  // Names are put behind folders (base/output_files.h). Behind the name of a file a slash is a
  // mistake, which whoever opens it reports.
  std::error_code ignored;
  if (!value.has_filename() && (rule.is_folder || std::filesystem::is_directory(value, ignored))) {
    value = base::WithoutLastSlash(std::move(value));
  }
  return {};
}

template <typename Value>
Status Fill(const Rule& rule, const std::vector<std::string>& texts, Value& variable) {
  return texts.empty() ? OkStatus() : Read(rule, texts.back(), variable);
}
template <typename Value>
Status Fill(const Rule& rule, const std::vector<std::string>& texts, std::vector<Value>& variable) {
  variable.clear();
  for (const std::string& text : texts) {
    MSP_RETURN_IF_ERROR(Read(rule, text, variable.emplace_back()));
  }
  return {};
}

template <typename Variable>
Status FillTarget(const Rule& rule, const std::vector<std::string>& texts, Variable* variable) {
  return Fill(rule, texts, *variable);
}
Status FillTarget(const Rule& rule, const std::vector<std::string>& texts, const Chosen& target) {
  std::string word;
  MSP_RETURN_IF_ERROR(Fill(rule, texts, word));
  const auto place = std::find(rule.values.begin(), rule.values.end(), word);
  if (place != rule.values.end()) {
    target.choose(static_cast<size_t>(place - rule.values.begin()));
  }
  return {};
}
Status FillTarget(const Rule& rule, const std::vector<std::string>& texts,
                  const std::vector<bool*>& variables) {
  std::vector<std::string> words;
  MSP_RETURN_IF_ERROR(Fill(rule, texts, words));
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i] != nullptr) {
      *variables[i] = base::IsOneOf(rule.values[i], words);
    }
  }
  return {};
}

template <typename Number>
requires std::is_arithmetic_v<Number> std::string Shown(Number value) {
  return fmt::format("{}", value);
}
std::string Shown(const std::string& value) { return value; }
std::string Shown(const std::filesystem::path& value) { return value.string(); }
template <typename Value>
std::string Shown(const std::optional<Value>& value) {
  return value.has_value() ? Shown(*value) : std::string();
}
template <typename Value>
std::string Shown(const std::vector<Value>& values) {
  std::vector<std::string> texts;
  for (const Value& value : values) {
    texts.push_back(Shown(value));
  }
  return base::Join(texts, ",");
}

struct ShowDefault {
  const Flag& flag;
  std::string operator()(bool* variable) const { return *variable ? "true" : "false"; }
  std::string operator()(const Chosen& target) const { return flag.values[target.chosen()]; }
  std::string operator()(const std::vector<bool*>&) const { return {}; }
  template <typename Value>
  std::string operator()(Value* variable) const {
    return Shown(*variable);
  }
};

}  // namespace

Flag NewRow(std::string_view names, std::string_view value, Target fills, std::string help) {
  Flag flag;
  for (const std::string_view name : base::Split(names, ' ')) {
    if (flag.name.empty()) {
      flag.name = name;
    } else if (name.size() == 2 && flag.letter.empty()) {
      flag.letter = name;
    } else {
      flag.aliases.emplace_back(name);
    }
  }
  flag.type = value;
  flag.fills = std::move(fills);
  flag.help = std::move(help);
  return flag;
}

bool Flag::takes_paths() const {
  constexpr std::array<std::string_view, 3> kPathTypes = {"FILE", "DIR", "PATH"};
  return base::IsOneOf(type, kPathTypes) || std::holds_alternative<std::filesystem::path*>(fills) ||
         std::holds_alternative<std::vector<std::filesystem::path>*>(fills);
}

std::vector<Flag> RowsOf(const FlagTable& table) {
  std::vector<Flag> flags;
  Group heading = Group::kMethod;
  for (const auto& row : table) {
    if (const Group* const group = std::get_if<Group>(&row)) {
      heading = *group;
      continue;
    }
    const Flag* const one = std::get_if<Flag>(&row);
    for (const Flag& flag :
         one != nullptr ? std::span(one, 1) : std::span(std::get<std::vector<Flag>>(row))) {
      flags.push_back(flag);
      flags.back().group = flag.group == Group::kMethod ? heading : flag.group;
    }
  }
  // Commands that judge can be asked for nothing else than their verdict.
  const auto has = [&](std::string_view name) {
    return std::find_if(flags.begin(), flags.end(),
                        [&](const Flag& flag) { return flag.name == name; });
  };
  if (const auto output = has("--output");
      output != flags.end() && has("--fail-on") != flags.end()) {
    output->help += fmt::format("; {} writes no files", kNoFiles);
  }
  std::stable_sort(flags.begin(), flags.end(),
                   [](const Flag& a, const Flag& b) { return a.group < b.group; });
  return flags;
}

std::string_view GroupTitle(Group group) {
  constexpr std::array<std::string_view, 7> kTitles = {
      "Input",  "Selection", "Method", "Output", "CI", "With -tp and -gp (the 26.x command line)",
      "General"};
  return kTitles[static_cast<size_t>(group)];
}

Status FillFlag(const Flag& flag, std::string_view name, std::vector<std::string> texts) {
  if (flag.separator != 0) {
    std::vector<std::string> parts;
    for (const std::string& text : texts) {
      for (const std::string_view part : base::Split(text, flag.separator)) {
        parts.emplace_back(part);
      }
    }
    texts = std::move(parts);
  }
  if (const auto* truth = std::get_if<bool*>(&flag.fills); truth != nullptr && *truth == nullptr) {
    return {};
  }
  const Rule rule{name, flag.values, flag.bounds, flag.type == "DIR"};
  return std::visit([&](const auto& target) { return FillTarget(rule, texts, target); },
                    flag.fills);
}

Status FillPositional(const Positional& positional, const std::vector<std::string>& texts) {
  const Rule rule{positional.name, positional.values, {}};
  return std::visit([&](const auto& target) { return FillTarget(rule, texts, target); },
                    positional.fills);
}

Status MissingArgument(std::string_view title, std::string_view name) {
  return UsageError(fmt::format("{} needs {}", title, name));
}

Status FillEither(std::string_view title, const Positional& positional,
                  const std::vector<std::string>& texts) {
  std::filesystem::path argument;
  MSP_RETURN_IF_ERROR(Fill(Rule{positional.name, positional.values, {}}, texts, argument));
  std::filesystem::path& path = *std::get<std::filesystem::path*>(positional.fills);
  if (argument.empty() && path.empty()) {
    return positional.or_neither
               ? OkStatus()
               : MissingArgument(title, positional.name)
                     .WithHint(fmt::format("{} {}, or {} {}", title, positional.name,
                                           positional.or_flag, positional.name));
  }
  if (!argument.empty() && !path.empty()) {
    return UsageError(fmt::format("give {} or {}, not both: {} and {}", positional.name,
                                  positional.or_flag, argument.string(), path.string()));
  }
  if (!argument.empty()) {
    path = std::move(argument);
  }
  return {};
}

std::string DefaultText(const Flag& flag) {
  if (!flag.default_text.empty() || flag.is_switch() || flag.required) {
    return flag.default_text;
  }
  return std::visit(ShowDefault{flag}, flag.fills);
}

std::string AnyOf(const std::vector<std::string>& values) {
  if (values.size() < 2) {
    return values.empty() ? std::string() : values.front();
  }
  return base::Join(std::span(values).first(values.size() - 1), ", ") + " or " + values.back();
}

std::string WithDashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::vector<std::string> Spellings(const Flag& flag) {
  std::vector<std::string> all;
  const auto add = [&all](std::string text) {
    if (!text.empty() && std::find(all.begin(), all.end(), text) == all.end()) {
      all.push_back(std::move(text));
    }
  };
  const auto add_both = [&add](std::string_view name) {
    add(std::string(name));
    if (name.starts_with("--")) {
      add(WithDashes(name));
      std::string underscores(name.substr(2));
      std::replace(underscores.begin(), underscores.end(), '-', '_');
      add("--" + underscores);
    }
  };
  add(std::string(flag.letter));
  add_both(flag.name);
  for (const std::string& alias : flag.aliases) {
    add_both(alias);
  }
  return all;
}

Flag ThreadsFlag(uint64_t& threads) {
  return Number("--threads", "N", &threads, "Number of threads; results do not depend on it",
                Between(1, 4096), Default{"all cores"}, FromProject{"threads"}, Group::kGeneral);
}

Flag OutputFolderFlag(std::filesystem::path& folder, std::string help,
                      std::vector<std::string> aliases) {
  Flag flag = Path("--output -o", "DIR", &folder, std::move(help), kOneOrNone, kPython811,
                   FromProject{"output"}, Group::kOutput);
  flag.aliases = std::move(aliases);
  return flag;
}

Flag ResultsFlag(std::filesystem::path& folder, std::string help, std::string default_text,
                 Since since) {
  return Path("--output -o -out --output_path", "DIR", &folder, std::move(help),
              Default{std::move(default_text)}, since, Group::kOutput);
}

Status PrepareResults(std::filesystem::path& folder, std::string_view otherwise) {
  if (folder.empty()) {
    folder = otherwise;
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(folder));
  return base::CheckWritable(folder);
}

Flag ForceFlag() {
  return Switch("--force", nullptr, "Replace existing result files; without it the command fails",
                Group::kOutput);
}

namespace {

constexpr const char* kFormatsHelp = "Comma-separated list of result files to write";

}  // namespace

Flag FormatsFlag(Meanings<bool*> formats, std::string default_text) {
  return Choices("--format", "LIST", std::move(formats), kFormatsHelp,
                 Default{std::move(default_text)}, FromProject{"formats"}, Group::kOutput);
}

Flag FormatsFlag(std::vector<std::string>& formats, std::vector<std::string> known,
                 std::string default_text) {
  return Choice("--format", "LIST", &formats, std::move(known), kFormatsHelp, kSeparatedByCommas,
                Default{std::move(default_text)}, FromProject{"formats"}, Group::kOutput);
}

}  // namespace msprobe::commands
