// Tensors in entries.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "src/capture/entry.h"
#include "src/capture/step_recording.h"
#include "src/capture/tensor_values.h"
#include "src/dump/record_log.h"
#include "src/io/dense_view.h"

namespace msprobe::capture {
namespace {

void PutNullStatistics(json::Writer& json) {
  for (const char* key : kStatisticKeys) {
    json.Key(key);
    json.Null();
  }
}

void PutExtended(const TensorValues& values, json::Writer& json) {
  json.Key("extended");
  json.BeginObject();
  json.Member("nan_count", values.counts.nan_count);
  json.Member("positive_infinity_count", values.counts.positive_inf_count);
  json.Member("negative_infinity_count", values.counts.negative_inf_count);
  json.Member("zero_count", values.counts.zero_count);
  json.Member("finite_max", values.finite_max);
  json.Member("finite_min", values.finite_min);
  json.EndObject();
}

// A view of the described memory, when it can be one.
Result<TensorView> ViewOf(const TensorDescription& tensor) {
  TensorView view;
  view.dtype = *tensor.dtype;
  MSP_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t bytes,
                       io::DenseBytes(tensor.shape, DTypeSize(view.dtype)));
  view.shape = tensor.shape;
  view.strides = tensor.strides.empty() ? ContiguousStrides(tensor.shape) : tensor.strides;
  if (view.strides.size() != view.shape.size() ||
      std::any_of(view.strides.begin(), view.strides.end(), [](int64_t s) { return s < 0; })) {
    return UnsupportedError("strides that are negative, or of another rank than the shape");
  }
  view.data = static_cast<const std::byte*>(tensor.data);
  int64_t last = 0;
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    last += std::max<int64_t>(view.shape[axis] - 1, 0) * view.strides[axis];
  }
  view.extent_bytes = static_cast<size_t>(last + 1) * DTypeSize(view.dtype);
  view.conjugated = tensor.conjugated && GetDTypeInfo(view.dtype).kind == DTypeKind::kComplex;
  view.negated = tensor.negated;
  return view;
}

}  // namespace

void Entry::PutTensorHead(const TensorDescription& tensor) {
  json_->Key("type");
  json_->Text(tensor.type);
  json_->Key("dtype");
  json_->Text(tensor.dtype_text);
  json_->Key("shape");
  json_->BeginArray();
  for (const int64_t size : tensor.shape) {
    json_->Int(size);
  }
  json_->EndArray();
}

bool Entry::WantsFile() {
  if (!saves_tensors_) {
    saves_tensors_ = step_->SavesTensors(name_);
  }
  return *saves_tensors_;
}

void Entry::PutTensor(const TensorDescription& tensor) { DescribeTensor(tensor, false); }

uint64_t Entry::PutTensorDeferred(const TensorDescription& tensor) {
  return DescribeTensor(tensor, true);
}

