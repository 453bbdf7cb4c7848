// msprobe dump: captures from an unmodified script; checks, shows and repairs what belongs to it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/numbers.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/capture/settings.h"
#include "src/capture/step_folder.h"
#include "src/commands/answer.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/launcher.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/dump/recovery.h"
#include "src/json/config.h"
#include "src/json/writer.h"
#include "src/online/endpoint.h"
#include "src/report/document.h"

namespace msprobe::resources {
extern const std::string_view
    kDumpExample;  // config/dump_example.json, see cmake/EmbedResources.cmake
}

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

// The summary of a run is made from the manifests of its rank folders: those that are new or
// changed since a snapshot before it began.

struct RankFiles {
  FileStamp manifest;
  FileStamp log;  // records.log: stays when a process is killed
};
using DumpSnapshot = std::map<fs::path, RankFiles>;  // by rank folder

constexpr size_t kNamedFolders = 5;

struct Counts {
  uint64_t entries = 0;
  uint64_t tensors = 0;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t deduplicated = 0;
  uint64_t lost_files = 0;
  uint64_t lost_records = 0;
  uint64_t dropped_records = 0;
  uint64_t dropped_files = 0;
  uint64_t dropped_steps = 0;
  uint64_t errors = 0;
  double engine_seconds = 0;
  double repeat_seconds = 0;
  double wall_seconds = 0;
};

void AddNumber(const json::Json& manifest, std::string_view key, uint64_t& sum) {
  const json::Json* value = json::Find(manifest, key);
  sum += value != nullptr && value->is_number_integer() && json::IntOf(*value) > 0
             ? static_cast<uint64_t>(json::IntOf(*value))
             : 0;
}

double SecondsOf(const json::Json& manifest, std::string_view key) {
  const json::Json* value = json::Find(manifest, key);
  return value == nullptr ? 0 : json::NumberOf(*value);
}

// Whether the manifest says that everything is there.
bool AddManifest(const fs::path& file, Counts& counts) {
  const Result<json::Config> config = json::LoadJsonConfig(file);
  if (!config.ok()) {
    return false;
  }
  const json::Json& manifest = config->root();
  AddNumber(manifest, "entries", counts.entries);
  AddNumber(manifest, "tensors", counts.tensors);
  AddNumber(manifest, "tensor_files", counts.files);
  AddNumber(manifest, "tensor_bytes", counts.bytes);
  AddNumber(manifest, "written_bytes", counts.written_bytes);
  AddNumber(manifest, "deduplicated_files", counts.deduplicated);
  AddNumber(manifest, "lost_files", counts.lost_files);
  AddNumber(manifest, "lost_records", counts.lost_records);
  AddNumber(manifest, "dropped_records", counts.dropped_records);
  AddNumber(manifest, "dropped_files", counts.dropped_files);
  AddNumber(manifest, "dropped_steps", counts.dropped_steps);
  AddNumber(manifest, "errors", counts.errors);
  counts.engine_seconds += SecondsOf(manifest, "engine_seconds");
  counts.repeat_seconds += SecondsOf(manifest, "repeat_seconds");
  counts.wall_seconds += SecondsOf(manifest, "wall_seconds");
  const json::Json* complete = json::Find(manifest, "complete");
  return complete != nullptr && json::BoolOf(*complete);
}

std::string Named(const std::vector<std::string>& folders) {
  const size_t shown = std::min(folders.size(), kNamedFolders);
  return base::Join(std::span(folders).first(shown), ", ") +
         (shown == folders.size() ? "" : fmt::format(" and {} more", folders.size() - shown));
}

// Empty where there is no dump yet.
DumpSnapshot SnapshotOf(const fs::path& dump_path) {
  DumpSnapshot snapshot;
  const Result<dump::DumpLayout> layout = dump::FindDump(dump_path);
  for (const dump::RankFolder& rank :
       layout.ok() ? layout->ranks : std::vector<dump::RankFolder>()) {
    snapshot[rank.folder] = {StampOf(rank.folder / dump::kManifestFileName),
                             StampOf(rank.folder / dump::kRecordLogName)};
  }
  return snapshot;
}

