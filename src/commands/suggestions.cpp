#include "src/commands/suggestions.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/config_check/check.h"
#include "src/analysis/monitor/common/monitored_run.h"
#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/base/secrets.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"

namespace msprobe::commands {

std::string ShellWord(std::string_view word) {
  constexpr std::string_view kSpecial = " \t\n'\"\\$`&|;<>()*?[]{}~#!";
  const std::string unmasked = base::ReplaceAll(word, base::kMaskedText, "");
  return !word.empty() && unmasked.find_first_of(kSpecial) == std::string::npos
             ? std::string(word)
             : "'" + base::ReplaceAll(word, "'", "'\\''") + "'";
}

namespace {

namespace fs = std::filesystem;

struct Synonyms {
  std::string_view meant;  // names that are typed behind the program's, several with " or "
  std::string_view words;
};

// Words of other tools, of the Python tools' modules and of everyday speech. Names of subcommands
// of another group are found without a line here.
constexpr std::array kCommandSynonyms = std::to_array<Synonyms>({
    {"compare or monitor diff", "cmp compare diff"},
    {"compare", "comparison acc_compare"},
    {"nan_analyze or monitor analyse", "analyze analyse analysis"},
    {"nan_analyze", "nan nan_check overflow"},
    {"monitor analyse", "anomaly alerts"},
    {"ckpt_compare", "ckpt checkpoint"},
    {"config_check", "env check"},
    {"merge_result", "merge"},
    {"perf_compare", "perf profile prof performance_compare"},
    {"rl_compare", "rl"},
    {"devices", "gpu npu device"},
    {"show", "info inspect cat ls list parse"},
    {"dump", "capture record"},
    {"dump recover", "recover"},
    {"dump ctl", "on off enable disable switch control"},
    {"monitor top", "watch"},
    {"monitor run", "train launch"},
    {"monitor report", "report html dashboard"},
    {"monitor csv2tb", "tensorboard"},
    {"monitor csv2db", "sqlite"},
    {"help", "man"},
    {"completion", "complete"},
});

constexpr std::array kFlagSynonyms = std::to_array<Synonyms>({
    {"--output", "--out --dir --output-folder --outdir --save"},
    {"--force", "--overwrite --replace --yes"},
    {"--quiet", "--silent"},
    {"--verbose", "--debug --log-level"},
    {"--threads", "--jobs --workers --parallel --process-num"},
    {"--rtol", "--tolerance --eps --relative"},
    {"--atol", "--absolute"},
    {"--format", "--type --csv --html --excel"},
    {"--fail-on", "--exit-code --gate --error-on"},
    {"--color", "--colour"},
    {"--width", "--columns"},
    {"--filter", "--include --grep"},
    {"--top", "--max --count"},
    {"--input-path", "--input"},
    {"--rank", "--ranks"},
    {"--step", "--steps"},
});

std::string LastWord(const std::string& words) { return words.substr(words.rfind(' ') + 1); }

std::string DidYouMean(const std::string& meant) { return fmt::format("did you mean {}?", meant); }

// Empty: nothing is known.
std::string_view Meant(std::span<const Synonyms> table, std::string_view word) {
  for (const Synonyms& synonyms : table) {
    if (base::IsOneOf(word, base::Split(synonyms.words, ' '))) {
      return synonyms.meant;
    }
  }
  return {};
}

constexpr size_t kHeadBytes = 4096;

bool AnyName(const fs::path& folder, bool (*fits)(std::string_view name)) {
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  return names.ok() && std::any_of(names->begin(), names->end(), fits);
}

bool HeadHas(const fs::path& file, std::string_view word) {
  const Result<base::FileBytes> bytes = base::FileBytes::Open(file);
  return bytes.ok() && bytes->text().substr(0, kHeadBytes).find(word) != std::string_view::npos;
}

bool IsProfileName(std::string_view name) {
  return name.ends_with(".pt.trace.json") || name.ends_with(".pt.trace.json.gz") ||
         name.ends_with("_ascend_pt") || name.ends_with("_ascend_ms") ||
         name == "ASCEND_PROFILER_OUTPUT" || name == "trace_view.json";
}

bool IsCheckpointName(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNames = {".metadata", "latest",
                                                      "latest_checkpointed_iteration.txt"};
  return base::IsOneOf(name, kNames) || name.ends_with(".safetensors") ||
         name.ends_with("_model_states.pt") || name.starts_with("mp_rank_") ||
         name.starts_with("global_step") ||
         (name.starts_with("pytorch_model") && name.ends_with(".bin"));
}

bool IsDump(const fs::path& path) {
  return base::IsFolder(path) ? dump::FindDump(path).ok()
                              : path.extension() == ".json" && HeadHas(path, "\"dump_data_dir\"");
}

bool IsProfile(const fs::path& path) {
  if (base::IsFolder(path)) {
    return IsProfileName(fs::absolute(path).filename().string()) || AnyName(path, IsProfileName);
  }
  return IsProfileName(path.filename().string()) ||
         (path.extension() == ".json" &&
          (HeadHas(path, "\"traceEvents\"") || HeadHas(path, "\"ph\"")));
}

bool IsMonitoredRun(const fs::path& path) {
  return base::IsFolder(path) && analysis::monitor::FindRankFolders(path).ok();
}

bool IsGradProbe(const fs::path& path) {
  const auto has_table = [](const fs::path& folder) {
    return AnyName(folder, [](std::string_view name) {
      return name.starts_with("grad_summary_") && name.ends_with(".csv");
    });
  };
  return base::IsFolder(path) && (has_table(path) || has_table(path / "rank0"));
}

bool IsLaunchScript(const fs::path& path) {
  return path.extension() == ".sh" && !base::IsFolder(path);
}

bool IsGraph(const fs::path& path) {
  const std::string name = path.filename().string();
  return (name.ends_with(".vis") || name.ends_with(".vis.db")) && !base::IsFolder(path);
}

bool IsCheckpoint(const fs::path& path) {
  return base::IsFolder(path) ? AnyName(path, IsCheckpointName) : TensorFile::Open(path).ok();
}

struct InputKind {
  std::string_view what;
  bool (*is_it)(const fs::path& path);
  // That take it, for people. The word for it and REFERENCE stand for the paths that were given.
  std::string_view word;
  std::string_view commands;
  std::string_view takers;  // all of them; a word with a "*" is the beginning of several
};

// The first that fits counts. A path is recognised by its names and its first bytes: this is asked
// when a command has failed, and a wrong answer is a hint too many.
constexpr std::array kInputKinds = std::to_array<InputKind>({
    {"a dump", IsDump, "DUMP",
     "msprobe compare DUMP REFERENCE compares two; msprobe graph, nan_analyze, recheck and show "
     "look at one",
     "acc_check compare dump* graph graph_visualize isolate merge_result multi_acc_check "
     "multi_run_ut nan_analyze op_generate overflow_check parse recheck repro run_overflow_check "
     "run_ut show"},
    {"a profile", IsProfile, "PROFILE", "msprobe perf_compare PROFILE REFERENCE compares two",
     "perf_compare"},
    {"a monitored run", IsMonitoredRun, "RUN",
     "msprobe monitor report RUN shows one; msprobe monitor diff RUN REFERENCE compares two",
     "data2db monitor*"},
    {"the folder of a grad_probe run", IsGradProbe, "RUN",
     "msprobe grad_compare RUN REFERENCE compares two", "grad_compare"},
    {"a pack of config_check", analysis::config_check::LooksLikePack, "PACK",
     "msprobe config_check PACK REFERENCE compares two", "config_check"},
    {"a launch script", IsLaunchScript, "SCRIPT",
     "msprobe config_check SCRIPT REFERENCE compares two; msprobe config_check -d SCRIPT -o "
     "pack.zip collects what one runs with",
     "config_check"},
    {"a graph", IsGraph, "GRAPH", "msprobe serve FOLDER shows the graphs of a folder to a browser",
     "graph graph_visualize serve"},
    {"a checkpoint or tensor file", IsCheckpoint, "CKPT",
     "msprobe ckpt_compare CKPT REFERENCE compares two; msprobe show lists the tensors of one",
     "ckpt_compare code_mapping msaccucmp* parse show"},
});

bool Takes(std::string_view takers, std::string_view title) {
  for (const std::string_view taker : base::Split(takers, ' ')) {
    if (taker == title ||
        (taker.ends_with('*') && title.starts_with(taker.substr(0, taker.size() - 1)))) {
      return true;
    }
  }
  return false;
}

void AddPaths(const Target& filled, std::vector<fs::path>& paths) {
  if (const auto* const one = std::get_if<fs::path*>(&filled); one != nullptr) {
    paths.push_back(**one);
  } else if (const auto* const some = std::get_if<std::vector<fs::path>*>(&filled);
             some != nullptr) {
    paths.insert(paths.end(), (*some)->begin(), (*some)->end());
  } else if (const auto* const text = std::get_if<std::string*>(&filled); text != nullptr) {
    paths.emplace_back(**text);
  }
}

// The commands of a kind with the paths that were given in place of the words, to be copied.
std::string CommandsFor(const InputKind& kind, const std::vector<fs::path>& same_kind) {
  std::string text;
  for (const std::string_view word : base::Split(kind.commands, ' ')) {
    const size_t place = word == "REFERENCE" ? 1 : 0;
    const bool is_path = (place == 1 || word == kind.word) && place < same_kind.size();
    text += text.empty() ? "" : " ";
    text += is_path ? base::Printable(ShellWord(same_kind[place].string())) : std::string(word);
  }
  return text;
}

}  // namespace

std::vector<fs::path> GivenInputs(Command& command) {
  std::vector<fs::path> given;
  for (const Positional& positional : command.positionals()) {
    // Texts are names of something in a file.
    if (!positional.takes_rest && !std::holds_alternative<std::string*>(positional.fills)) {
      AddPaths(positional.fills, given);
    }
  }
  for (const Flag& flag : RowsOf(command.flags())) {
    if (flag.group == Group::kInput && !flag.hidden && flag.takes_paths()) {
      AddPaths(flag.fills, given);
    }
  }
  return given;
}

namespace {

bool IsMissing(const fs::path& path) {
  std::error_code failure;
  return fs::status(path, failure).type() == fs::file_type::not_found;
}

}  // namespace

Status NameMissingInput(const CommandPath& path, Status failure) {
  if (failure.code() == StatusCode::kUsage) {
    return failure;
  }
  for (const fs::path& input : GivenInputs(*path.back())) {
    const std::string name = input.string();
    if (name.empty() || name == "-" || !IsMissing(input)) {
      continue;
    }
    Status missing = NotFoundError(fmt::format("{} does not exist", base::Printable(name)));
    const fs::path folder = input.has_parent_path() ? input.parent_path() : ".";
    if (const auto nearest = base::NearestMatch(input.filename().string(), base::NamesIn(folder))) {
      missing.WithHint(DidYouMean(base::Printable(
          (input.has_parent_path() ? folder / *nearest : fs::path(*nearest)).string())));
    }
    return missing;
  }
  return failure;
}

std::string SuggestForInput(const CommandPath& path, std::string_view message) {
  const std::vector<fs::path> given = GivenInputs(*path.back());
  const std::string title = NameBelowProgram(path);
  for (const fs::path& input : given) {
    if (input.empty() || message.find(input.string()) == std::string_view::npos ||
        !base::Exists(input)) {
      continue;
    }
    const auto* const kind =
        std::find_if(kInputKinds.begin(), kInputKinds.end(),
                     [&](const InputKind& known) { return known.is_it(input); });
    if (kind != kInputKinds.end() && !Takes(kind->takers, title)) {
      std::vector<fs::path> same_kind;
      std::copy_if(given.begin(), given.end(), std::back_inserter(same_kind),
                   [&](const fs::path& other) {
                     return !other.empty() && base::Exists(other) && kind->is_it(other);
                   });
      return fmt::format("{} is {}: {}", base::Printable(input.string()), kind->what,
                         CommandsFor(*kind, same_kind));
    }
  }
  return {};
}

std::string SuggestCommand(std::string_view word, const CommandPath& path) {
  std::string typed = base::AsciiLower(word);
  std::replace(typed.begin(), typed.end(), '-', '_');
  const std::vector<std::string> here = SubcommandNames(*path.back());
  const auto exact = std::find(here.begin(), here.end(), typed);
  std::vector<std::string> everywhere;
  ForEachCommand({path.front()}, [&](const CommandPath& known) {
    if (known.size() > 1) {
      everywhere.push_back(NameBelowProgram(known));
    }
  });
  if (exact != here.end()) {  // "Compare", "nan-analyze"
    return DidYouMean(*exact);
  }
  // Meant among the commands of this group, when a synonym names one of them.
  const std::string_view synonyms = Meant(kCommandSynonyms, typed);
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
  return path.size() > 1 ? fmt::format("{} has: {}", TitleOf(path), base::Join(here, ", "))
                         : "msprobe help which tells which command answers which question";
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
  const std::string_view synonym = Meant(kFlagSynonyms, typed);
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
