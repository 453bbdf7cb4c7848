// Metrics of rows whose tensors were saved.
//
// Every row reads its two files whole, or maps large ones and reads them in blocks. Empty tensors,
// single values and different shapes are settled without a pass; all others go through one pass
// that converts both sides block by block and adds up what every metric needs: the dot product and
// norms of the cosine, the largest absolute and relative errors, the shares within 0.001 and 0.005,
// and the distance by which rows are judged. Small rows are shared among threads as a whole.
// Tensors above kLargeTensorElements come afterwards, one by one, in chunks that all threads share;
// sums of chunks are merged by position. The figures are therefore the same for any number of
// threads.
#include "src/analysis/compare/real_data.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/analysis/compare/agreement.h"
#include "src/analysis/compare/statistics.h"
#include "src/analysis/compare/user_metrics.h"
#include "src/base/buffer_pool.h"
#include "src/base/mapped_reads.h"
#include "src/base/progress.h"
#include "src/dump/dump_file.h"
#include "src/kernels/convert.h"
#include "src/tensor/element_blocks.h"
#include "src/tensor/tensor_buffer.h"

namespace msprobe::analysis::compare {
namespace {

using kernels::ComparePartial;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr std::string_view kUnsupported = "unsupported";
constexpr std::string_view kNanCell = "Nan";
// A trailing tab keeps spreadsheets from reading the text as a number.
constexpr std::string_view kInfCell = "inf\t";
constexpr std::string_view kNegativeInfCell = "-inf\t";

// Twelve decimals, as printf's %.12f rounds.
double RoundTo12Decimals(double value) {
  if (std::fabs(value) >= 1e15) {
    return value;  // no decimals left to round
  }
  std::array<char, 40> text{};
  const auto end = fmt::format_to_n(text.data(), text.size() - 1, "{:.12f}", value);
  *end.out = '\0';
  return std::strtod(text.data(), nullptr);
}

Metric FiniteOrText(double value) {
  if (std::isnan(value)) {
    return Metric::Text(kNanCell);
  }
  if (std::isinf(value)) {
    return Metric::Text(value > 0 ? kInfCell : kNegativeInfCell);
  }
  return Metric::Number(value);
}

Metric Rounded(double value) {
  return FiniteOrText(std::isfinite(value) ? RoundTo12Decimals(value) : value);
}

Metric Cosine(const ComparePartial& sums, std::string& message) {
  const double npu_norm = std::sqrt(sums.npu_square_sum);
  const double bench_norm = std::sqrt(sums.bench_square_sum);
  if (npu_norm <= kEpsilon && bench_norm <= kEpsilon) {
    return Metric::Number(1.0);
  }
  if (npu_norm <= kEpsilon || bench_norm <= kEpsilon) {
    message += fmt::format("No cosine: every value of the {} tensor is zero. ",
                           npu_norm <= kEpsilon ? "NPU" : "bench");
    return Metric::Text(kNanCell);
  }
  // Divided one after the other: the product of two large norms would overflow.
  double cosine = sums.dot / npu_norm / bench_norm;
  if (std::isnan(cosine)) {
    message += "No cosine: the sums of the data are not finite. ";
    return Metric::Text(kNanCell);
  }
  cosine = RoundTo12Decimals(cosine);
  if (cosine > 0.9999) {
    cosine = std::round(cosine * 1e6) / 1e6;
  }
  return Metric::Number(cosine);
}

Distance DistanceOf(const ComparePartial& sums) {
  Distance distance;
  distance.comparable = true;
  distance.nonfinite_differs = sums.nonfinite_mismatch_count > 0 || sums.opposite_inf_count > 0;
  distance.identical = sums.different_count == 0 && !distance.nonfinite_differs;
  const double reference = sums.bench_square_sum > 0 ? sums.bench_square_sum : sums.npu_square_sum;
  distance.relative = reference > 0 ? std::sqrt(sums.difference_square_sum / reference) : 0.0;
  distance.absolute = sums.max_abs_error;
  return distance;
}

// One element as a double; 64-bit integers lose digits beyond 2^53.
double ScalarValue(const TensorView& view) {
  std::array<std::byte, 16> bytes{};
  tensor::CopyElements(view, 0, 1, bytes.data());
  double value = 0;
  kernels::WidenToDouble(view.dtype, std::span(bytes.data(), DTypeSize(view.dtype)),
                         std::span(&value, 1));
  return value;
}

// Whether two dtypes are the same once bfloat16 has been widened to float32.
bool SameDTypeAfterWidening(DType npu, DType bench) {
  const auto widened = [](DType dtype) {
    return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype;
  };
  return widened(npu) == widened(bench);
}

constexpr const char* kDTypeMessage = "The dtypes of NPU and bench tensor differ. ";

kernels::RelativeArithmetic ArithmeticOf(Edition edition) {
  return edition == Edition::kV26 ? kernels::RelativeArithmetic::kAtLeastFloat32
                                  : kernels::RelativeArithmetic::kOfDTypes;
}

// |(n - b) / b| of two single values in float32, unless one of them is float64; the epsilon of the
// type is added to both where b is 0.
double SingleRelativeError(const TensorView& npu, const TensorView& bench) {
  const double n = ScalarValue(npu);
  const double b = ScalarValue(bench);
  if (npu.dtype == DType::kFloat64 || bench.dtype == DType::kFloat64) {
    const double added = b == 0 ? kEpsilon : 0.0;
    return std::fabs((n - b) / (b + added));
  }
  const float added = b == 0 ? std::numeric_limits<float>::epsilon() : 0.0F;
  const float narrow_n = static_cast<float>(n) + added;
  const float narrow_b = static_cast<float>(b) + added;
  return static_cast<double>(std::fabs((narrow_n - narrow_b) / narrow_b));
}

RealMetrics ZeroDimensional(const TensorView& npu, const TensorView& bench, Edition edition) {
  const ComparePartial sums = [&] {
    std::array<std::byte, 16> n{};
    std::array<std::byte, 16> b{};
    tensor::CopyElements(npu, 0, 1, n.data());
    tensor::CopyElements(bench, 0, 1, b.data());
    return kernels::CompareTensors(npu.dtype, n.data(), bench.dtype, b.data(), 1,
                                   ArithmeticOf(edition));
  }();
  RealMetrics result = UniformRealMetrics(
      kUnsupported, "A 0-d tensor has no cosine, euclidean distance or error ratios. ");
  result.distance = DistanceOf(sums);
  double absolute = sums.max_abs_error;
  double relative = sums.max_relative_error;
  if (sums.nonfinite_match_count + sums.nonfinite_mismatch_count > 0) {
    // Single values are compared as they are: nothing is taken out for being NaN or infinite.
    const double n = ScalarValue(npu);
    const double b = ScalarValue(bench);
    absolute = std::fabs(n - b);
    relative = std::fabs((n - b) / b);
  } else if (edition == Edition::kV26) {
    relative = SingleRelativeError(npu, bench);
  }
  result.metrics[kMaxAbsErr] = Rounded(absolute);
  result.metrics[kMaxRelativeErr] = Rounded(relative);
  if (std::isnan(absolute)) {
    result.message += "No maximum absolute error: the data holds NaN or infinity. ";
  }
  if (std::isnan(relative)) {
    result.message += "No maximum relative error: the data holds NaN or infinity. ";
  }
  if (!SameDTypeAfterWidening(npu.dtype, bench.dtype)) {
    result.message += kDTypeMessage;
  }
  return result;
}

}  // namespace

RealMetrics UniformRealMetrics(std::string_view cell_text, std::string message) {
  RealMetrics result;
  result.metrics.fill(Metric::Text(cell_text));
  result.message = std::move(message);
  return result;
}

RealMetrics RealMetricsFromSums(const ComparePartial& sums, const TensorView& npu,
                                const TensorView& bench) {
  if (sums.nonfinite_mismatch_count > 0) {
    RealMetrics result = UniformRealMetrics(
        kNotApplicable, fmt::format("NaN or infinity at {} positions of one side only. ",
                                    sums.nonfinite_mismatch_count));
    result.distance = DistanceOf(sums);
    return result;
  }
  RealMetrics result;
  std::string& message = result.message;
  const auto count = static_cast<double>(sums.element_count);
  if (sums.element_count == 1) {
    result.metrics[kCosine] = Metric::Text(kUnsupported);
    message += "One element has no cosine. ";
  } else {
    result.metrics[kCosine] = Cosine(sums, message);
  }
  result.metrics[kEucDist] = FiniteOrText(std::sqrt(sums.difference_square_sum));
  result.metrics[kMaxAbsErr] = Rounded(sums.max_abs_error);
  if (std::isnan(sums.max_abs_error)) {
    message += "No maximum absolute error: the difference is not a number. ";
  }
  result.metrics[kMaxRelativeErr] = Rounded(sums.max_relative_error);
  if (std::isnan(sums.max_relative_error)) {
    message += "No maximum relative error: a quotient is not a number. ";
  }
  result.metrics[kOneThousandth] =
      Rounded(static_cast<double>(sums.below_one_thousandth_count) / count);
  result.metrics[kFiveThousandths] =
      Rounded(static_cast<double>(sums.below_five_thousandths_count) / count);
  if (!SameDTypeAfterWidening(npu.dtype, bench.dtype)) {
    message += kDTypeMessage;
  }
  result.distance = DistanceOf(sums);
  return result;
}

std::optional<RealMetrics> RealMetricsWithoutSums(const TensorView& npu, const TensorView& bench,
                                                  Edition edition) {
  if (npu.element_count() == 0) {
    return UniformRealMetrics(kUnsupported, "The NPU tensor is empty. ");
  }
  if (npu.shape.empty() && bench.shape.empty()) {
    return ZeroDimensional(npu, bench, edition);
  }
  if (npu.shape != bench.shape) {
    return UniformRealMetrics("shape unmatched",
                              fmt::format("The tensor shapes differ: NPU {}, bench {}. ",
                                          ShapeText(npu.shape), ShapeText(bench.shape)));
  }
  return std::nullopt;
}

namespace {

// Runs of elements of one side: of a view, or of a whole whose pieces lie in several files.
class RowReader {
 public:
  RowReader(const TensorView& view, const layout::WholeTensor* whole,
            std::vector<std::byte>& scratch)
      : view_(view, scratch, tensor::BlockReader::Source::kFile),
        whole_(whole),
        scratch_(scratch) {}