report::Document SummaryOf(const fs::path& dump_path, const DumpSnapshot& before_run) {
  Counts counts;
  std::set<std::string> steps;
  std::set<std::string> ranks;
  std::vector<std::string> interrupted;
  std::vector<std::string> incomplete;
  for (const auto& [folder, now] : SnapshotOf(dump_path)) {
    const auto found = before_run.find(folder);
    const RankFiles before = found == before_run.end() ? RankFiles{} : found->second;
    const bool new_log = now.log != FileStamp{} && now.log != before.log;
    if (now.manifest == before.manifest && !new_log) {
      continue;
    }
    const std::string name = folder.lexically_relative(dump_path).string();
    if (now.manifest == before.manifest) {
      interrupted.push_back(name);
    } else if (!AddManifest(folder / dump::kManifestFileName, counts)) {
      (new_log ? interrupted : incomplete).push_back(name);
    }
    steps.insert(folder.parent_path().filename().string());
    ranks.insert(folder.filename().string());
  }
  report::Document document;
  document.command = "dump";
  report::Verdict& verdict = document.verdict;
  verdict.number = static_cast<double>(steps.size());
  verdict.unit = "steps";
  if (steps.empty()) {
    verdict.word = "NOTHING CAPTURED";
    verdict.text = fmt::format("nothing was captured in {}", dump_path.string());
    verdict.outcome = report::AnswerOutcome::kFindings;
    return document;
  }
  const bool whole = incomplete.empty() && interrupted.empty() && counts.lost_files == 0;
  verdict.word = whole ? "CAPTURED" : "CAPTURED IN PART";
  verdict.text = fmt::format("captured {} of {} in {}", base::Plural(steps.size(), "step"),
                             base::Plural(ranks.size(), "rank"), dump_path.string());
  verdict.outcome = whole ? report::AnswerOutcome::kClean : report::AnswerOutcome::kFindings;
  report::List facts{report::ListKind::kFacts, {}};
  const auto add = [&facts](std::string_view what, std::string text, uint64_t number) {
    facts.items.push_back(
        {std::string(what), std::move(text), report::Tone::kPlain, static_cast<double>(number)});
  };
  add("calls", base::FormatCount(counts.entries), counts.entries);
  add("tensors", base::FormatCount(counts.tensors), counts.tensors);
  if (counts.files > 0) {
    add("files",
        fmt::format("{}, {}", base::FormatCount(counts.files), base::FormatBytes(counts.bytes)),
        counts.files);
  }
  if (counts.deduplicated > 0) {
    add("equal ones",
        fmt::format("{} stored as links: {} written instead of {}",
                    base::FormatCount(counts.deduplicated), base::FormatBytes(counts.written_bytes),
                    base::FormatBytes(counts.bytes)),
        counts.deduplicated);
  }
  if (counts.wall_seconds > 0) {
    // The time of the script alone is not known; a share of time that repeats fill means nothing.
    const std::string of_what = counts.repeat_seconds > 0
                                    ? fmt::format("; {} captured, of which repeats {}",
                                                  base::FormatSeconds(counts.wall_seconds),
                                                  base::FormatSeconds(counts.repeat_seconds))
                                    : fmt::format(", {:.1f} % of the {} captured",
                                                  100 * counts.engine_seconds / counts.wall_seconds,
                                                  base::FormatSeconds(counts.wall_seconds));
    facts.items.push_back({"overhead",
                           fmt::format("{} in the capture engine{}",
                                       base::FormatSeconds(counts.engine_seconds), of_what),
                           report::Tone::kPlain, counts.engine_seconds + counts.repeat_seconds});
  }
  if (counts.errors > 0) {
    add("errors", fmt::format("{}: see dump_error_info.log", base::FormatCount(counts.errors)),
        counts.errors);
  }
  if (counts.lost_files > 0) {
    add("lost",
        fmt::format("{} that could not be written", base::Plural(counts.lost_files, "file")),
        counts.lost_files);
  }
  if (counts.lost_records > 0) {
    add("lost records",
        fmt::format("{}: no memory, or no device", base::FormatCount(counts.lost_records)),
        counts.lost_records);
  }
  if (const uint64_t dropped = counts.dropped_records + counts.dropped_files + counts.dropped_steps;
      dropped > 0) {
    add("left out",
        fmt::format("{}, {}, {}: beyond max_overhead_ms or max_bytes_per_s",
                    base::Plural(counts.dropped_records, "call"),
                    base::Plural(counts.dropped_files, "file"),
                    base::Plural(counts.dropped_steps, "step")),
        dropped);
  }
  if (!incomplete.empty()) {
    add("incomplete", Named(incomplete), incomplete.size());
  }
  if (!interrupted.empty()) {
    add("interrupted",
        fmt::format("{}; msprobe dump recover {}", Named(interrupted), dump_path.string()),
        interrupted.size());
  }
  document.Add("", std::move(facts));
  document.sections.back().blocks.emplace_back(
      report::List{report::ListKind::kFacts, {{"folder", dump_path.string()}}, {0}});
  return document;
}

