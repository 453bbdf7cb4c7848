#include "src/analysis/inspect/dump_contents.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/inspect/inspect.h"
#include "src/analysis/inspect/tensor_contents.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/progress.h"
#include "src/base/strings.h"
#include "src/base/threads.h"
#include "src/base/utf8.h"
#include "src/dump/dump_file.h"
#include "src/dump/entry_tree.h"
#include "src/dump/layout.h"
#include "src/dump/names.h"
#include "src/io/contents.h"
#include "src/report/readers.h"

namespace msprobe::analysis::inspect {
namespace {

namespace fs = std::filesystem;
using report::Cell;

constexpr std::string_view kPytorchHeader =
    "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index";
constexpr std::string_view kMindsporeHeader =
    "rank,pert_type,stage,step,api_name,max_rel,dtype,shape,output_index";
static_assert(kPytorchHeader.size() == kMindsporeHeader.size());
// As of any csv file: each cell takes memory.
constexpr report::ReadLimits kTableLimits;
struct CsvColumn {
  enum : size_t { kRank, kMode, kStage, kStep, kApiName, kMaxRel, kDtype, kCount = 9 };
};

// How far two results of a call are apart. Words of the column max_rel weigh more than any number.
struct Distance {
  int weight = 0;  // 0: not known, as with to_cpu
  double excess = 0;

  auto operator<=>(const Distance&) const = default;
};

std::optional<Distance> DistanceOf(std::string_view max_rel) {
  if (max_rel.empty()) return Distance{};
  if (max_rel == "nan_or_inf") return Distance{4};
  if (max_rel == "symbol_flipping") return Distance{3};
  const std::optional<double> value = base::ParseDouble(max_rel);
  if (!value || std::isnan(*value) || *value < -1) return std::nullopt;
  if (std::isinf(*value) || *value == -1) return Distance{2};
  return Distance{1, *value >= 0 ? *value : 1 / (1 + *value) - 1};
}

struct Function {
  Distance largest;
  std::string worst_call;  // "step 3, rank 0: Torch.exp.1.forward"
  std::string first_step;
  std::set<std::tuple<std::string, std::string, std::string>> calls;  // step, rank, name
  std::set<std::string> steps;
  std::set<std::string> ranks;
  std::set<std::string> modes;
  std::set<std::string> dtypes;
};

// "Torch.exp" of "Torch.exp.1.forward", and of "Torch.exp.1", as MindSpore's rows name calls.
std::string_view FunctionOf(std::string_view call) {
  const size_t direction = call.rfind('.');
  if (direction == std::string_view::npos || direction == 0) return {};
  const std::string_view last = call.substr(direction + 1);
  if (last.find_first_not_of("0123456789") == std::string_view::npos)
    return call.substr(0, direction);
  const size_t number = call.rfind('.', direction - 1);
  return number == std::string_view::npos ? std::string_view() : call.substr(0, number);
}

struct BadLine {
  std::string place;
  std::string why;
};

class Ranking {
 public:
  void Add(const fs::path& file, const report::Table& table) {
    for (size_t i = 0; i < table.row_count(); ++i) {
      const std::string why = AddRow(table.row(i));
      if (!why.empty()) bad.push_back({fmt::format("{} row {}", file.string(), i + 1), why});
    }
  }

  // Ordered: the least stable one first, then the one with more calls, then by name.
  std::vector<std::pair<std::string_view, const Function*>> Sorted() const {
    std::vector<std::pair<std::string_view, const Function*>> sorted;
    for (const auto& [name, function] : functions) sorted.emplace_back(name, &function);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return std::tuple(b.second->largest, b.second->calls.size()) <
             std::tuple(a.second->largest, a.second->calls.size());
    });
    return sorted;
  }

  std::map<std::string, Function> functions;
  std::set<std::tuple<std::string, std::string, std::string>> calls;
  std::set<std::string> steps;
  std::vector<BadLine> bad;

