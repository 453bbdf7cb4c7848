#include "src/analysis/inspect/unstable_calls.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/inspect/cells.h"
#include "src/base/files.h"
#include "src/base/numbers.h"
#include "src/base/strings.h"
#include "src/dump/layout.h"
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
  int weight = 0;  // 0: not told, as with to_cpu
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
  // Why it is no row; empty when it is one.
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

}  // namespace msprobe::analysis::inspect