  std::span<const std::byte> Read(size_t first, size_t count) {
    if (whole_ == nullptr) {
      return view_.Read(first, count);
    }
    const size_t bytes = count * DTypeSize(whole_->dtype());
    scratch_.resize(std::max(scratch_.size(), bytes));
    whole_->Copy(static_cast<int64_t>(first), static_cast<int64_t>(count), scratch_.data());
    return std::span(scratch_).first(bytes);
  }

 private:
  tensor::BlockReader view_;
  const layout::WholeTensor* whole_;
  std::vector<std::byte>& scratch_;
};

ComparePartial SumsOfRuns(const TensorView& npu, const layout::WholeTensor* npu_whole,
                          const TensorView& bench, const layout::WholeTensor* bench_whole,
                          int64_t first, int64_t count, Edition edition) {
  thread_local std::vector<std::byte> npu_scratch;
  thread_local std::vector<std::byte> bench_scratch;
  RowReader left(npu, npu_whole, npu_scratch);
  RowReader right(bench, bench_whole, bench_scratch);
  ComparePartial total;
  const auto begin = static_cast<size_t>(first);
  const size_t end = begin + static_cast<size_t>(count);
  for (size_t at = begin; at < end; at += tensor::kSumBlockElements) {
    const size_t elements = std::min(tensor::kSumBlockElements, end - at);
    const std::span<const std::byte> n = left.Read(at, elements);
    const std::span<const std::byte> b = right.Read(at, elements);
    const ComparePartial block = kernels::CompareBlock(npu.dtype, n.data(), bench.dtype, b.data(),
                                                       elements, ArithmeticOf(edition));
    if (at == begin) {
      total = block;
    } else {
      kernels::MergeCompare(total, block);
    }
  }
  return total;
}

}  // namespace

kernels::ComparePartial SumsOfRange(const TensorView& npu, const TensorView& bench, int64_t first,
                                    int64_t count, Edition edition) {
  return SumsOfRuns(npu, nullptr, bench, nullptr, first, count, edition);
}

RealMetrics ComputeRealMetrics(const TensorView& npu, const TensorView& bench, Edition edition) {
  if (std::optional<RealMetrics> early = RealMetricsWithoutSums(npu, bench, edition)) {
    return *std::move(early);
  }
  return RealMetricsFromSums(SumsOfRange(npu, bench, 0, npu.element_count(), edition), npu, bench);
}

TensorView Squeezed(const TensorView& view) {
  TensorView squeezed = view;
  squeezed.shape.clear();
  squeezed.strides.clear();
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    if (view.shape[axis] != 1) {
      squeezed.shape.push_back(view.shape[axis]);
      squeezed.strides.push_back(view.strides[axis]);
    }
  }
  return squeezed;
}

