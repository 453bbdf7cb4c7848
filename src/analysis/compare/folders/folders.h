// Folders of .pt files without a dump.json, one file per tensor, as a captured ACL graph writes
// them: {call}.{input|input_kwargs|output}[.{n}].pt, or {name}_{n}.pt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
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

// What lies at the two paths of a comparison, where the command line does not say.

enum class FolderKind : uint8_t {
  kCalls,     // dump.json files, one per step and rank; also where nothing can be recognised
  kKernels,   // kernel dumps, or kernel dumps and the calls above them
  kAtb,       // execution rounds of the Ascend Transformer Boost
  kTorchair,  // graphs that torchair runs: kernels of GE, arrays of FX
  kGraph,     // kernels of a MindSpore graph as .npy files or a statistic.csv
  kTensors,   // a .pt file per tensor, of a captured ACL graph
  kCommon,    // .npy files of single-point saves
};

// What options ask for; else by the files there. ATB rounds, graphs and tensor files must be
// on both sides.
FolderKind FolderKindOf(const Options& options);

// How many rows of a table agree, and which is the first that does not.

struct FolderCounts : RowCounts {
  std::string first_differing;  // the first such row in a sentence; empty: none

  // A row with values on both sides. Rows come in the order in which their operators ran, inputs
  // before outputs.
  void Add(const Distance& distance, double noise, std::string_view name);
};

// What rounding alone may cause: a few units in the last place of the coarser dtype.
double FolderNoise(DType npu, DType bench);
// The same of statistics that were written with six digits.
inline constexpr double kTextNoise = 1e-4;

// Of Max, Min, Mean and Norm; NaN where there is no number.
Distance FolderDistance(const std::array<double, kStatCount>& npu,
                        const std::array<double, kStatCount>& bench);

// Two .npy files side by side, and the folders they lie in: what the MindSpore folder comparisons
// share.

inline constexpr std::string_view kArraySuffix = ".npy";

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

// What the table shows of one array.
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
  bool unreadable = false;  // a file that is there could not be read
};

// Reads both files (an empty path: that side has none). Small files go through the two scratch
// buffers.
struct ArrayScratch {
  std::vector<std::byte> npu;
  std::vector<std::byte> bench;
};
ArrayPair CompareArrays(const std::filesystem::path& npu, const std::filesystem::path& bench,
                        ArrayScratch& scratch);

// Counts what keeps the two from being compared (no file, unreadable, another shape or dtype); else
// what rounding alone may cause.
std::optional<double> NoiseOrCount(const ArrayPair& pair, bool has_npu, bool has_bench,
                                   FolderCounts& counts);

// "(3, 4)", "(3,)", "()".
std::string NumpyShapeText(const Shape& shape);

// A statistic as a cell: blank for NaN, text for infinities, "True"/"False" for the extremes of a
// bool array.
report::Cell ArrayStatCell(const ArraySummary& summary, Stat stat);
// The same with the fewest digits that name the value in the array's own dtype (0.1 of a float32,
// not 0.1000000014901161).
report::Cell ShortArrayStatCell(const ArraySummary& summary, Stat stat);

struct Folder {
  std::filesystem::path path;
  std::vector<std::string> files;  // names of regular files, sorted
  bool has_subfolders = false;
};
// `root` and every folder below it, at most `max_depth` levels down, parents first, sorted;
// symbolic links are not followed.
Result<std::vector<Folder>> WalkFolders(const std::filesystem::path& root, int max_depth);

// Folders of .npy files from single-point saves: every folder against the folder of the same
// relative path.

// Files are grouped by name without dtype and number ("out_float32_3.npy" -> "out"), groups paired
// by name or by options.folders.common_map, files within a group by their numbers. One result.csv
// per folder.
Result<FolderComparison> CompareCommonFolders(const Options& options, base::ThreadPool& pool);

// Rows of two sides that no dump.json describes: they pair by name.

// Rows of one name pair whatever their dtypes, unless their shapes differ; such rows say so and
// stay unmatched. A row that could not be read, without a shape, pairs with the other one, so that
// it is reported as unreadable.
RowMapping MapRowsByName(Side& npu, const Side& bench);

// Whether there is such a file in the folder or below it.
bool HoldsTensorFiles(const std::filesystem::path& folder);

// Folders of equal paths below both sides pair, and where each side has one only these two.
// kNotFound when none does.
Result<PairingPlan> PlanTensorFolders(const Options& options);

// Files of one name pair; their calls stand in the order of their names and numbers, since no file
// tells the order in which they ran. planned.npu_json and bench_json are the folders.
Result<ComparedPair> CompareTensorFolders(const Options& options, const PlannedPair& planned,
                                          base::ThreadPool& pool);

}  // namespace msprobe::analysis::compare