bool HasLog(const base::Path& folder) { return base::Exists(folder / dump::kRecordLogName); }

// `root` may be a dump, a step of one or a rank of a step.
Result<std::vector<base::Path>> FoldersWithLogs(const base::Path& root) {
  std::vector<base::Path> found;
  std::vector<base::Path> level = {root};
  constexpr int kFolderLevels = 3;
  for (int depth = 0; depth < kFolderLevels; ++depth) {
    std::vector<base::Path> below;
    for (const base::Path& folder : level) {
      if (HasLog(folder)) {
        found.push_back(folder);
      }
      MSP_ASSIGN_OR_RETURN(const std::vector<std::string> names, base::ListFolder(folder));
      for (const std::string& name : names) {
        if ((dump::ParseStepName(name).valid || dump::ParseRankName(name).valid) &&
            base::IsFolder(folder / name)) {
          below.push_back(folder / name);
        }
      }
    }
    level = std::move(below);
  }
  return found;
}

std::string Sentence(const dump::Recovery& recovery) {
  std::string text = recovery.nothing_recorded
                         ? "nothing had been recorded yet"
                         : fmt::format("{} entries from {} records",
                                       base::FormatCount(recovery.conversion.entries),
                                       base::FormatCount(recovery.conversion.records));
  if (recovery.conversion.lost_bytes > 0) {
    text += fmt::format("; the last {} bytes are incomplete and lost",
                        base::FormatCount(recovery.conversion.lost_bytes));
  }
  if (recovery.missing_files > 0) {
    text += fmt::format("; {} of {} missing", base::FormatCount(recovery.missing_files),
                        base::Plural(recovery.named_files, "tensor file"));
  }
  if (recovery.removed_files > 0) {
    text += fmt::format("; {} removed", base::Plural(recovery.removed_files, "unfinished file"));
  }
  return text;
}

// msprobe dump recover: the files of a dump out of the records of a run that was interrupted.
class DumpRecoverCommand final : public Command {
 public:
  DumpRecoverCommand()
      : Command("recover", "Make the JSON files of a dump whose training was killed") {}

  FlagTable flags() override { return {AnswerRows(answer_)}; }

  std::vector<Positional> positionals() override {
    return {Argument("DUMP", &folder_, "A dump, or one of its steps or ranks", kRequired)};
  }

  std::vector<Example> examples() const override {
    return {{"msprobe dump recover dump", "all steps and ranks of a killed run"}};
  }

  Result<ExitCode> Run(const Context& context) override;

 private:
  std::filesystem::path folder_;
  AnswerFlags answer_;
};

