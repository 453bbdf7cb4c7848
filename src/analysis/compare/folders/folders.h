// Comparisons of folders that no dump.json describes.
//
// Two kinds of sides become rows of calls and go the way of dump.json files (compare_pair.h):
// kernel dumps (kernels.h) and .pt files of one tensor each. The others have tables of their own:
// MindSpore graphs, single-point saves, ATB rounds and torchair. Of these each comparison finds its
// pairs and says how a pair becomes a row; CompareRows does the rest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/compare_pair.h"
#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/pairing.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/analysis/compare/summary.h"
#include "src/base/threads.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

enum class FolderKind : uint8_t {
  kCalls,     // dump.json files, one per step and rank; also where nothing can be recognised
  kKernels,   // kernel dumps, or kernel dumps and the calls above them
  kAtb,       // execution rounds of the Ascend Transformer Boost
  kTorchair,  // graphs that torchair runs: kernels of GE, arrays of FX
  kGraph,     // kernels of a MindSpore graph as .npy files or a statistic.csv
  kTensors,   // a .pt file per tensor, of a captured ACL graph
  kCommon,    // .npy files of single-point saves
};

// By the options; else by the files at both paths. ATB rounds, graphs and tensor files must be on
// both sides.
FolderKind FolderKindOf(const Options& options);

// ---- tables ----

// How many rows of a table agree, and which is the first that does not.
struct FolderCounts : RowCounts {
  std::string first_differing;  // in a sentence; empty: none
};

// One result file of a folder comparison.
struct FolderTable {
  std::filesystem::path folder;  // below the output folder; may be empty
  std::string name;              // file name up to the time stamp
  std::string name_end;          // behind the time stamp: "_slice_0" or nothing
  bool is_csv = false;           // a .csv without time stamp, else .xlsx
  bool styled_header = false;
  report::Table table;
  FolderCounts counts;
};

struct FolderComparison {
  std::vector<FolderTable> tables;
  std::vector<std::string> warnings;  // folders without a partner, files of unknown names, ...
};

// A row as one thread makes it: its cells, and what it adds to the counts.
struct FolderRow {
  enum class Outcome : uint8_t { kCompared, kNoValues, kNpuOnly, kBenchOnly, kMismatched };

  size_t table = 0;  // index into FolderComparison::tables
  std::vector<std::variant<report::Cell, std::string>> cells;
  Outcome outcome = Outcome::kCompared;
  bool unreadable = false;  // a file of either side
  Distance distance;        // kCompared
  double noise = 0;         // the relative distance that counts as rounding
  std::string name;         // in FolderCounts::first_differing
  std::string time;         // digits: when it was written; may be empty
  std::string warning;      // empty: none

  void Add(report::Cell cell) { cells.emplace_back(cell); }
  void Add(std::string text) { cells.emplace_back(std::move(text)); }
  // A blank cell unless `present`.
  void AddIf(bool present, std::string text) {
    present ? Add(std::move(text)) : Add(report::Cell());
  }
};

// Appends the rows of `count` pairs to their tables, in the order of the pairs; all threads
// compare. The first differing row of a table is the first of its rows, or the first that was
// written.
enum class FirstBy : uint8_t { kPlace, kTime };
void CompareRows(size_t count, const std::function<FolderRow(size_t pair, size_t worker)>& row_of,
                 FirstBy first_by, base::ThreadPool& pool, FolderComparison& comparison);

// Digits compare as numbers however long they are; anything else as text behind them.
bool WrittenBefore(std::string_view time, std::string_view other);

// The relative distance that rounding alone may cause: a few units in the last place of the coarser
// dtype.
double FolderNoise(DType npu, DType bench);
// The same of statistics that were written with six digits.
inline constexpr double kTextNoise = 1e-4;

// The distance of Max, Min, Mean and Norm; NaN where one of them is missing.
Distance FolderDistance(const std::array<double, kStatCount>& npu,
                        const std::array<double, kStatCount>& bench);

// ---- .npy files ----

inline constexpr std::string_view kArraySuffix = ".npy";

// An array as the table shows it.
struct ArraySummary {
  DType dtype = DType::kFloat32;
  Shape shape;
  // Max, Min, Mean, Norm, rounded to the array's own dtype as NumPy returns them; NaN when there
  // are not elements.
  std::array<double, kStatCount> stats{};
};
ArraySummary SummarizeArray(const TensorView& view);

struct ArrayPair {
  std::optional<ArraySummary> npu;  // nullopt: no such file, or unreadable (see message)
  std::optional<ArraySummary> bench;
  // With both sides: the full chain of checks and the six metrics of the real-data comparison.
  RealMetrics result;
};