 private:
  // Why it is not a row; empty when it is one.
  std::string AddRow(std::span<const Cell> cells) {
    std::vector<std::string> texts;
    for (const Cell& cell : cells) texts.push_back(report::CellText(cell));
    if (texts.size() < CsvColumn::kCount ||
        std::any_of(texts.begin() + CsvColumn::kCount, texts.end(),
                    [](const auto& t) { return !t.empty(); })) {
      return fmt::format("it does not have {} columns", static_cast<size_t>(CsvColumn::kCount));
    }
    const std::string_view name = FunctionOf(texts[CsvColumn::kApiName]);
    const std::optional<Distance> distance = DistanceOf(texts[CsvColumn::kMaxRel]);
    if (name.empty()) return "its api_name is not the name of a call";
    if (!distance)
      return fmt::format("its max_rel is {}", base::Printable(texts[CsvColumn::kMaxRel]));
    auto [entry, is_new] = functions.try_emplace(std::string(name));
    Function& function = entry->second;
    const auto call =
        std::tuple(texts[CsvColumn::kStep], texts[CsvColumn::kRank], texts[CsvColumn::kApiName]);
    function.calls.insert(call);
    calls.insert(call);
    if (is_new || function.largest < *distance) {
      function.largest = *distance;
      function.worst_call =
          fmt::format("step {}{}: {}", texts[CsvColumn::kStep],
                      texts[CsvColumn::kRank].empty() ? "" : ", rank " + texts[CsvColumn::kRank],
                      texts[CsvColumn::kApiName]);
    }
    if (is_new || base::NaturalLess(texts[CsvColumn::kStep], function.first_step)) {
      function.first_step = texts[CsvColumn::kStep];
    }
    function.steps.insert(texts[CsvColumn::kStep]);
    steps.insert(texts[CsvColumn::kStep]);
    function.ranks.insert(texts[CsvColumn::kRank]);
    function.modes.insert(texts[CsvColumn::kMode] + " " + texts[CsvColumn::kStage]);
    function.dtypes.insert(texts[CsvColumn::kDtype]);
    return {};
  }
};

Cell LargestCell(const Distance& distance) {
  switch (distance.weight) {
    case 4:
      return Cell::Text("NaN or infinite");
    case 3:
      return Cell::Text("signs change");
    case 2:
      return Cell::Text("inf");
    case 1:
      return Cell::Number(distance.excess);
    default:
      return {};
  }
}

std::string LargestText(const Distance& distance) {
  return distance.weight == 1   ? fmt::format("apart by {:.3g}", distance.excess)
         : distance.weight == 2 ? "infinitely far apart"
         : distance.weight == 0 ? "unlike the CPU"
                                : std::string(LargestCell(distance).text());
}

std::string Joined(const std::set<std::string>& texts) {
  return base::Join(std::vector<std::string>(texts.begin(), texts.end()), ", ");
}

void AddRows(const Options& options, const Ranking& ranking, Contents& result) {
  report::Table& table = result.table;
  RowFilter filter(options, result);
  for (const auto& [name, function] : ranking.Sorted()) {
    if (!filter.Matches(name) || !filter.TakePlace()) continue;
    table.AddRow(std::vector<Cell>{
        table.KeepText(name), LargestCell(function->largest), CountCell(function->calls.size()),
        CountCell(function->steps.size()), CountCell(function->ranks.size()),
        table.KeepText(function->first_step), table.KeepText(function->worst_call),
        table.KeepText(Joined(function->modes)), table.KeepText(Joined(function->dtypes)), Cell()});
  }
  for (const BadLine& bad : ranking.bad) {
    if (!filter.Matches(bad.place) || !filter.TakePlace()) continue;
    std::vector<Cell> cells(table.columns().size());
    cells.front() = table.KeepText(bad.place);
    cells.back() = table.KeepText(bad.why);
    table.AddRow(cells, report::Fill::kRed);
  }
}

