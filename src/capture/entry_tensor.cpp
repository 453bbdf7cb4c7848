// Tensors in entries.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "src/capture/device_overflow.h"
#include "src/capture/entry.h"
#include "src/capture/step_recording.h"
#include "src/capture/tensor_values.h"
#include "src/dump/record_log.h"
#include "src/io/dense_view.h"

namespace msprobe::capture {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 56U;

}  // namespace

DeviceCopies::Source SourceOf(const TensorDescription& tensor, size_t bytes) {
  DeviceCopies::Source source;
  source.kind = tensor.device;
  source.device = tensor.device_index;
  source.data = tensor.data;
  source.bytes = bytes;
  source.stream = tensor.stream;
  return source;
}

Status MakeView(const TensorDescription& tensor, TensorView& view) {
  view.dtype = *tensor.dtype;
  MSP_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t bytes,
                       io::DenseBytes(tensor.shape, DTypeSize(view.dtype)));
  view.shape = tensor.shape;
  if (tensor.strides.empty()) {
    // Row-major: what DenseBytes has checked fits.
    view.strides.resize(tensor.shape.size());
    int64_t step = 1;
    for (size_t axis = tensor.shape.size(); axis-- > 0;) {
      view.strides[axis] = step;
      step *= std::max<int64_t>(tensor.shape[axis], 1);
    }
  } else {
    view.strides = tensor.strides;
  }
  if (view.strides.size() != view.shape.size() ||
      std::any_of(view.strides.begin(), view.strides.end(), [](int64_t s) { return s < 0; })) {
    return UnsupportedError("strides that are negative, or of another rank than the shape");
  }
  view.data = static_cast<const std::byte*>(tensor.data);
  int64_t last = 0;  // element that the strides can reach
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(view.shape[axis] - 1, 0), view.strides[axis],
                               &reach) ||
        __builtin_add_overflow(last, reach, &last) || last > kMostElements) {
      return UnsupportedError("strides that reach beyond any memory");
    }
  }
  view.extent_bytes = static_cast<size_t>(last + 1) * DTypeSize(view.dtype);
  view.byte_swapped = false;
  view.conjugated = tensor.conjugated && GetDTypeInfo(view.dtype).kind == DTypeKind::kComplex;
  view.negated = tensor.negated;
  return {};
}

Result<TensorView> ViewOf(const TensorDescription& tensor) {
  TensorView view;
  MSP_RETURN_IF_ERROR(MakeView(tensor, view));
  return view;
}

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

uint64_t Entry::DescribeTensor(const TensorDescription& given, bool deferred) {
  if (!BeginValue()) {
    return 0;
  }
  const bool is_narrowed = step_->has_slices();
  std::optional<TensorDescription> part;
  if (is_narrowed) {
    step_->Narrow(part.emplace(given));
  }
  const TensorDescription& tensor = part ? *part : given;
  ++tensor_count_;
  const Settings& settings = step_->settings();
  const bool is_xor = settings.summary_mode == SummaryMode::kXor;
  const bool is_overflow_check = settings.task == Task::kOverflowCheck;
  // Whether it overflowed has to be known at the commit.
  const bool is_nan_check = settings.task == Task::kNanCheck;
  const bool is_judged = IsJudged();
  deferred &=
      !is_overflow_check && !is_nan_check && !is_xor && !is_narrowed && tensor.dtype.has_value();

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

  if (step_->online() != nullptr) {
    PutOnlineTensor(tensor, view, is_empty);
    return 0;
  }

  ValueRequest request;
  request.rules = step_->statistic_rules();
  request.rules.is_numpy = tensor.is_numpy;
  request.statistics = !deferred && (!is_xor || is_overflow_check) && (!is_nan_check || is_judged);
  request.extended = settings.extended_statistics && request.statistics && !is_xor;
  request.crc32 = settings.summary_mode == SummaryMode::kMd5;
  request.xor64 = is_xor;
  if (is_nan_check) {
    request.rules.precision = Precision::kHigh;  // of what is there, not of a cast of it
    has_unseen_values_ |= is_judged && !view && !is_empty;
  }

  const uint64_t ticket =
      deferred && !is_empty
          ? step_->AddStatistics(*tensor.dtype, tensor.shape.empty(), tensor.is_numpy)
          : 0;
  json_->BeginObject();
  PutTensorHead(tensor);
  if (view && (tensor.device != device::Kind::kHost || ticket != 0)) {
    if (tensor.device == device::Kind::kHost) {
      PutHoles(ticket);
      PutHostValues(tensor, *view, request);
    } else {
      PutDeviceValues(tensor, *view, request, ticket);
    }
  } else if (view) {
    PutHostValues(tensor, *view, request);
  } else if (ticket != 0) {
    PutHoles(ticket);
    PutRequiresGrad(tensor);
    NoteChecked(tensor, std::nullopt);
  } else {
    PutWithoutValues(tensor, is_empty);
  }
  json_->EndObject();
  return ticket;
}

