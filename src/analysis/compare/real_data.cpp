#include "src/analysis/compare/real_data.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "msprobe/tensor_file.h"

#include "src/analysis/compare/distance.h"
#include "src/analysis/compare/real_metrics.h"
#include "src/base/progress.h"
#include "src/dump/leaves.h"

namespace msprobe::analysis::compare {
namespace {

// Tensors above this many elements are cut into chunks that all threads share; below, threads share
// whole rows.
constexpr int64_t kLargeTensorElements = int64_t{1} << 24U;
constexpr int64_t kChunkElements = int64_t{1} << 21U;

struct OpenTensor {
  std::optional<TensorFile> file;
  std::optional<tensor::TensorBuffer> changed;  // in place of the file
  TensorView view;
};

Result<OpenTensor> OpenSide(const Side& side, std::string_view data_name,
                            std::vector<std::byte>* scratch) {
  MSP_RETURN_IF_ERROR(dump::CheckDataName(data_name));
  TensorFile::Options options;
  options.scratch = scratch;
  OpenTensor open;
  MSP_ASSIGN_OR_RETURN(open.file, TensorFile::Open(side.tensor_folder / data_name, options));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, open.file->Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  open.view = tensor->view;
  return open;
}

class RealDataComparison {
 public:
  RealDataComparison(const Side& npu, const Side& bench, base::ThreadPool& pool, PairResult& result,
                     const TensorLoader* loader)
      : npu_(npu),
        bench_(bench),
        pool_(pool),
        result_(result),
        loader_(loader),
        scratch_(pool.thread_count() * 2) {}

  void Run(bool quiet) {
    const std::vector<size_t> rows = RowsWithFiles();
    base::Progress progress("comparing", rows.size(), "tensors", quiet);
    std::mutex large_mutex;
    std::vector<size_t> large_rows;
    pool_.ParallelFor(rows.size(), [&](size_t item, size_t worker) {
      const size_t index = rows[item];
      uint64_t bytes = 0;
      if (CompareRow(index, worker, /*large_too=*/false, &bytes)) {
        progress.Add(1, bytes);
      } else {
        const std::lock_guard lock(large_mutex);
        large_rows.push_back(index);
      }
    });
    std::sort(large_rows.begin(), large_rows.end());
    for (const size_t index : large_rows) {
      uint64_t bytes = 0;
      CompareRow(index, 0, /*large_too=*/true, &bytes);
      progress.Add(1, bytes);
    }
    result_.compared_bytes = compared_bytes_;
    if (!unreadable_rows_.empty()) {
      result_.unreadable_count = unreadable_rows_.size();
      const size_t first = *std::min_element(unreadable_rows_.begin(), unreadable_rows_.end());
      result_.first_unreadable = result_.rows[first].message;
    }
  }

 private:
  // Settles the rows that have no pair of files and returns the others.
  std::vector<size_t> RowsWithFiles() {
    std::vector<size_t> rows;
    for (size_t i = 0; i < result_.rows.size(); ++i) {
      RowResult& row = result_.rows[i];
      const SideRow& npu_row = npu_.rows[row.pair.npu];
      if (row.pair.bench == kNoRow) {
        Fill(row, UniformRealMetrics("unsupported", "No bench row matches. "));
        continue;
      }
      const SideRow& bench_row = bench_.rows[row.pair.bench];
      const bool npu_file = npu_row.data_name != "-1";
      const bool bench_file = bench_row.data_name != "-1";
      if (npu_file && bench_file) {
        rows.push_back(i);
        continue;
      }
      RealMetrics metrics = UniformRealMetrics(
          "unsupported", npu_file || bench_file ? npu_file ? "The bench side has no tensor file. "
                                                           : "The NPU side has no tensor file. "
                                                : "Neither side has a tensor file. ");
      metrics.distance = StatisticsDistance(npu_row, bench_row);
      Fill(row, metrics);
    }
    return rows;
  }

  Result<OpenTensor> OpenRow(bool of_npu, const SideRow& row, std::vector<std::byte>* scratch) {
    if (loader_ != nullptr) {
      MSP_ASSIGN_OR_RETURN(std::optional<tensor::TensorBuffer> changed, loader_->Load(of_npu, row));
      if (changed) {
        OpenTensor open;
        open.changed = std::move(changed);
        open.view = open.changed->view();
        return open;
      }
    }
    return OpenSide(of_npu ? npu_ : bench_, row.data_name, scratch);
  }