Verdict RealVerdict(const std::array<Metric, kMetricSlots>& metrics) {
  const Metric& cosine = metrics[kCosine];
  const Metric& max_abs = metrics[kMaxAbsErr];
  const auto is_text = [](const Metric& metric, std::string_view text) {
    return metric.kind == MetricKind::kText && metric.text() == text;
  };
  if (is_text(cosine, "shape unmatched")) {
    return Verdict::kUnmatched;
  }
  if (is_text(cosine, kNotApplicable) || is_text(max_abs, kNotApplicable)) {
    return Verdict::kNo;
  }
  // "Nan" and "inf" read as numbers; any other text means that there is nothing to judge.
  const auto value_of = [](const Metric& metric) -> std::optional<double> {
    if (metric.kind == MetricKind::kNumber) {
      return metric.number();
    }
    if (metric.text() == kNanCell) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    if (metric.text() == kInfCell || metric.text() == kNegativeInfCell) {
      return metric.text() == kInfCell ? HUGE_VAL : -HUGE_VAL;
    }
    return std::nullopt;
  };
  const std::optional<double> cosine_value = value_of(cosine);
  const std::optional<double> max_abs_value = value_of(max_abs);
  if (!cosine_value || !max_abs_value) {
    return Verdict::kNone;
  }
  if ((*cosine_value<accuracy::kGoodCosine&& * max_abs_value> accuracy::kGoodMaxAbs) ||
      *cosine_value < accuracy::kLowestCosine || *max_abs_value > accuracy::kLargestMaxAbs) {
    return Verdict::kNo;
  }
  return Verdict::kYes;
}