// Tables of later runs into the same folder have numbers.
bool IsTableName(std::string_view name) {
  return name == "free_benchmark.csv" ||
         (name.starts_with("free_benchmark_") && name.ends_with(".csv"));
}

// Rows up to the last whole line: the last one of a run that was killed may be cut off.
Result<report::Table> ReadWholeLines(const fs::path& file, bool& is_cut) {
  MSP_ASSIGN_OR_RETURN(const base::FileBytes bytes, base::FileBytes::Open(file));
  std::string_view text = bytes.text();
  const size_t end = text.rfind('\n');
  is_cut = !text.empty() && end + 1 != text.size();
  if (is_cut && end != std::string_view::npos) text = text.substr(0, end + 1);
  return report::ReadCsvText(text, "unstable", kTableLimits);
}

}  // namespace

bool IsUnstableCallsFile(const fs::path& path) {
  const std::string text = base::HeadOf(path, kPytorchHeader.size());
  return text == kPytorchHeader || text == kMindsporeHeader;
}

Result<std::vector<fs::path>> UnstableCallsFilesIn(const fs::path& folder) {
  return dump::FilesOfSteps(folder, [](const fs::path& path) {
    return IsTableName(path.filename().string()) && IsUnstableCallsFile(path);
  });
}

Result<Contents> RankUnstableCalls(const Options& options, const std::vector<fs::path>& files) {
  Contents result;
  result.table =
      report::Table("unstable", {"Function", "Largest", "Calls", "Steps", "Ranks", "First_step",
                                 "Worst_call", "Second_run", "Dtype", "Note"});
  Ranking ranking;
  size_t readable = 0;
  Status last;
  for (const fs::path& file : files) {
    bool is_cut = false;
    const Result<report::Table> table = ReadWholeLines(file, is_cut);
    if (!table.ok()) {
      last = Status(table.status()).AddContext(fmt::format("cannot read {}", file.string()));
      ranking.bad.push_back({file.string(), table.status().message()});
      continue;
    }
    ++readable;
    ranking.Add(file, *table);
    if (is_cut) ranking.bad.push_back({file.string(), "its last row is cut off"});
  }
  if (readable == 0) return last;
  const auto sorted = ranking.Sorted();
  if (sorted.empty()) {
    result.summary.push_back(fmt::format("{}: no unstable call", options.path.string()));
  } else {
    result.summary.push_back(fmt::format("{}: {} {} unstable, most of all {} ({})",
                                         options.path.string(), Counted(sorted.size(), "function"),
                                         sorted.size() == 1 ? "is" : "are", sorted.front().first,
                                         LargestText(sorted.front().second->largest)));
    result.summary.push_back(
        fmt::format("{} of {}, in {}", Counted(ranking.calls.size(), "unstable call"),
                    Counted(ranking.steps.size(), "step"), Counted(readable, "file")));
  }
  AddRows(options, ranking, result);
  if (options.statistics) {
    result.warnings.emplace_back("--stats is for tensors: the table has been ranked as it is");
  }
  return result;
}