Result<ExitCode> DumpRecoverCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const std::vector<base::Path> folders, FoldersWithLogs(folder_));
  report::Document document;
  document.command = "dump recover";
  report::List list{report::ListKind::kNamed, {}};
  size_t recovered = 0;
  for (const base::Path& folder : folders) {
    const Result<dump::Recovery> recovery = dump::RecoverRankFolder(folder);
    if (!recovery.ok()) {
      LogStatus(Status(recovery.status()).AddContext(folder.string()));
      list.items.push_back({folder.string(), recovery.status().message(), report::Tone::kBad});
      continue;
    }
    ++recovered;
    list.items.push_back(
        {folder.string(), Sentence(*recovery),
         recovery->missing_files > 0 ? report::Tone::kCaution : report::Tone::kPlain,
         static_cast<double>(recovery->conversion.entries)});
    if (recovery->missing_files > 0) {
      document.warnings.push_back(fmt::format(
          "{}: {} of {} that dump.json names had not been written; the first: {}",
          (folder / dump::kTensorFolderName).string(), base::FormatCount(recovery->missing_files),
          base::Plural(recovery->named_files, "tensor file"), recovery->first_missing));
    }
    document.files.push_back({folder / "", "recovered"});
  }
  report::Verdict& verdict = document.verdict;
  verdict.word = folders.empty() ? "NOTHING TO RECOVER" : recovered > 0 ? "RECOVERED" : "FAILED";
  verdict.text = folders.empty() ? fmt::format("{}: nothing to recover: no interrupted capture",
                                               folder_.string())
                                 : fmt::format("{}: {} of {}", verdict.word, recovered,
                                               base::Plural(folders.size(), "interrupted folder"));
  verdict.number = static_cast<double>(recovered);
  verdict.unit = "folders";
  verdict.tone = recovered == folders.size() ? report::Tone::kStrong : report::Tone::kBad;
  verdict.outcome = recovered == folders.size() ? report::AnswerOutcome::kClean
                                                : report::AnswerOutcome::kIncomplete;
  document.Add("", std::move(list));
  return EmitReport(std::move(document), answer_, context);
}

capture::Framework FrameworkOf(const Context& context) {
  return context.framework == "mindspore" ? capture::Framework::kMindSpore
                                          : capture::Framework::kPyTorch;
}

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
  MSP_ASSIGN_OR_RETURN(file.settings, capture::LoadSettings(named, "", FrameworkOf(context)));
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
  verdict.outcome = report::AnswerOutcome::kClean;
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
  document.Add("", std::move(facts));
  if (changed && !is_live) {
    document.warnings.push_back(
        fmt::format("the file had no key {}: programs that run already do not look at it again, "
                    "those that begin from now on do",
                    kSwitchKey));
  }
  return document;
}

// msprobe dump ctl: turns a live capture on and off by the key dump_enable of its configuration.
class DumpCtlCommand final : public Command {
 public:
  DumpCtlCommand() : Command("ctl", "Turn a live capture on or off, or show its state") {}

  FlagTable flags() override { return {AnswerRows(answer_)}; }

  std::vector<Positional> positionals() override {
    return {Argument("ACTION", &action_, "on, off or status (shows, changes nothing)",
                     std::vector<std::string>{"on", "off", "status"}, kRequired),
            Argument("CONFIG", &config_file_,
                     "The configuration that the running program was given", kRequired)};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe dump ctl on capture.json",
         "the next step of every program with this configuration is captured"},
        {"msprobe dump ctl off capture.json",
         "the step that runs is written to its end; then nothing of msprobe is in the way"},
        {"msprobe dump ctl status capture.json",
         "whether it is on, and which step was written last"},
    };
  }

  std::string notes() const override {
    return "Programs look at the file between their steps, at most twice a second, if it had the "
           "key dump_enable when they began. Only this key is changed; comments and everything "
           "else "
           "stay.";
  }

  Result<ExitCode> Run(const Context& context) override {
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
    return EmitReport(DocumentOf(file, config_file_, is_live, changes), answer_, context);
  }

 private:
  std::string action_;
  std::filesystem::path config_file_;
  AnswerFlags answer_;
};

constexpr const char* kDumpNotes =
    R"(The exit code is that of the script; messages of msprobe go to stderr. A script can also control the capture itself:
from msprobe.pytorch import PrecisionDebugger.)";

constexpr std::string_view kFlags = "the flags";  // in errors about settings

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

// Adds what is not empty.
void AddFact(report::List& facts, std::string_view what, std::string text) {
  if (!text.empty()) {
    facts.items.push_back({std::string(what), std::move(text)});
  }
}

// The meaning of a configuration without mistakes.
report::Document ExplainedConfig(const base::Path& file, report::List facts) {
  report::Document document;
  document.command = "dump";
  document.verdict.word = "RIGHT";
  document.verdict.tone = report::Tone::kGood;
  document.verdict.text = fmt::format("{} is valid:", file.string());
  document.Add("", std::move(facts));
  return document;
}

