#include "src/commands/dump_summary.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "src/base/strings.h"
#include "src/capture/step_folder.h"
#include "src/dump/layout.h"
#include "src/dump/record_log.h"
#include "src/json/config.h"

namespace msprobe::commands {
namespace {

namespace fs = std::filesystem;

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

void AddNumber(const json::ConfigValue& manifest, std::string_view key, uint64_t& sum) {
  const json::ConfigValue* value = manifest.Find(key);
  sum += value != nullptr && value->kind == json::ConfigKind::kInt && value->integer > 0
             ? static_cast<uint64_t>(value->integer)
             : 0;
}

double SecondsOf(const json::ConfigValue& manifest, std::string_view key) {
  const json::ConfigValue* value = manifest.Find(key);
  return value == nullptr ? 0 : value->number;
}

// Whether the manifest says that everything is there.
bool AddManifest(const fs::path& file, Counts& counts) {
  const Result<json::Config> config = json::LoadJsonConfig(file);
  if (!config.ok()) {
    return false;
  }
  const json::ConfigValue& manifest = config->root;
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
  const json::ConfigValue* complete = manifest.Find("complete");
  return complete != nullptr && complete->boolean;
}

std::string Named(const std::vector<std::string>& folders) {
  const std::vector<std::string> shown(
      folders.begin(),
      folders.begin() + static_cast<std::ptrdiff_t>(std::min(folders.size(), kNamedFolders)));
  return base::Join(shown, ", ") +
         (shown.size() == folders.size()
              ? ""
              : fmt::format(" and {} more", folders.size() - shown.size()));
}

}  // namespace

DumpSummary::DumpSummary(fs::path dump_path) : dump_path_(std::move(dump_path)), before_(Look()) {}

DumpSummary::Stamp DumpSummary::StampOf(const fs::path& file) {
  struct stat state = {};
  if (::stat(file.c_str(), &state) != 0) {
    return {};
  }
  return {state.st_ino, int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec};
}

std::map<fs::path, DumpSummary::Folder> DumpSummary::Look() const {
  std::map<fs::path, Folder> folders;
  const Result<dump::DumpLayout> layout = dump::FindDump(dump_path_);
  if (!layout.ok()) {
    return folders;  // no dump yet
  }
  for (const dump::RankFolder& rank : layout->ranks) {
    folders[rank.folder] = {StampOf(rank.folder / dump::kManifestFileName),
                            StampOf(rank.folder / dump::kRecordLogName)};
  }
  return folders;
}

report::Document DumpSummary::Answer() const {
  Counts counts;
  std::set<std::string> steps;
  std::set<std::string> ranks;
  std::vector<std::string> interrupted;
  std::vector<std::string> incomplete;
  for (const auto& [folder, now] : Look()) {
    const auto found = before_.find(folder);
    const Folder before = found == before_.end() ? Folder{} : found->second;
    const bool new_log = now.log != Stamp{} && now.log != before.log;
    if (now.manifest == before.manifest && !new_log) {
      continue;
    }
    const std::string name = folder.lexically_relative(dump_path_).string();
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
    verdict.text = fmt::format("nothing was captured in {}", dump_path_.string());
    verdict.standing = report::Standing::kFindings;
    return document;
  }
  const bool whole = incomplete.empty() && interrupted.empty() && counts.lost_files == 0;
  verdict.word = whole ? "CAPTURED" : "CAPTURED IN PART";
  verdict.text = fmt::format("captured {} of {} in {}", base::Plural(steps.size(), "step"),
                             base::Plural(ranks.size(), "rank"), dump_path_.string());
  verdict.standing = whole ? report::Standing::kClean : report::Standing::kFindings;
  report::List facts{report::ListKind::kFacts, {}};
  const auto add = [&facts](std::string_view what, std::string text, uint64_t number) {
    facts.items.push_back({std::string(what), std::move(text)});
    facts.items.back().number = static_cast<double>(number);
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
    // What the script alone would have taken is not known; a share of time that repeats fill says
    // nothing.
    const std::string of_what = counts.repeat_seconds > 0
                                    ? fmt::format("; {} captured, of which repeats {}",
                                                  base::FormatSeconds(counts.wall_seconds),
                                                  base::FormatSeconds(counts.repeat_seconds))
                                    : fmt::format(", {:.1f} % of the {} captured",
                                                  100 * counts.engine_seconds / counts.wall_seconds,
                                                  base::FormatSeconds(counts.wall_seconds));
    facts.items.push_back(
        {"overhead", fmt::format("{} in the capture engine{}",
                                 base::FormatSeconds(counts.engine_seconds), of_what)});
    facts.items.back().number = counts.engine_seconds + counts.repeat_seconds;
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
        fmt::format("{}; msprobe dump recover {}", Named(interrupted), dump_path_.string()),
        interrupted.size());
  }
  document.sections.emplace_back().blocks.emplace_back(std::move(facts));
  document.sections.back().blocks.emplace_back(
      report::List{report::ListKind::kFacts, {{"folder", dump_path_.string()}}, {0}});
  return document;
}

}  // namespace msprobe::commands
