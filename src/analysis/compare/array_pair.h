// Two .npy files side by side, and the folders they lie in: what the MindSpore folder comparisons
// share.
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

#include "src/analysis/compare/folder_counts.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_metrics.h"
#include "src/analysis/compare/side.h"
#include "src/report/table.h"

namespace msprobe::analysis::compare {

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
  // are no elements.
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

}  // namespace msprobe::analysis::compare