void Entry::PutHoles(uint64_t ticket) {
  for (size_t i = 0; i < dump::kStatisticCount; ++i) {
    json_->Key(dump::kStatisticKeys[i]);
    json_->Raw(dump::HoleText(ticket + i));
  }
}

void Entry::PutRequiresGrad(const TensorDescription& tensor) {
  if (tensor.requires_grad) {
    json_->Key("requires_grad");
    json_->Bool(*tensor.requires_grad);
  }
}

void Entry::PutDataName(const std::string& name) {
  json_->Key("data_name");
  json_->Text(name);
}

void Entry::PutWithoutValues(const TensorDescription& tensor, bool is_empty) {
  const SummaryMode mode = step_->settings().summary_mode;
  if (mode != SummaryMode::kXor && step_->settings().task != Task::kNanCheck) {
    for (const std::string_view key : dump::kStatisticKeys) {
      json_->Key(key);
      json_->Null();
    }
  }
  PutRequiresGrad(tensor);
  NoteChecked(tensor, is_empty ? std::optional<uint32_t>(0) : std::nullopt);
  if (!is_empty) {
    return;
  }
  if (mode != SummaryMode::kStatistics) {
    TensorValues nothing;
    nothing.crc32 = mode == SummaryMode::kMd5 ? std::optional<uint32_t>(0) : std::nullopt;
    json_->Key("md5");
    PutChecksum(nothing, *json_);
  }
  if (WantsFile()) {
    TensorView view;
    view.dtype = *tensor.dtype;
    view.shape = tensor.shape;
    TensorJob job = MakeJob(view);
    PutDataName(job.name);
    files_.push_back(std::move(job));
  }
}

void Entry::PutHostValues(const TensorDescription& tensor, const TensorView& view,
                          const ValueRequest& request) {
  const bool wants_file = WantsFile() && FitsBudget(view.size_bytes());
  std::string name = wants_file ? TensorFileName(path_, step_->tensor_files()->kind()) : "";
  std::optional<TensorJob> job = wants_file ? PrepareFile(view) : std::nullopt;
  ValueRequest with_copy = request;
  with_copy.copy_to = job ? job->memory.data() : nullptr;
  TensorValues values;
  if (request.statistics || request.crc32 || request.xor64 || job) {
    values = ExamineTensor(view, with_copy);
  }
  const bool is_nan_check = step_->settings().task == Task::kNanCheck;
  if (is_nan_check && request.statistics) {
    Judge(values);
  }
  overflowed_ |= values.overflowed();
  NoteChecked(tensor, values.crc32);
  if (request.statistics && !request.xor64 && !is_nan_check) {
    for (size_t i = 0; i < dump::kStatisticCount; ++i) {
      json_->Key(dump::kStatisticKeys[i]);
      PutStatistic(values.statistics[i], *json_);
    }
  }
  PutRequiresGrad(tensor);
  if (request.crc32 || request.xor64) {
    json_->Key("md5");
    PutChecksum(values, *json_);
  }
  if (job || (wants_file && !step_->engine().budget.exists())) {
    PutDataName(name);
  }
  if (request.extended) {
    json_->Key("extended");
    PutExtended(values, *json_);
  }
  if (job) {
    job->data_crc32 = values.copy_crc32;
    files_.push_back(*std::move(job));
  }
}