  // Returns false, leaving the row alone, when the tensors are large and `large_too` is off.
  bool CompareRow(size_t index, size_t worker, bool large_too, uint64_t* bytes) {
    RowResult& row = result_.rows[index];
    const SideRow& npu_row = npu_.rows[row.pair.npu];
    const SideRow& bench_row = bench_.rows[row.pair.bench];
    Result<OpenTensor> npu = OpenRow(true, npu_row, &scratch_[worker * 2]);
    Result<OpenTensor> bench = OpenRow(false, bench_row, &scratch_[worker * 2 + 1]);
    if (!npu.ok() || !bench.ok()) {
      const Status& status = npu.ok() ? bench.status() : npu.status();
      RealMetrics metrics = UniformRealMetrics("unsupported", status.message() + " ");
      metrics.distance = StatisticsDistance(npu_row, bench_row);
      Fill(row, metrics);
      const std::lock_guard lock(arena_mutex_);
      unreadable_rows_.push_back(index);
      return true;
    }
    const bool squeezed = result_.edition == Edition::k26;
    const TensorView n = squeezed ? Squeezed(npu->view) : npu->view;
    const TensorView b = squeezed ? Squeezed(bench->view) : bench->view;
    if (std::optional<RealMetrics> early = RealMetricsWithoutSums(n, b, result_.edition)) {
      Fill(row, *std::move(early));
      return true;
    }
    const int64_t count = n.element_count();
    if (count > kLargeTensorElements && !large_too) {
      return false;
    }
    *bytes = n.size_bytes() + b.size_bytes();
    compared_bytes_ += *bytes;
    const kernels::ComparePartial sums = count > kLargeTensorElements
                                             ? SumsInChunks(*npu, *bench, n, b)
                                             : SumsOfRange(n, b, 0, count, result_.edition);
    Fill(row, RealMetricsFromSums(sums, n, b));
    return true;
  }

  // The chunks' sums are merged in order of position: the same bits with one thread or many.
  kernels::ComparePartial SumsInChunks(OpenTensor& npu, OpenTensor& bench, const TensorView& n,
                                       const TensorView& b) {
    const int64_t count = n.element_count();
    const auto chunks = static_cast<size_t>((count + kChunkElements - 1) / kChunkElements);
    std::vector<kernels::ComparePartial> partials(chunks);
    pool_.ParallelFor(chunks, [&](size_t chunk, size_t) {
      const int64_t first = static_cast<int64_t>(chunk) * kChunkElements;
      const int64_t step = std::min(kChunkElements, count - first);
      partials[chunk] = SumsOfRange(n, b, first, step, result_.edition);
      // Pages of a mapping count as our memory until they are let go.
      for (const auto& [side, view] : {std::pair(&npu, &n), std::pair(&bench, &b)}) {
        if (side->file) {
          side->file->ReleasePages(*view, first, step);
        }
      }
    });
    kernels::ComparePartial total = partials[0];
    for (size_t chunk = 1; chunk < chunks; ++chunk) {
      kernels::MergeCompare(total, partials[chunk]);
    }
    return total;
  }

  void Fill(RowResult& row, const RealMetrics& metrics) {
    row.metrics = metrics.metrics;
    row.verdict = RealVerdict(metrics.metrics);
    row.distance = metrics.distance;
    const std::lock_guard lock(arena_mutex_);
    row.message = result_.arena->Keep(metrics.message);
  }

  const Side& npu_;
  const Side& bench_;
  base::ThreadPool& pool_;
  PairResult& result_;
  const TensorLoader* loader_;                   // may be null
  std::vector<std::vector<std::byte>> scratch_;  // two per worker
  std::mutex arena_mutex_;                       // of the messages and the list below
  std::vector<size_t> unreadable_rows_;
  std::atomic<uint64_t> compared_bytes_{0};
};

}  // namespace

void CompareRealData(const Side& npu, const Side& bench, base::ThreadPool& pool, bool quiet,
                     PairResult& result, const TensorLoader* loader) {
  RealDataComparison(npu, bench, pool, result, loader).Run(quiet);
}

}  // namespace msprobe::analysis::compare
