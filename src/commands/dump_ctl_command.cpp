#include "src/commands/dump_ctl_command.h"

#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/output_files.h"
#include "src/capture/settings.h"
#include "src/capture/step_folder.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/json/config.h"

namespace msprobe::commands {
namespace {

constexpr std::string_view kSwitchKey = "dump_enable";
constexpr uint64_t kLargestConfig = uint64_t{16} << 20U;

struct LiveFile {
  base::Path path;  // of the file itself where a link was named
  std::string text;
  capture::Settings settings;
};

Result<LiveFile> ReadLiveFile(const base::Path& named, const Context& context) {
  LiveFile file;
  std::error_code error;
  file.path = std::filesystem::canonical(named, error);
  if (error) {
    file.path = named;
  }
  MSP_ASSIGN_OR_RETURN(file.text, base::ReadTextFile(file.path, kLargestConfig));
  MSP_ASSIGN_OR_RETURN(file.settings, capture::LoadSettings(named, "",
                                                            context.framework == "mindspore"
                                                                ? capture::Framework::kMindSpore
                                                                : capture::Framework::kPyTorch));
  return file;
}

// "step12, being recorded"; empty where the folder of the configuration, seen from here, has none.
std::string NewestStep(const base::Path& dump_path) {
  std::optional<int64_t> newest;
  for (const std::string& name : base::NamesIn(dump_path)) {
    const dump::NumberedName step = dump::ParseStepName(name);
    if (step.valid && step.number && (!newest || *step.number > *newest)) {
      newest = step.number;
    }
  }
  if (!newest) {
    return {};
  }
  const std::string name = fmt::format("step{}", *newest);
  size_t written = 0;
  size_t open = 0;
  for (const std::string& rank : base::NamesIn(dump_path / name)) {
    const base::Path folder = dump_path / name / rank;
    written += base::Exists(folder / dump::kManifestFileName) ? 1 : 0;
    open += base::Exists(folder / dump::kRecordLogName) ? 1 : 0;
  }
  return open > 0      ? fmt::format("{}, being recorded or interrupted", name)
         : written > 0 ? fmt::format("{}, complete", name)
                       : name;
}

report::Document DocumentOf(const LiveFile& file, const base::Path& named, bool is_live,
                            bool changed) {
  const capture::Settings& settings = file.settings;
  const bool on = settings.dump_enable.value_or(true);
  report::Document document;
  document.command = "dump ctl";
  report::Verdict& verdict = document.verdict;
  verdict.word = !settings.dump_enable ? "NOT LIVE" : on ? "ON" : "OFF";
  verdict.tone = !settings.dump_enable ? report::Tone::kCaution
                 : on                  ? report::Tone::kGood
                                       : report::Tone::kStrong;
  verdict.standing = report::Standing::kClean;
  verdict.text =
      fmt::format("{}: {}", verdict.word,
                  !settings.dump_enable
                      ? fmt::format("{} has no key {}: it is read once", named.string(), kSwitchKey)
                  : changed ? fmt::format("{} says so from now on", named.string())
                            : fmt::format("{} says so", named.string()));
  report::List facts{report::ListKind::kFacts, {}};
  facts.items.push_back({"task", std::string(capture::TaskName(settings.task))});
  facts.items.push_back({"level", std::string(capture::LevelName(settings.level))});
  facts.items.push_back({"writes to", settings.dump_path});
  if (const std::string newest = NewestStep(settings.dump_path); !newest.empty()) {
    facts.items.push_back({"newest step", newest});
  }
  document.sections.emplace_back().blocks.emplace_back(std::move(facts));
  if (changed && !is_live) {
    document.warnings.push_back(fmt::format(
        "the file had no key {}: programs that run already do not look at it again, those that "
        "begin from now on do",
        kSwitchKey));
  }
  return document;
}

}  // namespace

std::vector<Positional> DumpCtlCommand::positionals() {
  return {{.name = "ACTION",
           .fills = &action_,
           .values = {"on", "off", "status"},
           .help = "on, off, or status to change nothing",
           .required = true},
          {.name = "CONFIG",
           .fills = &config_file_,
           .help = "The configuration that the running program was given",
           .required = true}};
}

std::vector<Flag> DumpCtlCommand::flags() {
  std::vector<Flag> flags;
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> DumpCtlCommand::examples() const {
  return {
      {"msprobe dump ctl on capture.json",
       "the next step of every program with this configuration"
       " is captured"},
      {"msprobe dump ctl off capture.json",
       "the step that runs is written to its end; then nothing "
       "of msprobe is in the way"},
      {"msprobe dump ctl status capture.json", "whether it is on, and which step was written last"},
  };
}

std::string DumpCtlCommand::notes() const {
  return "Programs look at the file between their steps, at most twice a second, if it had the key "
         "dump_enable when they began. Only this key is changed; comments and all else stay as "
         "they "
         "are.";
}

Result<ExitCode> DumpCtlCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(LiveFile file, ReadLiveFile(config_file_, context));
  const bool is_live = file.settings.dump_enable.has_value();
  const bool wanted = action_ == "on";
  const bool changes = action_ != "status" && file.settings.dump_enable != wanted;
  if (changes) {
    MSP_ASSIGN_OR_RETURN(const std::string text,
                         json::WithFlag(file.text, config_file_.string(), kSwitchKey, wanted));
    MSP_ASSIGN_OR_RETURN(base::AtomicFile out,
                         base::AtomicFile::Create(file.path, base::Existing::kReplace));
    MSP_RETURN_IF_ERROR(out.Write(text));
    MSP_RETURN_IF_ERROR(out.TakeAccessOf(file.path));
    MSP_RETURN_IF_ERROR(out.Commit());
    file.settings.dump_enable = wanted;
  }
  return GiveAnswer(DocumentOf(file, config_file_, is_live, changes), answer_, context);
}

}  // namespace msprobe::commands
