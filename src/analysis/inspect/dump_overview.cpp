#include "src/analysis/inspect/dump_overview.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "src/analysis/inspect/cells.h"
#include "src/base/files.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/dump/dump_file.h"
#include "src/dump/layout.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::inspect {
namespace {

namespace fs = std::filesystem;
using report::Cell;

// One dump.json or debug.json of one rank.
struct Part {
  const dump::RankFolder* rank = nullptr;
  std::string name;  // "step0/rank1"
  std::string file;
};

// What manifest.json says of a capture that left calls out on purpose, as for a budget.
struct LeftOut {
  int64_t records = 0;
  int64_t files = 0;
  bool any() const { return records > 0 || files > 0; }
};

struct PartContents {
  Status status;
  LeftOut left_out;
  dump::DumpHeader header;
  uint64_t tensors = 0;
  uint64_t files_named = 0;
  uint64_t files_missing = 0;
};

struct TensorFolder {
  std::unordered_set<std::string> names;
  uint64_t bytes = 0;         // by name
  uint64_t stored_bytes = 0;  // on the disk: equal tensors may be links to one file
  Status status;              // an error when it could not be looked through
};

std::string NumberedText(std::string_view word, const std::optional<int64_t>& number) {
  return number ? fmt::format("{}{}", word, *number) : std::string(word);
}

std::string RankText(const dump::RankFolder& rank) {
  const std::string own = NumberedText("rank", rank.rank);
  return rank.step ? NumberedText("step", rank.step) + "/" + own : own;
}

std::vector<Part> PartsOf(const dump::DumpLayout& layout) {
  std::vector<Part> parts;
  for (const dump::RankFolder& rank : layout.ranks) {
    for (const auto& [present, file] : {std::pair(rank.has_dump, dump::kDumpFileName),
                                        std::pair(rank.has_debug, dump::kDebugFileName)}) {
      if (present) {
        parts.push_back({&rank, RankText(rank), file});
      }
    }
  }
  return parts;
}

// What lies in dump_tensor_data; a missing folder is an empty one.
TensorFolder ListTensorFolder(const fs::path& folder) {
  TensorFolder listed;
  std::unordered_set<uint64_t> seen;  // inodes of files with several names
  const Result<std::vector<std::string>> names = base::ListFolder(folder);
  if (!names.ok()) {
    if (names.status().code() != StatusCode::kNotFound) {
      listed.status = names.status();
    }
    return listed;
  }
  for (const std::string& name : *names) {
    struct stat status {};
    const fs::path path = folder / name;
    if (::stat(path.c_str(), &status) != 0) {
      listed.status =
          IoError(fmt::format("cannot look at {}: {}", path.string(), std::strerror(errno)));
    } else if (S_ISREG(status.st_mode)) {
      const auto bytes = static_cast<uint64_t>(status.st_size);
      listed.bytes += bytes;
      const bool first_name = status.st_nlink == 1 || seen.insert(status.st_ino).second;
      listed.stored_bytes += first_name ? bytes : 0;
      listed.names.insert(name);
    }
  }
  return listed;
}

// A dump without one, as of the Python tool, left nothing out as far as anybody knows.
LeftOut ReadLeftOut(const fs::path& folder) {
  constexpr uint64_t kMostManifestBytes = 64U << 20U;
  LeftOut left_out;
  const Result<std::string> text =
      base::ReadTextFile(folder / dump::kManifestFileName, kMostManifestBytes);
  const Result<json::ValueTree> tree =
      text.ok() ? json::ParseValueTree(*text) : Result<json::ValueTree>(text.status());
  if (!tree.ok() || (*tree)[0].kind != json::ValueKind::kObject) {
    return left_out;
  }
  for (const auto& [key, count] : {std::pair("dropped_records", &left_out.records),
                                   std::pair("dropped_files", &left_out.files)}) {
    const uint32_t node = tree->Find(0, key);
    if (node != json::ValueTree::kNone && (*tree)[node].kind == json::ValueKind::kInt) {
      *count = std::max<int64_t>(0, (*tree)[node].integer);
    }
  }
  return left_out;
}

PartContents ReadPart(const Part& part, const TensorFolder& tensor_folder) {
  PartContents contents;
  contents.left_out = ReadLeftOut(part.rank->folder);
  dump::LeafWalker walker;
  Result<dump::DumpHeader> header = dump::ReadDumpFile(
      part.rank->folder / part.file, {.allow_truncated = true},
      [&](std::string_view name, const dump::EntryTree& tree) {
        walker.ForEach(name, tree, [&](std::string_view /*leaf_name*/, uint32_t index) {
          contents.tensors += dump::IsTensorLeaf(tree, index) ? 1 : 0;
          if (const std::string_view file = dump::LeafText(tree, index, "data_name");
              !file.empty()) {
            ++contents.files_named;
            contents.files_missing += tensor_folder.names.count(std::string(file)) == 0 ? 1 : 0;
          }
        });
        return OkStatus();
      });
  if (header.ok()) {
    contents.header = std::move(*header);
  } else {
    contents.status = std::move(header).status();
  }
  return contents;
}

std::string StateText(const PartContents& contents) {
  if (!contents.status.ok()) {
    return "unreadable";
  }
  if (contents.header.truncated) {
    return "truncated";
  }
  if (contents.header.recovery) {
    return "interrupted";
  }
  if (!contents.header.has_data) {
    return "no data";
  }
  return contents.files_missing > 0 ? "files missing"
         : contents.left_out.any()  ? "in part"
                                    : "complete";
}

std::string NoteText(const PartContents& contents) {
  if (!contents.status.ok()) {
    return contents.status.message();
  }
  std::string note;
  if (contents.header.truncated) {
    note = "the file is truncated; only its complete entries are counted";
  } else if (contents.header.recovery) {
    note = "the capture was interrupted; counted from its log";
  }
  if (contents.left_out.any()) {
    note += fmt::format("{}the capture left out {} and {} for its budget", note.empty() ? "" : "; ",
                        Counted(static_cast<uint64_t>(contents.left_out.records), "record"),
                        Counted(static_cast<uint64_t>(contents.left_out.files), "tensor file"));
  }
  if (contents.files_missing > 0) {
    note += fmt::format("{}{} of {} named in it do not exist", note.empty() ? "" : "; ",
                        base::FormatCount(contents.files_missing),
                        Counted(contents.files_named, "tensor file"));
  }
  return note;
}

// Steps that lack ranks which other steps have.
void WarnAboutMissingRanks(const dump::DumpLayout& layout, std::vector<std::string>& warnings) {
  std::map<std::optional<int64_t>, std::set<std::optional<int64_t>>> ranks_of_step;
  std::set<std::optional<int64_t>> all;
  for (const dump::RankFolder& rank : layout.ranks) {
    ranks_of_step[rank.step].insert(rank.rank);
    all.insert(rank.rank);
  }
  for (const auto& [step, ranks] : ranks_of_step) {
    std::vector<std::string> missing;
    for (const std::optional<int64_t>& rank : all) {
      if (ranks.count(rank) == 0) {
        missing.push_back(NumberedText("rank", rank));
      }
    }
    if (!missing.empty()) {
      warnings.push_back(fmt::format("{} lacks {}, which other steps have",
                                     NumberedText("step", step), base::Join(missing, ", ")));
    }
  }
}

}  // namespace

