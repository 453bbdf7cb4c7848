#include "src/commands/dump_command.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/capture/free_benchmark_settings.h"
#include "src/capture/step_folder.h"
#include "src/capture/settings.h"
#include "src/commands/dump_launcher.h"
#include "src/commands/dump_summary.h"
#include "src/json/writer.h"
#include "src/online/endpoint.h"

namespace msprobe::resources {
extern const std::string_view
    kDumpExample;  // config/dump_example.json, see cmake/EmbedResources.cmake
}

namespace msprobe::commands {
namespace {

constexpr const char* kDumpNotes =
    R"(The exit code is that of the script; messages of msprobe go to stderr. A script can also control the capture itself:
from msprobe.pytorch import PrecisionDebugger.)";

constexpr std::string_view kFlags = "the flags";  // in errors about settings

capture::Framework FrameworkOf(const Context& context) {
  return context.framework == "mindspore" ? capture::Framework::kMindSpore
                                          : capture::Framework::kPyTorch;
}

// "all", or "0, 3 to 5".
std::string NumbersText(const std::vector<int64_t>& numbers) {
  if (numbers.empty()) {
    return "all";
  }
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    ranges.push_back(last == i ? fmt::format("{}", numbers[i])
                               : fmt::format("{} to {}", numbers[i], numbers[last]));
    i = last + 1;
  }
  return base::Join(ranges, ", ");
}

class Facts {
 public:
  void Add(std::string_view what, const std::string& text) {
    if (!text.empty()) {
      list_.items.push_back({std::string(what), text});
    }
  }
  // What a configuration means, which is right.
  report::Document Answer(const base::Path& file) && {
    report::Document document;
    document.command = "dump";
    document.verdict.word = "RIGHT";
    document.verdict.tone = report::Tone::kGood;
    document.verdict.text = fmt::format("{} is right:", file.string());
    document.sections.emplace_back().blocks.emplace_back(std::move(list_));
    return document;
  }

 private:
  report::List list_{report::ListKind::kFacts, {}};
};

report::Document DocumentOfSettings(const base::Path& file, const capture::Settings& settings) {
  Facts facts;
  facts.Add("task", std::string(capture::TaskName(settings.task)));
  facts.Add("level", std::string(capture::LevelName(settings.level)));
  facts.Add("steps", NumbersText(settings.steps));
  facts.Add("ranks", NumbersText(settings.ranks));
  facts.Add("scope", base::Join(settings.scope, " to "));
  facts.Add("list", base::Join(settings.list, ", "));
  facts.Add("repeats", settings.repeat == 0
                           ? std::string()
                           : fmt::format("every call {} times, for its noise", settings.repeat));
  facts.Add("saved", base::Join(settings.tensor_list, ", "));
  if (settings.dump_enable.has_value()) {
    facts.Add("dump_enable", *settings.dump_enable ? "true, msprobe dump ctl turns it off"
                                                   : "false until msprobe dump ctl turns it on");
  }
  if (settings.max_overhead_ms.has_value()) {
    facts.Add("overhead", fmt::format("max_overhead_ms: {} of a step", *settings.max_overhead_ms));
  }
  if (settings.max_bytes_per_s.has_value()) {
    facts.Add("bytes",
              fmt::format("max_bytes_per_s: {} in a second",
                          base::FormatBytes(static_cast<uint64_t>(*settings.max_bytes_per_s))));
  }
  if (settings.online) {
    facts.Add("sends to", settings.online->text());
  } else {
    facts.Add("writes to", (base::Path(settings.dump_path) / "step<N>" / "rank<M>").string());
  }
  report::Document document = std::move(facts).Answer(file);
  document.warnings = settings.warnings;
  return document;
}

