// Rows whose tensors were saved: opens both files of each pair and compares their elements.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_file.h"
#include "msprobe/tensor_view.h"

#include "src/analysis/compare/pair_result.h"
#include "src/analysis/compare/side.h"
#include "src/base/threads.h"
#include "src/kernels/compare.h"
#include "src/layout/whole_tensor.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {

// The six metrics of two tensors and the verdict made of them, with every special case of the
// table's cells.

struct RealMetrics {
  std::array<Metric, kMetricSlots> metrics;  // by RealMetric; the last two slots are unused
  std::string message;                       // empty when there is nothing to say
  Distance distance;
};

// All six cells the same text: "unsupported", "shape unmatched", "N/A".
RealMetrics UniformRealMetrics(std::string_view cell_text, std::string message);

// The editions differ in relative errors only: v26 computes them in float32 at least, and those of
// single values always so unless one is float64.

// The checks that need no sums, in order: an empty tensor, two 0-d tensors (which get their metrics
// here), different shapes. nullopt: the sums over all elements decide.
std::optional<RealMetrics> RealMetricsWithoutSums(const TensorView& npu, const TensorView& bench,
                                                  Edition edition = Edition::kV8);

// The sums over elements [first, first + count) of two tensors of equal shape, block by block;
// memory is one block per side.
kernels::ComparePartial SumsOfRange(const TensorView& npu, const TensorView& bench, int64_t first,
                                    int64_t count, Edition edition = Edition::kV8);

// Cells of two tensors of equal shape, at least one axis and one element, from the sums over all
// their elements.
RealMetrics RealMetricsFromSums(const kernels::ComparePartial& sums, const TensorView& npu,
                                const TensorView& bench);

// All of the above in one thread.
RealMetrics ComputeRealMetrics(const TensorView& npu, const TensorView& bench,
                               Edition edition = Edition::kV8);

// The same elements without the axes of size 1: what v26 compares.
TensorView Squeezed(const TensorView& view);

// "Accuracy Reached or Not".
Verdict RealVerdict(const std::array<Metric, kMetricSlots>& metrics);

// The only tensor of a file, row-major, of no more than kMostTensorBytes.
inline constexpr size_t kMostTensorBytes = size_t{16} << 30U;
Result<tensor::TensorBuffer> ReadWholeTensor(const std::filesystem::path& file);

// A tensor that is not compared as its file holds it: one in memory, or one whose elements are made
// of those of several files when they are read.
struct LoadedTensor {
  LoadedTensor() = default;
  LoadedTensor(tensor::TensorBuffer made)  // NOLINT(google-explicit-constructor)
      : buffer(std::move(made)) {}

  std::optional<tensor::TensorBuffer> buffer;
  std::shared_ptr<const layout::WholeTensor> whole;  // in place of the buffer
  std::shared_ptr<const void> files;                 // that it reads from
  std::function<void()> release_pages;               // of these; may be empty
};

// Tensors that are compared otherwise than as their files hold them. Thread-safe.
class TensorLoader {
 public:
  virtual ~TensorLoader() = default;
  // Row-major; nullopt: the row's file as it is. An error marks the row.
  virtual Result<std::optional<LoadedTensor>> Load(bool of_npu, const SideRow& row) const = 0;
  // Both tensors were compared, with this result. True: they are to be loaded once more, because
  // there is another way to read them that fits better. By the thread that compares the row.
  virtual bool Reconsider(const SideRow& /*npu*/, const SideRow& /*bench*/,
                          const Distance& /*distance*/) const {
    return false;
  }
};

// The tensor of a row, opened.
struct OpenTensor {
  std::optional<TensorFile> file;
  std::optional<LoadedTensor> changed;  // in place of the file
  TensorView view;                      // of a whole made of pieces dtype and shape alone

  // Null: the elements are those of the view.
  const layout::WholeTensor* whole() const {
    return changed && changed->whole && changed->whole->piece() == nullptr ? changed->whole.get()
                                                                           : nullptr;
  }
  // Pages of mapped files count as our memory until they are let go.
  void ReleasePages(const TensorView& of, int64_t first, int64_t count) const;
};
// `loader` may be null; small files are read into `scratch`, which outlives what is opened.
Result<OpenTensor> OpenRow(const Side& side, bool of_npu, const SideRow& row,
                           const TensorLoader* loader, std::vector<std::byte>* scratch);

class UserMetrics;  // user_metrics.h

// Fills metrics, verdict, message and distance of every row of `result`. A file that cannot be read
// marks its row. The values do not depend on the number of threads. Memory: two blocks per thread
// besides mapped files.
void CompareRealData(const Side& npu, const Side& bench, base::ThreadPool& pool, bool quiet,
                     PairResult& result, const TensorLoader* loader = nullptr,
                     UserMetrics* user = nullptr);

}  // namespace msprobe::analysis::compare