struct ArrayScratch {
  std::vector<std::byte> npu;
  std::vector<std::byte> bench;
};
// Reads both files (an empty path: that side has none), small ones through the scratch buffers, and
// sets how `row` counts.
ArrayPair CompareArrays(const std::filesystem::path& npu, const std::filesystem::path& bench,
                        ArrayScratch& scratch, FolderRow& row);

// The cells that rows of arrays have in common; `missing` stands for a side that is not there.
void AddTypesAndShapes(const ArrayPair& pair, report::Cell missing, FolderRow& row);
enum class Digits : uint8_t { kAll, kShortest };  // shortest: that name the value in its own dtype
void AddStatistics(const ArrayPair& pair, report::Cell missing, Digits digits, FolderRow& row);
void AddMetrics(const RealMetrics& metrics, FolderRow& row);

// A statistic as a cell: blank for NaN, text for infinities, "True"/"False" for the extremes of a
// bool array.
report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat, Digits digits = Digits::kAll);

// ---- folders ----

struct Folder {
  std::filesystem::path path;
  std::vector<std::string> files;  // names of regular files, sorted
  bool has_subfolders = false;
};
// `root` and every folder below it, at most `max_depth` levels down, parents first, sorted;
// symbolic links are not followed.
Result<std::vector<Folder>> WalkFolders(const std::filesystem::path& root, int max_depth);

// A number in digits, as names of folders have it.
std::optional<int64_t> FolderNumber(std::string_view text);

// ---- the comparisons ----

// Folders of .npy files from single-point saves: every folder against the folder of the same
// relative path. Files are grouped by name without dtype and number ("out_float32_3.npy" -> "out"),
// groups paired by name or by options.folders.common_map, files within a group by their numbers.
// One result.csv per folder.
Result<FolderComparison> CompareCommonFolders(const Options& options, base::ThreadPool& pool);

// MindSpore static-graph kernel dumps: every (rank, step) that both paths hold, filtered by
// options.folders.rank_ids (not given: all) and step_ids, in rising order. Tables are named
// compare_result_<rank>_<step>. A pair that cannot be compared is a warning; none at all an error.
Result<FolderComparison> CompareGraphFolders(const Options& options, base::ThreadPool& pool);
// Whether there is such a folder, of whatever rank and step.
bool HoldsGraphKernels(const std::filesystem::path& folder);

// Two execution rounds of the Ascend Transformer Boost, each a folder with statistic.csv and the
// tensors of every operator. Rows pair by operator, its place and the tensor's index; only rows of
// both sides are listed, in target order. One table: statistics where the dumps hold no tensors,
// else metrics of the tensors. kMismatch when the two are of different kinds or have no row in
// common.
Result<FolderComparison> CompareAtb(const Options& options, base::ThreadPool& pool);
// Whether the folder holds a statistic.csv of such a round.
bool IsAtbRound(const std::filesystem::path& folder);

// ---- a .pt file per tensor, as a captured ACL graph writes them ----
// {call}.{input|input_kwargs|output}[.{n}].pt, or {name}_{n}.pt.

// Whether there is such a file in the folder or below it.
bool HoldsTensorFiles(const std::filesystem::path& folder);

// Folders of equal paths below both sides pair, and where each side has one only these two.
// kNotFound when none does.
Result<PairingPlan> PlanTensorFolders(const Options& options);

// Files of one name pair; their calls are in the order of their names and numbers, since no file
// tells the order in which they ran. planned.input.npu_json and bench_json are the folders.
Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool);

// ---- sides that are made of files ----

// A side of the task "tensor" whose rows have no dump.json; `folder` is where its files are.
Side MakeFileSide(const std::filesystem::path& folder);

// Fills the facts of a tensor into its row, or the reason why it could not be read.
void DescribeTensor(const Result<ArraySummary>& tensor, Side& side, SideRow& row);

// Rows of one name pair whatever their dtypes, unless their shapes differ; such rows say so and
// stay unmatched. A row that could not be read, without a shape, pairs with the other one, so that
// it is reported as unreadable.
RowMapping MapRowsByName(Side& npu, const Side& bench);

// MindSpore graphs: how their kernels pair, and how large tables are cut.

// A tensor by what identifies it in both runs, and when it was written.
struct KernelKey {
  std::string key;   // operator name, task, direction, slot
  std::string time;  // digits
};

inline constexpr size_t kNoKernel = SIZE_MAX;
struct KernelPair {
  size_t npu = kNoKernel;
  size_t bench = kNoKernel;
};

// Pairs the n-th of a key in time with the n-th of that key on the other side. NPU rows in their
// order, then rows of the bench side alone in its order.
std::vector<KernelPair> PairKernels(const std::vector<KernelKey>& npu,
                                    const std::vector<KernelKey>& bench);

// (first row, row count) of each part of a table that is halved until no part exceeds `limit` rows.
std::vector<std::pair<size_t, size_t>> HalveRows(size_t row_count, size_t limit);

}  // namespace msprobe::analysis::compare