Result<Contents> InspectDumpFolder(const Options& options, const dump::DumpLayout& layout) {
  Contents result;
  result.table =
      report::Table("overview", {"Rank", "File", "Task", "Level", "Framework", "Entries", "Tensors",
                                 "Json_bytes", "Files", "Bytes", "State", "Note"});
  RowFilter filter(options, result);
  std::vector<Part> parts;
  for (Part& part : PartsOf(layout)) {
    if (filter.Matches(part.name) && filter.TakePlace()) {
      parts.push_back(std::move(part));
    }
  }
  std::vector<PartContents> contents(parts.size());
  std::vector<TensorFolder> folders(parts.size());
  base::ThreadPool pool(options.threads);
  base::Progress progress("reading", parts.size(), "dumps", options.quiet);
  pool.ParallelFor(parts.size(), [&](size_t item, size_t /*worker*/) {
    folders[item] = ListTensorFolder(parts[item].rank->folder / dump::kTensorFolderName);
    contents[item] = ReadPart(parts[item], folders[item]);
    progress.Add();
  });

  uint64_t readable = 0;
  uint64_t entries = 0;
  uint64_t tensors = 0;
  uint64_t tensor_bytes = 0;
  uint64_t stored_bytes = 0;
  report::Table& table = result.table;
  const auto text = [&table](std::string_view value) {
    return value.empty() ? Cell() : table.KeepText(value);
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const PartContents& part = contents[i];
    const dump::DumpHeader& header = part.header;
    const bool good = part.status.ok();
    const bool sound = good && !header.truncated && !header.recovery && header.has_data &&
                       part.files_missing == 0 && !part.left_out.any();
    table.AddRow(
        std::vector<Cell>{
            text(parts[i].name), text(parts[i].file), text(header.task.value_or("")),
            text(header.level.value_or("")), text(header.framework.value_or("")),
            good ? CountCell(header.entry_count) : Cell(), good ? CountCell(part.tensors) : Cell(),
            good ? CountCell(header.size_bytes) : Cell(), CountCell(folders[i].names.size()),
            CountCell(folders[i].bytes), text(StateText(part)), text(NoteText(part))},
        sound ? report::Fill::kNone : report::Fill::kRed);
    if (!folders[i].status.ok()) {
      result.warnings.push_back(folders[i].status.message());
    }
    readable += good ? 1 : 0;
    entries += header.entry_count;
    tensors += part.tensors;
    tensor_bytes += folders[i].bytes;
    stored_bytes += folders[i].stored_bytes;
  }
  if (readable == 0 && !parts.empty()) {
    return std::move(contents.front().status);
  }
  std::set<std::optional<int64_t>> steps;
  for (const dump::RankFolder& rank : layout.ranks) {
    steps.insert(rank.step);
  }
  result.summary.push_back(fmt::format("{}: {}, {} in all", layout.root.string(),
                                       Counted(steps.size(), "step"),
                                       Counted(layout.ranks.size(), "rank folder")));
  result.summary.push_back(fmt::format("{} entries, {}, {} of tensor files",
                                       base::FormatCount(entries), Counted(tensors, "tensor"),
                                       base::FormatBytes(tensor_bytes)));
  if (stored_bytes < tensor_bytes) {
    result.summary.push_back(fmt::format(
        "equal tensors share a file: {} on the disk, {:.0f} % saved",
        base::FormatBytes(stored_bytes),
        100.0 * (1.0 - static_cast<double>(stored_bytes) / static_cast<double>(tensor_bytes))));
  }
  WarnAboutMissingRanks(layout, result.warnings);
  if (options.statistics) {
    result.warnings.emplace_back(
        "statistics are shown for one file at a time: name a dump.json, or a folder of tensor "
        "files");
  }
  return result;
}

}  // namespace msprobe::analysis::inspect