void Entry::PutDeviceValues(const TensorDescription& tensor, const TensorView& view,
                            const ValueRequest& request, uint64_t deferred_ticket) {
  auto moving = std::make_shared<DeviceTensor>();
  moving->step = step_;
  moving->entry_name = name_;
  moving->view = view;
  moving->request = request;
  const Task task = step_->settings().task;
  const bool searches = step_->settings().searches_differences();
  moving->is_held = task == Task::kOverflowCheck || task == Task::kNanCheck || searches;
  if (deferred_ticket != 0) {
    PutHoles(deferred_ticket);
  } else if (!request.xor64 && task != Task::kNanCheck) {
    moving->statistics_ticket = step_->TakeTickets(dump::kStatisticCount);
    PutHoles(moving->statistics_ticket);
  }
  PutRequiresGrad(tensor);
  if (request.crc32 || request.xor64) {
    moving->checksum_ticket = step_->TakeTickets(1);
    json_->Key("md5");
    json_->Raw(dump::HoleText(moving->checksum_ticket));
  }
  if (WantsFile() && FitsBudget(view.size_bytes())) {
    // Where nothing may wait, the memory is had at once, or there is no file.
    moving->job = step_->engine().budget.exists() ? PrepareFile(view) : MakeJob(view);
    if (moving->job) {
      PutDataName(moving->job->name);
    }
  }
  if (request.extended) {
    moving->extended_ticket = step_->TakeTickets(1);
    moving->depth = depth_ + frames_.size() + 1;
    json_->Key("extended");
    json_->Raw(dump::HoleText(moving->extended_ticket));
  }
  if (!request.statistics && moving->checksum_ticket == 0 && !moving->job) {
    return;
  }
  const DeviceCopies::Source source = SourceOf(tensor, view.extent_bytes);
  const Status queued = step_->engine().device_copies.Get().Queue(
      source, [moving](const Result<std::span<const std::byte>>& bytes) {
        DeliverDeviceTensor(*moving, bytes);
      });
  if (searches) {
    NoteChecked(tensor, std::nullopt);
  }
  if (queued.ok()) {
    checked_on_device_.push_back(LastChecked());
    device_tensors_.push_back(std::move(moving));
    last_device_source_ = source;
  } else {
    step_->CountLostRecord();
    Fail(Status(queued).AddContext("a tensor at " + path_));
  }
}

void Entry::CollectDeviceTensors() {
  if (device_tensors_.empty() || !device_tensors_.front()->is_held) {
    return;
  }
  step_->engine().device_copies.Get().Wait();
  const Task task = step_->settings().task;
  for (size_t i = 0; i < device_tensors_.size(); ++i) {
    const DeviceTensor& tensor = *device_tensors_[i];
    overflowed_ |= tensor.values.overflowed();
    if (task == Task::kNanCheck && tensor.request.statistics) {
      Judge(tensor.values);
    }
    if (const auto& place = checked_on_device_[i]) {
      (place->first ? checked_.inputs : checked_.outputs)[place->second].crc32 =
          tensor.values.crc32;
    }
  }
  if (task != Task::kOverflowCheck) {
    return;
  }
  const Result<bool> saturated =
      TakeDeviceOverflow(device::Registry::OfThisProcess(), last_device_source_);
  if (saturated.ok()) {
    overflowed_ |= *saturated;
  } else {
    Fail(Status(saturated.status()).AddContext("the overflow status of the device"));
  }
}

TensorJob Entry::MakeJob(const TensorView& view) {
  TensorJob job;
  job.files = step_->tensor_files();
  job.name = TensorFileName(path_, job.files->kind());
  job.dtype = view.dtype;
  job.shape = view.shape;
  return job;
}

bool Entry::FitsBudget(size_t file_bytes) {
  if (step_->engine().budget.TakeFileBytes(file_bytes)) {
    return true;
  }
  step_->CountDroppedFile();
  return false;
}

std::optional<TensorJob> Entry::PrepareFile(const TensorView& view) {
  TensorWriters& writers = *step_->engine().writers;
  TensorJob job = MakeJob(view);
  const size_t size_bytes = view.size_bytes();
  job.memory = writers.TryTake(size_bytes);
  if (!job.memory && step_->engine().budget.exists()) {
    step_->CountDroppedFile();
    return std::nullopt;
  }
  const bool searches = step_->settings().searches_differences();
  if (searches && !job.memory) {
    ++unkept_files_;  // which matters where the call differs
    return std::nullopt;
  }
  const bool may_wait = step_->settings().task != Task::kOverflowCheck;
  if (!job.memory && may_wait && writers.fits(size_bytes)) {
    // What this piece holds back itself must not be waited for.
    SubmitFiles();
    job.memory = writers.Take(size_bytes, kPatience);
  }
  if (job.memory) {
    return job;
  }
  WriteWithoutCopy(job, view, may_wait && !writers.fits(size_bytes), writers);
  return std::nullopt;
}

}  // namespace msprobe::capture