report::Document DocumentOfSettings(const base::Path& file, const capture::Settings& settings) {
  report::List facts{report::ListKind::kFacts, {}};
  AddFact(facts, "task", std::string(capture::TaskName(settings.task)));
  AddFact(facts, "level", std::string(capture::LevelName(settings.level)));
  AddFact(facts, "steps", NumbersText(settings.steps));
  AddFact(facts, "ranks", NumbersText(settings.ranks));
  AddFact(facts, "scope", base::Join(settings.scope, " to "));
  AddFact(facts, "list", base::Join(settings.list, ", "));
  AddFact(facts, "repeats",
          settings.repeat == 0
              ? std::string()
              : fmt::format("every call {} times, for its noise", settings.repeat));
  AddFact(facts, "saved", base::Join(settings.tensor_list, ", "));
  if (settings.dump_enable.has_value()) {
    AddFact(facts, "dump_enable",
            *settings.dump_enable ? "true, msprobe dump ctl turns it off"
                                  : "false until msprobe dump ctl turns it on");
  }
  if (settings.max_overhead_ms.has_value()) {
    AddFact(facts, "overhead",
            fmt::format("max_overhead_ms: {} of a step", *settings.max_overhead_ms));
  }
  if (settings.max_bytes_per_s.has_value()) {
    AddFact(facts, "bytes",
            fmt::format("max_bytes_per_s: {} in a second",
                        base::FormatBytes(static_cast<uint64_t>(*settings.max_bytes_per_s))));
  }
  if (settings.online) {
    AddFact(facts, "sends to", settings.online->text());
  } else {
    AddFact(facts, "writes to", (base::Path(settings.dump_path) / "step<N>" / "rank<M>").string());
  }
  report::Document document = ExplainedConfig(file, std::move(facts));
  document.warnings = settings.warnings;
  return document;
}

report::Document DocumentOfFreeBenchmark(const base::Path& file,
                                         const capture::FreeBenchmarkSettings& settings) {
  report::List facts{report::ListKind::kFacts, {}};
  AddFact(facts, "task", "free_benchmark");
  AddFact(facts, "second run", settings.pert_mode);
  AddFact(facts, "stage", settings.fuzz_stage);
  AddFact(facts, "handler", settings.handler_type);
  AddFact(facts, "steps", NumbersText(settings.steps));
  AddFact(facts, "ranks", NumbersText(settings.ranks));
  AddFact(facts, "calls",
          !settings.scope.empty()  ? base::Join(settings.scope, ", ")
          : !settings.list.empty() ? "with " + base::Join(settings.list, ", ") + " in their names"
                                   : "all");
  AddFact(facts, "writes to",
          (base::Path(settings.dump_path) / "step<N>" / "rank<M>" / "free_benchmark.csv").string());
  return ExplainedConfig(file, std::move(facts));
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

// All names that a configuration may give a setting.
template <typename Choices>
std::vector<std::string> NamesOf(const Choices& choices) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    names.emplace_back(choice.name);
  }
  return names;
}

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

// The checker reports calls that were sent instead of written.
void SetSent(const online::Endpoint& checker, report::Document& document) {
  document.verdict.Say(
      "SENT",
      fmt::format("what was captured went to {} while the program ran; the checker has the answer",
                  checker.text()),
      report::Tone::kGood, report::AnswerOutcome::kClean);
  document.verdict.number = 1;
  document.sections.clear();
  document.next.clear();
}

class DumpCommand final : public Command {
 public:
  DumpCommand() : Command("dump", "Capture what a training or inference script computes") {
    Add(std::make_unique<DumpRecoverCommand>());
    Add(std::make_unique<DumpCtlCommand>());
  }

