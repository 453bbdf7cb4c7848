#include "src/commands/suggestions.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "src/base/strings.h"

namespace msprobe::commands {
namespace {

struct Synonym {
  std::string_view word;
  std::string_view meant;  // names that are typed behind the program's, several with " or "
};

// Words of other tools, of the Python tools' modules and of everyday speech. Names of subcommands
// of another group are found without a line here.
constexpr std::array kCommandSynonyms = std::to_array<Synonym>({
    {"cmp", "compare or monitor diff"},
    {"compare", "compare or monitor diff"},
    {"diff", "compare or monitor diff"},
    {"comparison", "compare"},
    {"acc_compare", "compare"},
    {"analyze", "nan_analyze or monitor analyse"},
    {"analyse", "nan_analyze or monitor analyse"},
    {"analysis", "nan_analyze or monitor analyse"},
    {"nan", "nan_analyze"},
    {"nan_check", "nan_analyze"},
    {"overflow", "nan_analyze"},
    {"anomaly", "monitor analyse"},
    {"alerts", "monitor analyse"},
    {"ckpt", "ckpt_compare"},
    {"checkpoint", "ckpt_compare"},
    {"env", "config_check"},
    {"check", "config_check"},
    {"merge", "merge_result"},
    {"perf", "perf_compare"},
    {"profile", "perf_compare"},
    {"prof", "perf_compare"},
    {"performance_compare", "perf_compare"},
    {"rl", "rl_compare"},
    {"gpu", "devices"},
    {"npu", "devices"},
    {"device", "devices"},
    {"info", "show"},
    {"inspect", "show"},
    {"cat", "show"},
    {"ls", "show"},
    {"list", "show"},
    {"parse", "show"},
    {"capture", "dump"},
    {"record", "dump"},
    {"recover", "dump recover"},
    {"on", "dump ctl"},
    {"off", "dump ctl"},
    {"enable", "dump ctl"},
    {"disable", "dump ctl"},
    {"switch", "dump ctl"},
    {"control", "dump ctl"},
    {"watch", "monitor top"},
    {"train", "monitor run"},
    {"launch", "monitor run"},
    {"report", "monitor report"},
    {"html", "monitor report"},
    {"dashboard", "monitor report"},
    {"tensorboard", "monitor csv2tb"},
    {"sqlite", "monitor csv2db"},
    {"man", "help"},
    {"complete", "completion"},
});

constexpr std::array kFlagSynonyms = std::to_array<Synonym>({
    {"--out", "--output"},      {"--dir", "--output"},        {"--output-folder", "--output"},
    {"--outdir", "--output"},   {"--save", "--output"},       {"--overwrite", "--force"},
    {"--replace", "--force"},   {"--yes", "--force"},         {"--silent", "--quiet"},
    {"--debug", "--verbose"},   {"--log-level", "--verbose"}, {"--jobs", "--threads"},
    {"--workers", "--threads"}, {"--parallel", "--threads"},  {"--process-num", "--threads"},
    {"--tolerance", "--rtol"},  {"--eps", "--rtol"},          {"--relative", "--rtol"},
    {"--absolute", "--atol"},   {"--type", "--format"},       {"--csv", "--format"},
    {"--html", "--format"},     {"--excel", "--format"},      {"--exit-code", "--fail-on"},
    {"--gate", "--fail-on"},    {"--error-on", "--fail-on"},  {"--colour", "--color"},
    {"--columns", "--width"},   {"--include", "--filter"},    {"--grep", "--filter"},
    {"--max", "--top"},         {"--count", "--top"},         {"--input", "--input-path"},
    {"--ranks", "--rank"},      {"--steps", "--step"},
});

// All that can be typed behind the program's name, as words.
void AddCommands(const Command& command, const std::string& before,
                 std::vector<std::string>& commands) {
  for (const Command* const below : command.subcommands()) {
    commands.push_back(before + std::string(below->name()));
    AddCommands(*below, commands.back() + " ", commands);
  }
}

std::string LastWord(const std::string& words) { return words.substr(words.rfind(' ') + 1); }

std::vector<std::string> NamesBelow(const Command& command) {
  std::vector<std::string> names;
  for (const Command* const below : command.subcommands()) {
    names.emplace_back(below->name());
  }
  return names;
}

std::string DidYouMean(const std::string& meant) { return fmt::format("did you mean {}?", meant); }

template <size_t kCount>
std::optional<std::string_view> Meant(const std::array<Synonym, kCount>& synonyms,
                                      std::string_view word) {
  const auto found = std::find_if(synonyms.begin(), synonyms.end(),
                                  [&](const Synonym& synonym) { return synonym.word == word; });
  return found == synonyms.end() ? std::nullopt : std::optional(found->meant);
}

}  // namespace

std::string SuggestCommand(std::string_view word, const CommandPath& path) {
  std::string typed = base::AsciiLower(word);
  std::replace(typed.begin(), typed.end(), '-', '_');
  const std::vector<std::string> here = NamesBelow(*path.back());
  const auto exact = std::find(here.begin(), here.end(), typed);
  std::vector<std::string> everywhere;
  AddCommands(*path.front(), "", everywhere);
  if (exact != here.end()) {  // "Compare", "nan-analyze"
    return DidYouMean(*exact);
  }
  // Meant among the commands of this group, when a synonym names one of them.
  const std::string_view synonyms = Meant(kCommandSynonyms, typed).value_or("");
  const std::string group =
      path.size() > 1 ? std::string(path.back()->name()) + " " : std::string();
  for (const std::string& name : here) {
    if (path.size() > 1 &&
        (" " + std::string(synonyms) + " ").find(" " + group + name + " ") != std::string::npos) {
      return DidYouMean(group + name);
    }
  }
  if (!synonyms.empty()) {
    return DidYouMean(std::string(synonyms));
  }
  if (const auto nearest = base::NearestMatch(typed, here)) {
    return DidYouMean(group + *nearest);
  }
  for (const std::string& command : everywhere) {
    if (LastWord(command) == typed) {
      return DidYouMean(command);
    }
  }
  for (const std::string& command : everywhere) {
    if (LastWord(command).starts_with(typed) && typed.size() > 2) {
      return DidYouMean(command);
    }
  }
  std::vector<std::string> last_words;
  std::transform(everywhere.begin(), everywhere.end(), std::back_inserter(last_words), LastWord);
  if (const auto nearest = base::NearestMatch(typed, last_words)) {
    const auto place = std::find(last_words.begin(), last_words.end(), *nearest);
    return DidYouMean(everywhere[static_cast<size_t>(place - last_words.begin())]);
  }
  return fmt::format("{} has: {}", TitleOf(path), base::Join(here, ", "));
}

std::string SuggestFlag(std::string_view word, std::span<const Flag> flags) {
  const std::string typed = WithDashes(base::AsciiLower(word));
  std::vector<std::string> names;
  for (const Flag& flag : flags) {
    if (!flag.hidden) {
      names.emplace_back(flag.name);
    }
  }
  const auto has = [&names](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::string meant;
  const std::string_view synonym = Meant(kFlagSynonyms, typed).value_or("");
  if (has(typed)) {  // "--Threads"
    meant = typed;
  } else if (has(synonym)) {
    meant = synonym;
  } else if (!typed.starts_with("--") && typed.size() > 2 && has("-" + typed)) {  // "-threads"
    meant = "-" + typed;
  } else if (const auto nearest = base::NearestMatch(typed, names);
             nearest && typed.starts_with("--")) {
    meant = *nearest;
  } else {
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return typed.size() > 4 && name.starts_with(typed);
    });
    meant = longer == names.end() ? std::string() : *longer;
  }
  return meant.empty() ? std::string() : DidYouMean(meant);
}

}  // namespace msprobe::commands