namespace {

// Tensors above this many elements are cut into chunks that all threads share; below, threads share
// whole rows.
constexpr int64_t kLargeTensorElements = int64_t{1} << 24U;
constexpr int64_t kChunkElements = int64_t{1} << 21U;

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

}  // namespace

void OpenTensor::ReleasePages(const TensorView& of, int64_t first, int64_t count) const {
  if (file) {
    file->ReleasePages(of, first, count);
  } else if (changed && changed->release_pages) {
    changed->release_pages();
  }
}

Result<OpenTensor> OpenRow(const Side& side, bool of_npu, const SideRow& row,
                           const TensorLoader* loader, std::vector<std::byte>* scratch) {
  if (loader != nullptr) {
    MSP_ASSIGN_OR_RETURN(std::optional<LoadedTensor> changed, loader->Load(of_npu, row));
    if (changed) {
      OpenTensor open;
      open.changed = std::move(changed);
      if (const layout::WholeTensor* const whole = open.whole()) {
        open.view.dtype = whole->dtype();
        open.view.shape = whole->shape();
        open.view.strides = ContiguousStrides(whole->shape());
      } else {
        open.view =
            open.changed->buffer ? open.changed->buffer->view() : *open.changed->whole->piece();
      }
      return open;
    }
  }
  return OpenSide(side, row.data_name, scratch);
}

namespace {

class RealDataComparison {
 public:
  RealDataComparison(const Side& npu, const Side& bench, base::ThreadPool& pool, PairResult& result,
                     const TensorLoader* loader, UserMetrics* user)
      : npu_(npu),
        bench_(bench),
        pool_(pool),
        result_(result),
        loader_(loader),
        user_(user),
        scratch_(pool.thread_count() * 2) {
    for (std::vector<std::byte>& scratch : scratch_) {
      scratch.reserve(base::kReadWholeBelowBytes);
      base::AskForHugePages(scratch.data(), scratch.capacity());
    }
  }