  FlagTable flags() override {
    return {
        Group::kInput,
        Path("--config -c", "FILE", &config_file_,
             "Configuration: what to capture, and where to write it"),
        Path("--check", "FILE", &checked_file_,
             "Check a configuration and explain it, without capturing"),
        Switch("--example", &example_, "Print a configuration in which every key is explained"),
        Group::kSelection,
        Choice("--task", "NAME", &task_, NamesOf(capture::kTasks),
               "Overrides task in the config file"),
        Choice("--level", "NAME", &level_, NamesOf(capture::kLevels),
               "Overrides level in the config file; mix where neither says one",
               FromProject{"level"}),
        Text("--step", "LIST", &steps_,
             "Only these steps, such as 0,100-102; overrides step in the config file",
             kSeparatedByCommas),
        Text("--rank", "LIST", &ranks_, "Only these ranks; overrides rank in the config file",
             kSeparatedByCommas),
        Group::kMethod,
        Number("--repeat", "N", &repeat_,
               "Make every recorded call N times more, rounded up or down at random, and record "
               "how many of its "
               "digits are significant",
               Between(0, 64), Default{"that of the config file, or never"}),
        Group::kOutput,
        Path("--output -o --dump_path", "DIR", &dump_path_,
             "Overrides dump_path in the config file",
             Default{"that of the config file, or ./msprobe_dump"},
             FromProject{"output", ProjectScope::kOwnTable}),
        Switch("--force", &replaces_,
               "Replace the dump of an earlier run; without it, an existing dump prevents the "
               "capture"),
        AnswerRows(answer_),
    };
  }

  std::vector<Positional> positionals() override {
    return {ProgramArgument(program_, NeededUnless{"--example --check"})};
  }

  std::vector<Example> examples() const override {
    return {
        {"msprobe dump --example > config.json",
         "a configuration to start from, with every key explained"},
        {"msprobe dump --check config.json",
         "check a configuration, and show what would be captured"},
        {"msprobe -f pytorch dump -c config.json -- python3 train.py --epochs 1",
         "capture an unmodified script; steps are optimizer steps, or forward passes if there is "
         "no optimizer"},
        {"msprobe dump -c config.json -- torchrun --nproc-per-node 8 train.py",
         "the same for every process of a distributed run"},
        {"msprobe dump -- python3 train.py",
         "without a configuration: the dump goes to ./msprobe_dump"},
        {"msprobe dump --task tensor --step 100 --rank 0 -- torchrun --nproc-per-node 8 train.py",
         "the tensors of one step of one rank"},
        {"msprobe dump --output dump --level L1 -- python3 train.py",
         "flags override the configuration; L1: calls of the API without the modules around them"},
        {"msprobe dump --repeat 5 -o dump -- python3 train.py",
         "with the noise floor of every call, which compare then uses"},
        {"msprobe dump recover dump", "make dump.json from the records of a killed run"},
        {"msprobe dump ctl on config.json",
         "capture from the next step on, in a program that runs"},
    };
  }

  std::string notes() const override { return kDumpNotes; }

  Result<ExitCode> Run(const Context& context) override {
    const int tasks =
        (example_ ? 1 : 0) + (checked_file_.empty() ? 0 : 1) + (program_.empty() ? 0 : 1);
    if (tasks > 1) {
      return UsageError("give only one of --check, --example and a script");
    }
    if (example_) {
      fmt::print("{}", resources::kDumpExample);
      return ExitCode::kDone;
    }
    return program_.empty() ? Check(context) : Launch(context);
  }

 private:
  Result<ExitCode> Check(const Context& context) const {
    MSP_ASSIGN_OR_RETURN(const std::string task, capture::ConfiguredTask(checked_file_));
    if (task == "free_benchmark" && task_.empty()) {
      MSP_ASSIGN_OR_RETURN(const capture::FreeBenchmarkSettings settings,
                           capture::LoadFreeBenchmarkSettings(checked_file_, OverridesJson(level_),
                                                              FrameworkOf(context), kFlags));
      return EmitReport(DocumentOfFreeBenchmark(checked_file_, settings), answer_, context);
    }
    MSP_ASSIGN_OR_RETURN(const bool level_is_named, NamesLevel(checked_file_));
    MSP_ASSIGN_OR_RETURN(const capture::Settings settings,
                         capture::LoadSettings(checked_file_, OverridesWith(level_is_named),
                                               FrameworkOf(context), kFlags));
    return EmitReport(DocumentOfSettings(checked_file_, settings), answer_, context);
  }

