// Tensors that are not compared as their files hold them: padding cleaned away, multiplied with a
// calibration matrix, or the parts of a fused projection put together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/compare/options.h"
#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/real_data.h"
#include "src/analysis/compare/side.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {

// A matrix and the tensors it is for.
struct Calibration {
  std::string data_names;                              // a pattern with * and ?
  std::shared_ptr<const tensor::TensorBuffer> matrix;  // of all names that it is given for
  uint64_t file_bytes = 0;                             // of the matrix file
  std::string matrix_file;
  bool from_the_left = false;
};

// Reads the sections `right_matmul`, `left_matmul` and `left_right_matmul` with their maps ({matrix
// file: [data_name, ...]}), or the older layout: `mode: right_matmul` (or left_matmul),
// `target_tensor_map` and `golden_tensor_map`, `transpose` and `scale`. What cannot be used is a
// warning: those tensors are compared as they are.
struct Calibrations {
  std::vector<Calibration> target;
  std::vector<Calibration> golden;
  // Sizes of all matrices in memory and of their files. A matrix of which a file holds few
  // elements may be large; all of them take no more than a tensor file may.
  uint64_t matrix_bytes = 0;
  uint64_t file_bytes = 0;
};
Status ReadCalibrations(const std::filesystem::path& file, Calibrations& calibrations,
                        std::vector<std::string>& warnings);

// Limits of the products of one tensor. Files of a few bytes can hold tensors of many equal
// elements, whose product takes hours.
inline constexpr uint64_t kFreeMultiplications = uint64_t{1} << 26U;
inline constexpr uint64_t kMultiplicationsPerByte = 32'768;
inline constexpr uint64_t kFreeProductBytes = uint64_t{1} << 30U;
inline constexpr uint64_t kProductBytesPerByte = 64;
struct ProductBudget {
  // `file_bytes`: of the tensor's file and the files of its matrices.
  explicit ProductBudget(uint64_t file_bytes);

  uint64_t multiplications = 0;
  uint64_t bytes = 0;
};

// The tensor times the matrix, in the wider of the two dtypes (float32 at least for the 16-bit
// floats of other kinds). kMismatch when the sizes do not fit, kUnsupported for a product beyond
// what the budget has left; takes from it.
Result<tensor::TensorBuffer> MultiplyByMatrix(const TensorView& tensor, const TensorView& matrix,
                                              bool from_the_left, ProductBudget& budget);

// Rows of the first axis from `valid_rows` on become zeros, in place; 0-d tensors stay.
void ClearRowsFrom(int64_t valid_rows, const TensorView& shape_of, std::span<std::byte> bytes);

// All changes one comparison needs. Thread-safe once prepared.
class TensorChanges final : public TensorLoader {
 public:
  // `result` tells which bench rows go with the target's calls. Adds to `warnings`.
  static Result<TensorChanges> Prepare(const V26Options& options, const Side& npu,
                                       const Side& bench, const PairResult& result,
                                       std::vector<std::string>& warnings);

  bool empty() const;
  // Tensors that no calibration could be applied to so far, with the reason; they were compared as
  // they are.
  std::vector<std::string> Failures() const;
  Result<std::optional<LoadedTensor>> Load(bool of_npu, const SideRow& row) const override;

 private:
  struct FailureList {
    std::mutex mutex;
    std::vector<std::string> texts;
  };

  TensorChanges(const Side& npu, const Side& bench)
      : npu_(npu), bench_(bench), failures_(std::make_unique<FailureList>()) {}
  void FindValidRows(const V26Options& options, const PairResult& result,
                     std::vector<std::string>& warnings);
  Result<tensor::TensorBuffer> LoadFused(const Side& side, const SideRow& row) const;

  const Side& npu_;
  const Side& bench_;
  bool fused_ = false;
  Calibrations calibrations_;
  std::unordered_map<uint32_t, int64_t> valid_npu_rows_;    // by index into Side::entries
  std::unordered_map<uint32_t, int64_t> valid_bench_rows_;  // with V26Options::strict
  std::unique_ptr<FailureList> failures_;                   // a list that can be moved
};

}  // namespace msprobe::analysis::compare