  void Run(bool quiet) {
    const std::vector<size_t> rows = RowsWithFiles();
    base::FilesAhead ahead(rows.size(), [&](size_t item) { return FilesOf(rows[item]); });
    base::Progress progress("comparing", rows.size(), "tensors", quiet);
    std::mutex large_mutex;
    std::vector<size_t> large_rows;
    pool_.ParallelFor(rows.size(), [&](size_t item, size_t worker) {
      const size_t index = rows[item];
      uint64_t bytes = 0;
      const auto begin = std::chrono::steady_clock::now();
      if (CompareRow(index, worker, /*large_too=*/false, &bytes)) {
        ahead.Took(item, bytes, std::chrono::steady_clock::now() - begin);
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

  std::vector<std::filesystem::path> FilesOf(size_t index) const {
    const RowPair& pair = result_.rows[index].pair;
    std::vector<std::filesystem::path> files;
    for (const auto& [side, row] : {std::pair(&npu_, pair.npu), std::pair(&bench_, pair.bench)}) {
      const std::string_view name = side->rows[row].data_name;
      if (dump::CheckDataName(name).ok()) {
        files.push_back(side->tensor_folder / name);
      }
    }
    return files;
  }

  // Returns false, leaving the row alone, when the tensors are large and `large_too` is off.
  bool CompareRow(size_t index, size_t worker, bool large_too, uint64_t* bytes) {
    RowResult& row = result_.rows[index];
    const SideRow& npu_row = npu_.rows[row.pair.npu];
    const SideRow& bench_row = bench_.rows[row.pair.bench];
    Result<OpenTensor> npu = OpenRow(npu_, true, npu_row, loader_, &scratch_[worker * 2]);
    Result<OpenTensor> bench =
        OpenRow(bench_, false, bench_row, loader_, &scratch_[worker * 2 + 1]);
    if (!npu.ok() || !bench.ok()) {
      const Status& status = npu.ok() ? bench.status() : npu.status();
      RealMetrics metrics = UniformRealMetrics("unsupported", status.message() + " ");
      metrics.distance = StatisticsDistance(npu_row, bench_row);
      Fill(row, metrics);
      const std::lock_guard lock(arena_mutex_);
      unreadable_rows_.push_back(index);
      return true;
    }
    const int64_t count = npu->view.element_count();
    if (count > kLargeTensorElements && count == bench->view.element_count() && !large_too) {
      return false;
    }
    RealMetrics metrics = MetricsOf(index, *npu, *bench, bytes);
    if (loader_ != nullptr && loader_->Reconsider(npu_row, bench_row, metrics.distance)) {
      npu = OpenRow(npu_, true, npu_row, loader_, &scratch_[worker * 2]);
      bench = OpenRow(bench_, false, bench_row, loader_, &scratch_[worker * 2 + 1]);
      if (npu.ok() && bench.ok()) {
        uint64_t again = 0;
        metrics = MetricsOf(index, *npu, *bench, &again);
      }
    }
    compared_bytes_ += *bytes;
    Fill(row, metrics);
    return true;
  }

  // `bytes`: those that were compared.
  RealMetrics MetricsOf(size_t row, OpenTensor& npu, OpenTensor& bench, uint64_t* bytes) {
    const bool squeezed = result_.edition == Edition::kV26;
    const TensorView n = squeezed ? Squeezed(npu.view) : npu.view;
    const TensorView b = squeezed ? Squeezed(bench.view) : bench.view;
    const auto tell_user = [&](const ComparePartial* sums) {
      if (user_ != nullptr) {
        user_->Add(row, npu_.rows[result_.rows[row].pair.npu].name, sums, n, npu.whole(), b,
                   bench.whole());
      }
    };
    if (std::optional<RealMetrics> early = RealMetricsWithoutSums(n, b, result_.edition)) {
      if (n.shape.empty() && b.shape.empty()) {
        tell_user(nullptr);
      }
      return *std::move(early);
    }
    *bytes = n.size_bytes() + b.size_bytes();
    const int64_t count = n.element_count();
    const ComparePartial sums =
        count > kLargeTensorElements
            ? SumsInChunks(npu, bench, n, b)
            : SumsOfRuns(n, npu.whole(), b, bench.whole(), 0, count, result_.edition);
    if (sums.nonfinite_mismatch_count == 0) {
      tell_user(&sums);
    }
    return RealMetricsFromSums(sums, n, b);
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
      partials[chunk] = SumsOfRuns(n, npu.whole(), b, bench.whole(), first, step, result_.edition);
      npu.ReleasePages(n, first, step);
      bench.ReleasePages(b, first, step);
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
  UserMetrics* user_;                            // the same
  std::vector<std::vector<std::byte>> scratch_;  // two per worker
  std::mutex arena_mutex_;                       // of the messages and the list below
  std::vector<size_t> unreadable_rows_;
  std::atomic<uint64_t> compared_bytes_{0};
};

}  // namespace

void CompareRealData(const Side& npu, const Side& bench, base::ThreadPool& pool, bool quiet,
                     PairResult& result, const TensorLoader* loader, UserMetrics* user) {
  RealDataComparison(npu, bench, pool, result, loader, user).Run(quiet);
}

Result<tensor::TensorBuffer> ReadWholeTensor(const std::filesystem::path& file) {
  MSP_ASSIGN_OR_RETURN(const TensorFile opened, TensorFile::Open(file, {}));
  MSP_ASSIGN_OR_RETURN(const NamedTensor* tensor, opened.Single());
  MSP_RETURN_IF_ERROR(tensor->status);
  return tensor::MakeContiguous(tensor->view, kMostTensorBytes);
}

}  // namespace msprobe::analysis::compare