report::Document DocumentOfFreeBenchmark(const base::Path& file,
                                         const capture::FreeBenchmarkSettings& settings) {
  Facts facts;
  facts.Add("task", "free_benchmark");
  facts.Add("second run", settings.pert_mode);
  facts.Add("stage", settings.fuzz_stage);
  facts.Add("handler", settings.handler_type);
  facts.Add("steps", NumbersText(settings.steps));
  facts.Add("ranks", NumbersText(settings.ranks));
  facts.Add("calls", !settings.scope.empty() ? base::Join(settings.scope, ", ")
                     : !settings.list.empty()
                         ? "with " + base::Join(settings.list, ", ") + " in their names"
                         : "all");
  facts.Add(
      "writes to",
      (base::Path(settings.dump_path) / "step<N>" / "rank<M>" / "free_benchmark.csv").string());
  return std::move(facts).Answer(file);
}

// Why there may be less than was asked for; empty where the script went well.
std::string HowItEnded(const ProgramEnd& end) {
  if (end.signal != 0) {
    return fmt::format("the script was ended by signal {} ({})", end.signal,
                       ::strsignal(end.signal));
  }
  return end.exit_code == 0
             ? std::string()
             : fmt::format("the script failed with exit code {}; see its messages above",
                           end.exit_code);
}

// Without a configuration or --output: a folder of its own for every run, next to the others.
std::string DefaultFolder(bool replaces) {
  constexpr std::string_view kName = "msprobe_dump";
  std::string folder(kName);
  std::error_code ignored;
  for (int number = 2; !replaces && std::filesystem::exists(folder, ignored); ++number) {
    folder = fmt::format("{}_{}", kName, number);
  }
  return folder;
}

// All names that a configuration may give a setting.
template <typename Choices>
std::vector<std::string> NamesOf(const Choices& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    names.emplace_back(choice.name);
  }
  return names;
}

}  // namespace

std::vector<Positional> DumpCommand::positionals() {
  return {{.name = "PROGRAM",
           .fills = &program_,
           .help = "The script to run and its arguments, after --",
           .takes_rest = true}};
}