  Result<ExitCode> Launch(const Context& context);
  // Whether a flag or the configuration says which level; else modules are recorded around the
  // calls, so that an answer can name the layer.
  Result<bool> NamesLevel(const base::Path& config) const {
    return level_.empty() && !config.empty() ? capture::NamesLevel(config) : !level_.empty();
  }
  std::string OverridesWith(bool level_is_named) const {
    return OverridesJson(level_is_named ? level_
                                        : std::string(capture::LevelName(capture::Level::kMix)));
  }
  // Messages about the folder name the flag.
  Status CheckOutput(const Context& context) const {
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

  // The flags that win over the file, as one JSON object; empty when none is given.
  std::string OverridesJson(const std::string& level) const {
    const std::initializer_list<std::pair<std::string_view, const std::string&>> flags = {
        {"task", task_}, {"level", level}, {"dump_path", dump_path_}};
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
    for (const auto& [key, numbers] : {std::pair("step", &steps_), std::pair("rank", &ranks_)}) {
      if (!numbers->empty()) {
        writer.Member(key, *numbers);
        any = true;
      }
    }
    writer.EndObject();
    return any ? text : std::string();
  }

  std::filesystem::path config_file_;
  std::filesystem::path checked_file_;
  std::string task_;
  std::string level_;
  std::vector<std::string> steps_;
  std::vector<std::string> ranks_;
  std::string dump_path_;
  int64_t repeat_ = 0;
  bool replaces_ = false;
  std::vector<std::string> program_;
  bool example_ = false;
  AnswerFlags answer_;
};

Result<ExitCode> DumpCommand::Launch(const Context& context) {
  MSP_RETURN_IF_ERROR(CheckOutput(context));
  if (dump_path_.empty() && config_file_.empty()) {
    constexpr std::string_view kFolder = "msprobe_dump";
    dump_path_ = replaces_ ? std::string(kFolder) : UnusedFolder(kFolder).string();
  }
  MSP_ASSIGN_OR_RETURN(const bool level_is_named, NamesLevel(config_file_));
  const std::string overrides = OverridesWith(level_is_named);
  const capture::Framework framework = FrameworkOf(context);
  // Mistakes in the configuration are reported here, once, and not by every process of a run.
  MSP_ASSIGN_OR_RETURN(const capture::Settings settings,
                       capture::LoadSettings(config_file_, overrides, framework, kFlags));
  if (!settings.online) {
    MSP_RETURN_IF_ERROR(CheckPlaceOf(settings, replaces_));
  }
  LaunchOptions options = LaunchOf(program_, capture::FrameworkName(framework), answer_, context);
  options.config_file = config_file_;
  options.overrides_json = overrides;
  options.output_folder = settings.dump_path;
  // Its processes are one run, whatever starts them.
  options.variables.emplace_back("MSPROBE_RUN_ID", capture::RunIdentity());
  if (!level_is_named) {
    // A script that starts the capture itself and names no model is captured without its modules.
    options.variables.emplace_back("MSPROBE_DUMP_LEVEL_IS_DEFAULT", "1");
  }
  if (replaces_) {
    options.variables.emplace_back("MSPROBE_REPLACE_DUMP", "1");
  }
  const DumpSnapshot before = SnapshotOf(settings.dump_path);
  MSP_ASSIGN_OR_RETURN(const ProgramEnd end, RunWithCapture(options));
  report::Document document = SummaryOf(settings.dump_path, before);
  if (settings.online && end.progress == LaunchProgress::kFramework) {
    SetSent(*settings.online, document);
  }
  report::List reasons{report::ListKind::kSentences, {}};
  const std::string ending = HowItEnded(end);
  if (!ending.empty()) {
    reasons.items.push_back({"", ending, report::Tone::kBad});
  }
  // How far a script that failed would have come is not known.
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
    document.Add("", std::move(reasons));
  }
  return EmitAndEnd(std::move(document), answer_, context, end, end.exit_code);
}

}  // namespace

std::unique_ptr<Command> MakeDump() { return std::make_unique<DumpCommand>(); }

}  // namespace msprobe::commands