namespace {

// One dump.json or debug.json of one rank.
struct Part {
  const dump::RankFolder* rank = nullptr;
  std::string name;  // "step0/rank1"
  std::string file;
};

// manifest.json of a capture that left calls out on purpose, as for a budget.
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

// The contents of dump_tensor_data; a missing folder is an empty one.
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
  const Result<dump::EntryTree> tree =
      text.ok() ? dump::ParseEntry(*text) : Result<dump::EntryTree>(text.status());
  if (!tree.ok() || (*tree)[0].kind != dump::NodeKind::kObject) {
    return left_out;
  }
  for (const auto& [key, count] : {std::pair("dropped_records", &left_out.records),
                                   std::pair("dropped_files", &left_out.files)}) {
    const uint32_t node = tree->Find(0, key);
    if (node != dump::EntryTree::kNone && (*tree)[node].kind == dump::NodeKind::kInt) {
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

namespace {

using dump::EntryTree;
using dump::Node;
using dump::NodeKind;

enum Column : size_t {
  kName,
  kType,
  kShape,
  kMax,
  kMin,
  kMean,
  kNorm,
  kNaN,
  kInf,
  kZeros,
  kRequiresGrad,
  kMd5,
  kValue,
  kFile,
  kNote,
  kColumnCount,
};
constexpr std::array<std::string_view, kColumnCount> kColumnNames = {"Name",
                                                                     "Type",
                                                                     "Shape",
                                                                     dump::KeyOf(dump::kMax),
                                                                     dump::KeyOf(dump::kMin),
                                                                     dump::KeyOf(dump::kMean),
                                                                     dump::KeyOf(dump::kNorm),
                                                                     "NaN",
                                                                     "Inf",
                                                                     "Zeros",
                                                                     "Requires_grad",
                                                                     "Md5",
                                                                     "Value",
                                                                     "File",
                                                                     "Note"};

// Longer names and values than any real dump has are cut, so that a hostile one cannot fill the
// memory.
constexpr size_t kMaxNameBytes = 1000;
constexpr size_t kMaxValueBytes = 200;

struct Row {
  std::array<Cell, kColumnCount> cells;
  bool bad = false;
};

std::string_view KindName(NodeKind kind) {
  switch (kind) {
    case NodeKind::kNull:
      return "null";
    case NodeKind::kBool:
      return "bool";
    case NodeKind::kInt:
      return "int";
    case NodeKind::kFloat:
      return "float";
    case NodeKind::kText:
      return "str";
    case NodeKind::kList:
      return "list";
    case NodeKind::kObject:
      return "object";
  }
  return "";
}

class Reader {
 public:
  explicit Reader(const Options& options) : options_(options), filter_(options, result_) {
    result_.table = report::Table("contents", {kColumnNames.begin(), kColumnNames.end()});
  }

  Result<Contents> Run() {
    MSP_ASSIGN_OR_RETURN(const dump::DumpHeader header,
                         dump::ReadDumpFile(options_.path, {.allow_truncated = true},
                                            [this](std::string_view name, const EntryTree& tree) {
                                              AddEntry(name, tree);
                                              return OkStatus();
                                            }));
    if (!header.has_data && !header.truncated) {
      return BadFormatError(
                 fmt::format("{} is not a dump: it has no object \"data\"", options_.path.string()))
          .WithHint(
              "a dump.json or debug.json holds task, level, framework, dump_data_dir and data");
    }
    if (options_.statistics) {
      ComputeStatistics();
    }
    for (const Row& row : rows_) {
      result_.table.AddRow(row.cells, row.bad ? report::Fill::kRed : report::Fill::kNone);
    }
    Summarize(header);
    return std::move(result_);
  }

 private:
  Cell Text(std::string_view text, size_t limit = kMaxValueBytes) {
    if (text.empty()) {
      return {};
    }
    return text.size() <= limit ? result_.table.KeepText(text)
                                : result_.table.KeepText(base::Shortened(text, limit));
  }

  Cell ValueCell(const EntryTree& tree, uint32_t index) {
    const Node& node = tree[index];
    switch (node.kind) {
      case NodeKind::kNull:
        return {};
      case NodeKind::kBool:
        return FlagCell(node.boolean);
      case NodeKind::kInt:
        return Cell::Integer(node.integer);
      case NodeKind::kFloat:
        return NumberCell(node.number);
      default:
        return Text(dump::CompactText(tree, index));
    }
  }

  Cell MemberCell(const EntryTree& tree, uint32_t leaf, std::string_view key) {
    const uint32_t child = tree.Find(leaf, key);
    return child == EntryTree::kNone ? Cell() : ValueCell(tree, child);
  }

  void AddEntry(std::string_view name, const EntryTree& tree) {
    const dump::EntryName parsed = dump::ParseEntryName(name);
    if (parsed.direction == dump::Direction::kForward) {
      ++forward_;
    } else if (parsed.direction == dump::Direction::kBackward) {
      ++backward_;
    } else if (parsed.is_parameters_grad) {
      ++gradients_;
    }
    walker_.ForEach(base::Shortened(name, kMaxNameBytes), tree,
                    [this, &tree](std::string_view leaf_name, uint32_t index) {
                      AddLeaf(leaf_name, tree, index);
                    });
  }

  void AddLeaf(std::string_view name, const EntryTree& tree, uint32_t index) {
    const bool is_tensor = dump::IsTensorLeaf(tree, index);
    tensors_ += is_tensor ? 1 : 0;
    const std::string_view shown_name = name.substr(0, kMaxNameBytes);
    if (!filter_.Matches(shown_name) || !filter_.TakePlace()) {
      return;
    }
    Row row;
    row.cells[kName] = Text(shown_name, kMaxNameBytes);
    if (is_tensor) {
      FillTensor(tree, index, row);
    } else {
      FillValue(tree, index, row);
    }
    rows_.push_back(row);
  }

  void FillTensor(const EntryTree& tree, uint32_t index, Row& row) {
    row.cells[kType] = Text(dump::LeafText(tree, index, "dtype"));
    row.cells[kShape] = MemberCell(tree, index, "shape");
    for (size_t i = 0; i < dump::kStatisticCount; ++i) {
      row.cells[kMax + i] = MemberCell(tree, index, dump::kStatisticKeys[i]);
    }
    row.cells[kRequiresGrad] = MemberCell(tree, index, "requires_grad");
    row.cells[kMd5] = MemberCell(tree, index, "md5");
    row.cells[kFile] = MemberCell(tree, index, "data_name");
    if (const std::string_view file = dump::LeafText(tree, index, "data_name");
        !file.empty() && options_.statistics) {
      const auto [known, is_new] = place_of_file_.try_emplace(std::string(file), files_.size());
      if (is_new) {
        files_.push_back(known->first);
      }
      work_.push_back({rows_.size(), known->second});
    }
  }

  void FillValue(const EntryTree& tree, uint32_t index, Row& row) {
    if (tree[index].kind != NodeKind::kObject) {
      row.cells[kType] = Text(KindName(tree[index].kind));
      row.cells[kValue] = ValueCell(tree, index);
      return;
    }
    row.cells[kType] = Text(dump::LeafText(tree, index, "type"));
    for (std::string_view key : {"value", "format", "group_ranks"}) {
      if (const uint32_t child = tree.Find(index, key); child != EntryTree::kNone) {
        row.cells[kValue] = ValueCell(tree, child);
        return;
      }
    }
  }

  void ComputeStatistics() {
    if (work_.empty()) {
      result_.warnings.emplace_back(
          "no tensor files belong to the rows shown: the statistics are those of the capture");
      return;
    }
    const fs::path folder = options_.path.parent_path() / dump::kTensorFolderName;
    base::ThreadPool pool(options_.threads);
    base::Progress progress("reading", files_.size(), "tensors", options_.quiet);
    std::vector<std::vector<std::byte>> file_bytes(pool.thread_count());
    std::vector<std::vector<std::byte>> scratch(pool.thread_count());
    // A file is read once, however many rows name it.
    std::vector<Result<kernels::TensorStats>> outcomes(files_.size(), kernels::TensorStats{});
    pool.ParallelFor(files_.size(), [&](size_t item, size_t worker) {
      outcomes[item] = StatisticsOfFile(folder, files_[item], file_bytes[worker], scratch[worker]);
      progress.Add();
    });
    for (const Work& work : work_) {
      Row& row = rows_[work.row];
      const Result<kernels::TensorStats>& outcome = outcomes[work.file];
      if (!outcome.ok()) {
        row.cells[kNote] = Text(outcome.status().message(), kMaxNameBytes);
        row.bad = true;
        if (bad_files_++ == 0) {
          first_bad_ = outcome.status().message();
        }
        continue;
      }
      const kernels::TensorStats& stats = *outcome;
      if (stats.element_count > 0) {
        row.cells[kMax] = NumberCell(stats.max);
        row.cells[kMin] = NumberCell(stats.min);
        row.cells[kMean] = NumberCell(stats.mean);
        row.cells[kNorm] = NumberCell(stats.norm);
      }
      row.cells[kNaN] = CountCell(stats.nan_count);
      row.cells[kInf] = CountCell(stats.positive_inf_count + stats.negative_inf_count);
      row.cells[kZeros] = CountCell(stats.zero_count);
    }
  }

  static Result<kernels::TensorStats> StatisticsOfFile(const fs::path& folder,
                                                       const std::string& name,
                                                       std::vector<std::byte>& file_bytes,
                                                       std::vector<std::byte>& scratch) {
    if (name.find('/') != std::string::npos) {
      return BadFormatError(
          fmt::format("data_name \"{}\" points outside {}", name, dump::kTensorFolderName));
    }
    TensorFile::Options open;
    open.scratch = &file_bytes;
    MSP_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::Open(folder / name, open));
    MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, file.Single());
    MSP_RETURN_IF_ERROR(tensor->status);
    std::error_code ignored;
    const uintmax_t size = fs::file_size(folder / name, ignored);
    MSP_RETURN_IF_ERROR(io::ReadBudget(ignored ? 0 : size).Take(tensor->view));
    return StatisticsOf(file, tensor->view, scratch);
  }

  void Summarize(const dump::DumpHeader& header) {
    result_.summary.push_back(fmt::format(
        "{}: task {}, level {}, framework {}, {}", options_.path.string(),
        header.task.value_or("unknown"), header.level.value_or("unknown"),
        header.framework.value_or("not recorded"), base::FormatBytes(header.size_bytes)));
    std::string counts =
        header.entry_count == 1 ? "1 entry" : base::FormatCount(header.entry_count) + " entries";
    if (forward_ + backward_ + gradients_ > 0) {
      counts += fmt::format(" ({} forward, {} backward, {} of parameter gradients)",
                            base::FormatCount(forward_), base::FormatCount(backward_),
                            base::FormatCount(gradients_));
    }
    result_.summary.push_back(counts + ", " + Counted(tensors_, "tensor"));
    if (header.recovery) {
      result_.warnings.push_back(
          fmt::format("{}: the capture was interrupted; showing what its log holds",
                      options_.path.parent_path().string()));
    }
    if (header.truncated) {
      result_.warnings.push_back(fmt::format("{} is truncated: only its complete entries are shown",
                                             options_.path.string()));
    }
    if (bad_files_ > 0) {
      result_.warnings.push_back(fmt::format("{} could not be read; the first: {}",
                                             Counted(bad_files_, "tensor file"), first_bad_));
    }
  }

  const Options& options_;
  Contents result_;
  RowFilter filter_;
  dump::LeafWalker walker_;
  std::vector<Row> rows_;
  struct Work {
    size_t row;
    size_t file;  // in files_
  };
  std::vector<Work> work_;
  std::vector<std::string> files_;  // each once
  std::unordered_map<std::string, size_t> place_of_file_;
  uint64_t forward_ = 0;
  uint64_t backward_ = 0;
  uint64_t gradients_ = 0;
  uint64_t tensors_ = 0;
  uint64_t bad_files_ = 0;
  std::string first_bad_;  // why
};

}  // namespace

Result<Contents> InspectDumpFile(const Options& options) { return Reader(options).Run(); }

}  // namespace msprobe::analysis::inspect