std::vector<Flag> DumpCommand::flags() {
  std::vector<Flag> flags = {
      {.name = "--config",
       .letter = "-c",
       .type = "FILE",
       .fills = &config_file_,
       .group = Group::kInput,
       .help = "Configuration: what to capture, and where to write it"},
      {.name = "--check",
       .type = "FILE",
       .fills = &checked_file_,
       .group = Group::kInput,
       .help = "Check a configuration and explain it, without capturing"},
      {.name = "--example",
       .fills = &example_,
       .group = Group::kInput,
       .help = "Print a configuration in which every key is explained"},
      {.name = "--task",
       .type = "NAME",
       .fills = &task_,
       .values = NamesOf(capture::kTasks),
       .group = Group::kSelection,
       .help = "Overrides task in the config file"},
      {.name = "--level",
       .type = "NAME",
       .fills = &level_,
       .values = NamesOf(capture::kLevels),
       .group = Group::kSelection,
       .help = "Overrides level in the config file"},
      {.name = "--repeat",
       .type = "N",
       .fills = &repeat_,
       .bounds = {.least = 0, .most = 64},
       .group = Group::kMethod,
       .help = "Make every recorded call N times more, rounded by lot, and record how many of its "
               "digits are significant",
       .default_text = "that of the config file, or never"},
      {.name = "--output",
       .letter = "-o",
       .aliases = {"--dump_path"},
       .type = "DIR",
       .fills = &dump_path_,
       .group = Group::kOutput,
       .help = "Overrides dump_path in the config file",
       .default_text = "that of the config file, or ./msprobe_dump"},
      {.name = "--force",
       .fills = &replaces_,
       .group = Group::kOutput,
       .help =
           "Replace the dump of an earlier run; without it nothing is captured if there is one"},
  };
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> DumpCommand::examples() const {
  return {
      {"msprobe dump --example > config.json",
       "a configuration to start from, with every key explained"},
      {"msprobe dump --check config.json",
       "check a configuration, and show what would be captured"},
      {"msprobe -f pytorch dump -c config.json -- python3 train.py --epochs 1",
       "capture an unmodified script; steps are optimizer steps, or forward passes if there is no "
       "optimizer"},
      {"msprobe dump -c config.json -- torchrun --nproc-per-node 8 train.py",
       "the same for every process of a distributed run"},
      {"msprobe dump -- python3 train.py",
       "without a configuration: the dump goes to ./msprobe_dump"},
      {"msprobe dump --output dump --level mix -- python3 train.py",
       "flags override the configuration"},
      {"msprobe dump --repeat 5 -o dump -- python3 train.py",
       "with the noise floor of every call, which compare then uses"},
      {"msprobe dump recover dump", "make dump.json from the records of a killed run"},
      {"msprobe dump ctl on config.json", "capture from the next step on, in a program that runs"},
  };
}

std::string DumpCommand::notes() const { return kDumpNotes; }

std::string DumpCommand::OverridesJson() const {
  const std::initializer_list<std::pair<std::string_view, const std::string&>> flags = {
      {"task", task_}, {"level", level_}, {"dump_path", dump_path_}};
  std::string text;
  json::Writer writer(text, -1);
  writer.BeginObject();
  bool any = false;
  for (const auto& [key, value] : flags) {
    if (!value.empty()) {
      writer.Member(key, value);
      any = true;
    }
  }
  if (repeat_ != 0) {
    writer.Member("repeat", repeat_);
    any = true;
  }
  writer.EndObject();
  return any ? text : std::string();
}

Result<ExitCode> DumpCommand::Check(const Context& context) const {
  MSP_ASSIGN_OR_RETURN(const std::string task, capture::ConfiguredTask(checked_file_));
  if (task == "free_benchmark" && task_.empty()) {
    MSP_ASSIGN_OR_RETURN(const capture::FreeBenchmarkSettings settings,
                         capture::LoadFreeBenchmarkSettings(checked_file_, OverridesJson(),
                                                            FrameworkOf(context), kFlags));
    return GiveAnswer(DocumentOfFreeBenchmark(checked_file_, settings), answer_, context);
  }
  MSP_ASSIGN_OR_RETURN(
      const capture::Settings settings,
      capture::LoadSettings(checked_file_, OverridesJson(), FrameworkOf(context), kFlags));
  return GiveAnswer(DocumentOfSettings(checked_file_, settings), answer_, context);
}

Status DumpCommand::CheckOutput(const Context& context) const {
  const auto typed = context.typed.find("--output");
  if (typed == context.typed.end()) {
    return OkStatus();
  }
  if (dump_path_.empty()) {
    return UsageError(fmt::format("{} needs a folder name", typed->second));
  }
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(dump_path_).AddContext(typed->second));
  return capture::CheckPlace({dump_path_, 0, std::nullopt}).AddContext(typed->second);
}

namespace {

// A training must not run for hours to find at its first step that nothing can be captured.
Status CheckPlaceOf(const capture::Settings& settings, bool replaces) {
  MSP_RETURN_IF_ERROR(capture::CheckPlace({settings.dump_path, 0, std::nullopt}));
  MSP_RETURN_IF_ERROR(base::CheckOutputFolder(settings.dump_path));
  MSP_RETURN_IF_ERROR(base::CheckWritable(settings.dump_path));
  // Found out by doing it: a file system may refuse what its permissions allow.
  std::error_code error;
  std::vector<std::filesystem::path> made;  // innermost first
  for (std::filesystem::path folder = settings.dump_path;
       !folder.empty() && !std::filesystem::exists(folder, error); folder = folder.parent_path()) {
    made.push_back(folder);
  }
  std::filesystem::create_directories(settings.dump_path, error);
  if (error) {
    return IoError(fmt::format("cannot write to {}: {}", base::Printable(settings.dump_path),
                               error.message()));
  }
  // The capture makes them anew when it begins.
  for (const std::filesystem::path& folder : made) {
    if (!std::filesystem::remove(folder, error)) {
      base::LogWarning(fmt::format("{} was made to see whether it can be written, and stays: {}",
                                   base::Printable(folder.string()), error.message()));
      break;
    }
  }
  if (replaces || capture::ReplacesOtherRuns()) {
    return OkStatus();
  }
  const char* rank = std::getenv("RANK");
  return capture::CheckBeforeRun(settings.dump_path,
                                 rank == nullptr ? std::nullopt : base::ParseInt(rank));
}

// Of calls that were sent instead of written, the checker has the answer.
void TellSent(const online::Endpoint& checker, report::Document& document) {
  document.verdict.word = "SENT";
  document.verdict.text = fmt::format(
      "SENT: what was captured went to {} while the program ran; the checker has the answer",
      checker.text());
  document.verdict.tone = report::Tone::kGood;
  document.verdict.standing = report::Standing::kClean;
  document.verdict.number = 1;
  document.sections.clear();
  document.next.clear();
}

}  // namespace