uint64_t Entry::DescribeTensor(const TensorDescription& tensor, bool deferred) {
  if (!BeginValue()) {
    return 0;
  }
  ++tensor_count_;
  const Settings& settings = step_->settings();
  // Whether it overflowed has to be known at the commit.
  deferred &= settings.task != Task::kOverflowCheck && tensor.dtype.has_value();
  const bool is_xor = settings.summary_mode == SummaryMode::kXor;
  const bool is_md5 = settings.summary_mode == SummaryMode::kMd5;

  std::optional<TensorView> view;
  bool is_empty = false;
  if (tensor.dtype) {
    if (Result<TensorView> made = ViewOf(tensor); made.ok()) {
      is_empty = made->element_count() == 0;
      if (!is_empty && tensor.data != nullptr) {
        view = *std::move(made);
      }
    } else {
      Fail(std::move(made).status().AddContext("a tensor at " + path_));
    }
  }

  TensorValues values;
  std::optional<TensorJob> job;
  if (view) {
    ValueRequest request;
    request.rules = step_->statistic_rules();
    request.rules.is_numpy = tensor.is_numpy;
    request.statistics = !deferred && (!is_xor || settings.task == Task::kOverflowCheck);
    request.extended = settings.extended_statistics && request.statistics;
    request.crc32 = is_md5;
    request.xor64 = is_xor;
    job = PrepareFile(*view);
    request.copy_to = job ? job->memory.data() : nullptr;
    if (request.statistics || request.crc32 || request.xor64 || request.copy_to != nullptr) {
      values = ExamineTensor(*view, request);
    }
    overflowed_ |= values.overflowed();
  }

  uint64_t ticket = 0;
  json_->BeginObject();
  PutTensorHead(tensor);
  if (is_xor) {
    // No statistics.
  } else if (deferred && (view || !is_empty)) {
    ticket = step_->AddStatistics(*tensor.dtype, tensor.shape.empty(), tensor.is_numpy);
    for (size_t i = 0; i < kStatisticKeys.size(); ++i) {
      json_->Key(kStatisticKeys[i]);
      json_->Raw(dump::HoleText(ticket + i));
    }
  } else if (view) {
    for (size_t i = 0; i < kStatisticKeys.size(); ++i) {
      json_->Key(kStatisticKeys[i]);
      PutStatistic(values.statistics[i], *json_);
    }
  } else {
    PutNullStatistics(*json_);
  }
  if (tensor.requires_grad) {
    json_->Key("requires_grad");
    json_->Bool(*tensor.requires_grad);
  }
  PutChecksum(values, is_empty);
  if (WantsFile() && (view || is_empty)) {
    json_->Key("data_name");
    json_->Text(job ? job->name : TensorFileName(path_, step_->tensor_files()->kind()));
  }
  if (settings.extended_statistics && view && !deferred && !is_xor) {
    PutExtended(values, *json_);
  }
  json_->EndObject();

  if (job) {
    job->data_crc32 = values.copy_crc32;
    files_.push_back(*std::move(job));
  } else if (is_empty && WantsFile()) {
    TensorJob empty;
    empty.files = step_->tensor_files();
    empty.name = TensorFileName(path_, empty.files->kind());
    empty.dtype = *tensor.dtype;
    empty.shape = tensor.shape;
    files_.push_back(std::move(empty));
  }
  return ticket;
}

void Entry::PutChecksum(const TensorValues& values, bool is_empty) {
  const SummaryMode mode = step_->settings().summary_mode;
  if (mode == SummaryMode::kMd5 && (values.crc32 || is_empty)) {
    json_->Key("md5");
    json_->Text(fmt::format("{:08x}", values.crc32.value_or(0)));
  } else if (mode == SummaryMode::kXor && (values.xor64 || is_empty)) {
    json_->Key("md5");
    json_->Int(values.xor64.value_or(0));
  }
}

std::optional<TensorJob> Entry::PrepareFile(const TensorView& view) {
  if (!WantsFile()) {
    return std::nullopt;
  }
  TensorWriters& writers = *step_->engine().writers;
  TensorJob job;
  job.files = step_->tensor_files();
  job.name = TensorFileName(path_, job.files->kind());
  job.dtype = view.dtype;
  job.shape = view.shape;
  const size_t size_bytes = view.size_bytes();
  job.memory = writers.TryTake(size_bytes);
  const bool may_wait = step_->settings().task != Task::kOverflowCheck;
  if (!job.memory && may_wait && writers.fits(size_bytes)) {
    // What this piece holds back itself must not be waited for.
    SubmitFiles();
    job.memory = writers.Take(size_bytes, kPatience);
  }
  if (job.memory) {
    return job;
  }
  const uint64_t ticket = job.files->Announce(job.name, size_bytes);
  if (may_wait && !writers.fits(size_bytes)) {
    // Larger than all the memory there is for copies: it goes from where it lies.
    job.files->Write(job.name, ticket, view, std::nullopt);
  } else {
    job.files->Lose(
        job.name, size_bytes,
        IoError(fmt::format("no memory for a copy of {} bytes (writer_memory_bytes)", size_bytes)));
  }
  return std::nullopt;
}

}  // namespace msprobe::capture
