// Two arrays, or two folders of them, element by element: `cn` and `vc` of the interactive tool.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/kernel_dump/vector_compare.h"

namespace msprobe::analysis::kernel_dump {

// Two arrays by the vendor's measures.

// The measures of a table without the divergence and the deviations, in the order of its columns.
inline constexpr std::array<Measure, 8> kFileMeasures = {Measure::kCosine,
                                                         Measure::kMaxAbsolute,
                                                         Measure::kAccumulatedRelative,
                                                         Measure::kRelativeEuclidean,
                                                         Measure::kMeanAbsolute,
                                                         Measure::kRootMeanSquare,
                                                         Measure::kMaxRelative,
                                                         Measure::kMeanRelative};

struct FileComparison {
  std::filesystem::path mine;
  std::filesystem::path golden;
  VectorMeasures measures;
  std::filesystem::path file;  // <output>/file_result_<time>.txt; empty where nothing was compared
  Status status;               // why nothing was compared: kMismatch for shapes that differ
};

// An error when a file cannot be read or the result not be written.
Result<FileComparison> CompareArrayFiles(const std::filesystem::path& mine,
                                         const std::filesystem::path& golden,
                                         const std::filesystem::path& output);

struct ElementPair {
  uint64_t index = 0;
  float left = 0;
  float right = 0;
};

struct ArrayPair {
  struct Side {
    std::filesystem::path path;
    Shape shape;
    DType dtype = DType::kFloat32;
    double max = 0;
    double min = 0;
    double mean = 0;
  };
  Side left;
  Side right;
  uint64_t elements = 0;  // of the longer side; the shorter one goes on with zeros
  bool all_close = false;
  double cosine = 0;    // NaN where a side is all zeros
  uint64_t errors = 0;  // |left - right| > atol + rtol * |right|
  std::vector<ElementPair> first_errors;
  std::vector<ElementPair> first;

  double error_ratio() const {
    return elements == 0 ? 0 : static_cast<double>(errors) / static_cast<double>(elements);
  }
};

struct ArrayCompareOptions {
  std::filesystem::path left;
  std::filesystem::path right;
  uint64_t shown = 20;  // elements of `first_errors` and `first`, at most
  double atol = 0.001;
  double rtol = 0.001;
};
// Elements are compared as float32. Memory is that of a block.
Result<ArrayPair> CompareArrays(const ArrayCompareOptions& options);

// A row for two folders <op>/<time>/*.npy, as `cad` makes them: paired by sorted names of
// operators, times and files.
struct BatchRow {
  std::string left;  // paths
  std::string right;
  double left_mean = 0;
  double right_mean = 0;
  DType dtype = DType::kFloat32;
  bool same_bytes = false;
  double max_absolute = 0;
  double max_relative = 0;
};
struct BatchComparison {
  std::vector<BatchRow> rows;
  std::filesystem::path table;  // batch_compare_<unix time>.csv in the folder for results
};
Result<BatchComparison> CompareArrayFolders(const std::filesystem::path& left,
                                            const std::filesystem::path& right,
                                            const std::filesystem::path& output);

// Whether a folder holds .npy files and nothing else, at any depth, as far as files are concerned.
bool HoldsOnlyArrays(const std::filesystem::path& folder);

}  // namespace msprobe::analysis::kernel_dump