Result<ExitCode> DumpCommand::Launch(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckOutput(context));
  if (dump_path_.empty() && config_file_.empty()) {
    dump_path_ = DefaultFolder(replaces_);
  }
  const std::string overrides = OverridesJson();
  const capture::Framework framework = FrameworkOf(context);
  // What is wrong with the configuration is said here, once, and not by every process of a run.
  MSP_ASSIGN_OR_RETURN(const capture::Settings settings,
                       capture::LoadSettings(config_file_, overrides, framework, kFlags));
  if (!settings.online) {
    MSP_RETURN_IF_ERROR(CheckPlaceOf(settings, replaces_));
  }
  LaunchOptions options;
  options.program = program_;
  options.config_file = config_file_;
  options.overrides_json = overrides;
  options.output_folder = settings.dump_path;
  options.framework = capture::FrameworkName(framework);
  options.quiet = context.quiet;
  options.output_to_stderr = answer_.json;
  // Its processes are one run, whatever starts them.
  options.variables.emplace_back("MSPROBE_RUN_ID", capture::RunIdentity());
  if (replaces_) {
    options.variables.emplace_back("MSPROBE_REPLACE_DUMP", "1");
  }
  const DumpSummary summary(settings.dump_path);
  MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
  report::Document document = summary.Answer();
  if (settings.online && end.progress == LaunchProgress::kFramework) {
    TellSent(*settings.online, document);
  }
  report::List reasons{report::ListKind::kSentences, {}};
  const std::string ending = HowItEnded(end);
  if (!ending.empty()) {
    reasons.items.push_back({"", ending, report::Tone::kBad});
  }
  // Of a script that failed nobody knows how far it would have come.
  if (document.verdict.number == 0 &&
      (ending.empty() || end.progress == LaunchProgress::kNoPython || !end.reasons.empty())) {
    std::string reason = WhyNothing(end.progress, options.framework, end.reasons);
    if (end.progress == LaunchProgress::kPython && framework == capture::Framework::kPyTorch) {
      reason += "; a script of MindSpore needs msprobe -f mindspore";
    }
    if (!reason.empty()) {
      reasons.items.push_back({"", std::move(reason)});
    }
  }
  if (!reasons.items.empty()) {
    document.sections.emplace_back().blocks.emplace_back(std::move(reasons));
  }
  OwnForms own;
  own.to_stderr = true;
  own.exit_code = end.exit_code;
  Result<ExitCode> code = GiveAnswer(std::move(document), answer_, context, own);
  if (end.signal != 0) {
    std::fflush(stdout);
    EndBySignal(end.signal);
  }
  return code;
}

Result<ExitCode> DumpCommand::Run(const Context& context) {
  const int tasks =
      (example_ ? 1 : 0) + (checked_file_.empty() ? 0 : 1) + (program_.empty() ? 0 : 1);
  if (tasks == 0) {
    return UsageError("nothing to run")
        .WithHint(
            "msprobe dump -c config.json -- python3 train.py; --example prints a configuration");
  }
  if (tasks > 1) {
    return UsageError("give only one of --check, --example and a script");
  }
  if (example_) {
    fmt::print("{}", resources::kDumpExample);
    return ExitCode::kDone;
  }
  return program_.empty() ? Check(context) : Launch(context);
}

}  // namespace msprobe::commands
