#include "src/commands/dump_recover_command.h"

#include <string>
#include <utility>

#include <fmt/format.h>

#include "src/base/files.h"
#include "src/base/log.h"
#include "src/base/output_files.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/dump/recovery.h"

namespace msprobe::commands {
namespace {

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

}  // namespace

std::vector<Positional> DumpRecoverCommand::positionals() {
  return {{.name = "DUMP",
           .fills = &folder_,
           .help = "A dump, or one of its steps or ranks",
           .required = true}};
}

std::vector<Flag> DumpRecoverCommand::flags() {
  std::vector<Flag> flags;
  AddAnswerFlags(flags, answer_);
  return flags;
}

std::vector<Example> DumpRecoverCommand::examples() const {
  return {{"msprobe dump recover dump", "all steps and ranks of a killed run"}};
}

Result<ExitCode> DumpRecoverCommand::Run(const Context& context) {
  MSP_ASSIGN_OR_RETURN(const std::vector<base::Path> folders, FoldersWithLogs(folder_));
  report::Document document;
  document.command = "dump recover";
  report::List list{report::ListKind::kNamed, {}};
  size_t recovered = 0;
  for (const base::Path& folder : folders) {
    const Result<dump::Recovery> recovery = dump::RecoverRankFolder(folder);
    if (!recovery.ok()) {
      base::LogError(fmt::format("{}: {}", folder.string(), recovery.status().message()));
      if (!recovery.status().hint().empty()) {
        base::LogHint(recovery.status().hint());
      }
      list.items.push_back({folder.string(), recovery.status().message(), report::Tone::kBad});
      continue;
    }
    ++recovered;
    list.items.push_back(
        {folder.string(), Sentence(*recovery),
         recovery->missing_files > 0 ? report::Tone::kCaution : report::Tone::kPlain});
    list.items.back().number = static_cast<double>(recovery->conversion.entries);
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
  verdict.standing =
      recovered == folders.size() ? report::Standing::kClean : report::Standing::kIncomplete;
  document.sections.emplace_back().blocks.emplace_back(std::move(list));
  return GiveAnswer(std::move(document), answer_, context);
}

}  // namespace msprobe::commands
