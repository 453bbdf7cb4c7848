#include "src/capture/entry.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/capture/device_copies.h"
#include "src/capture/step_recording.h"
#include "src/capture/tensor_values.h"
#include "src/dump/record_log.h"
#include "src/io/contents.h"

namespace msprobe::capture {
namespace {

constexpr size_t kMemberDepth = 3;  // of a member's value in dump.json
constexpr size_t kWholeDepth = 2;
// Deeper values are not arguments of a call, but a structure that holds itself.
constexpr size_t kDeepest = 100;
// A model with masks of -inf overflows everywhere.
constexpr int64_t kToldHits = 20;
constexpr size_t kLongestFragmentBytes = size_t{1} << 30U;

}  // namespace

void Entry::Reset(std::shared_ptr<StepRecording> step, size_t depth) {
  step_ = std::move(step);
  if (!json_ || depth_ != depth || json_non_finite_ != step_->non_finite()) {
    depth_ = depth;
    json_non_finite_ = step_->non_finite();
    json_.emplace(text_, 1, json_non_finite_, depth);
  }
}

void Entry::Begin(std::shared_ptr<StepRecording> step, std::string_view name) {
  Reset(std::move(step), kMemberDepth);
  name_ = name;
  path_ = name;
  value_wanted_ = true;
}

void Entry::BeginPending(std::shared_ptr<StepRecording> step, uint64_t ticket,
                         const PendingPlace& place) {
  Reset(std::move(step), place.depth);
  name_ = place.path;
  path_ = place.path;
  ticket_ = ticket;
  value_wanted_ = true;
}

void Entry::Fail(Status status) {
  if (first_error_.ok()) {
    first_error_ = std::move(status);
  }
}

void Entry::Complain(std::string_view what) { Fail(UsageError(std::string(what))); }

void Entry::PutMember(std::string_view key, std::string_view file_segment) {
  if (!active()) {
    return;
  }
  FinishValue();
  if (ticket_ != 0 || has_whole_value_) {
    Complain("a member in an entry that is one value");
    value_wanted_ = false;
    return;
  }
  if (member_count_ == members_.size()) {
    members_.emplace_back();
  }
  Member& member = members_[member_count_++];
  member.key = key;
  member.begin = text_.size();
  path_ = name_;
  if (!file_segment.empty()) {
    path_ += '.';
    path_ += file_segment;
  }
  value_wanted_ = true;
}

void Entry::FinishValue() {
  if (refused_depth_ > 0 || !frames_.empty()) {
    Complain("a container is left open");
    refused_depth_ = 0;
    while (!frames_.empty()) {
      CloseInnermost();
    }
  }
  if (value_wanted_ && member_count_ > 0) {
    Complain(fmt::format("member {} has no value", members_[member_count_ - 1].key));
    json_->Null();
  }
  value_wanted_ = false;
}

bool Entry::BeginValue() {
  if (!active() || refused_depth_ > 0 || step_->engine().abandoned.load()) {
    return false;
  }
  if (frames_.empty()) {
    if (!value_wanted_) {
      Complain("a value that no member asked for");
      return false;
    }
    value_wanted_ = false;
    if (member_count_ == 0 && ticket_ == 0) {
      // The value of the whole entry stands one level higher than those of members.
      has_whole_value_ = true;
      depth_ = kWholeDepth;
      json_.emplace(text_, 1, json_non_finite_, depth_);
    }
    return true;
  }
  Frame& top = frames_.back();
  switch (top.kind) {
    case Kind::kArray:
      if (top.in_file_name) {
        path_.resize(top.path_bytes);
        path_ += '.';
        path_ += fmt::format_int(top.next_index++).c_str();
      }
      return true;
    case Kind::kObject:
      if (!top.has_key) {
        Complain("a value without a key");
        return false;
      }
      top.has_key = false;
      return true;
    case Kind::kTyped:
      if (top.has_key) {
        Complain("a second value in a typed value");
        return false;
      }
      top.has_key = true;
      json_->Key("value");
      return true;
  }
  return false;
}

void Entry::PutNull() {
  if (BeginValue()) {
    json_->Null();
  }
}

void Entry::Refuse(Status why) {
  PutNull();
  Fail(std::move(why));
}

void Entry::PutBool(bool value) {
  if (BeginValue()) {
    json_->Bool(value);
  }
}

void Entry::PutInt(int64_t value) {
  if (BeginValue()) {
    json_->Int(value);
  }
}

void Entry::PutFloat(double value) {
  if (BeginValue()) {
    json_->Float(value);
  }
}

void Entry::PutText(std::string_view value) {
  if (BeginValue()) {
    json_->Text(value);
  }
}

void Entry::PutDigits(std::string_view digits) {
  if (!BeginValue()) {
    return;
  }
  const std::string_view unsigned_digits = digits.substr(digits.starts_with('-') ? 1 : 0);
  if (unsigned_digits.empty() ||
      unsigned_digits.find_first_not_of("0123456789") != std::string_view::npos ||
      (unsigned_digits.size() > 1 && unsigned_digits.front() == '0')) {
    Complain("digits that are not an integer");
    json_->Null();
    return;
  }
  json_->Raw(digits);
}

void Entry::Open(Kind kind, bool in_file_name) {
  if (!active()) {
    return;
  }
  if (refused_depth_ > 0 || !BeginValue()) {
    ++refused_depth_;
    return;
  }
  if (frames_.size() == kDeepest) {
    Fail(UnsupportedError(fmt::format("values nested more than {} deep", kDeepest)));
    json_->Null();
    ++refused_depth_;
    return;
  }
  if (kind == Kind::kArray) {
    json_->BeginArray();
  } else {
    json_->BeginObject();
  }
  Frame frame;
  frame.kind = kind;
  frame.in_file_name = in_file_name;
  frame.path_bytes = path_.size();
  frames_.push_back(frame);
}

void Entry::OpenTyped(std::string_view type) {
  const size_t before = frames_.size();
  Open(Kind::kTyped, false);
  if (frames_.size() > before) {
    json_->Member("type", type);
  }
}

void Entry::OpenArray(bool in_file_name) { Open(Kind::kArray, in_file_name); }

void Entry::OpenObject(bool in_file_name) { Open(Kind::kObject, in_file_name); }

void Entry::PutKey(std::string_view key) {
  if (!active() || refused_depth_ > 0) {
    return;
  }
  if (frames_.empty() || frames_.back().kind != Kind::kObject) {
    Complain("a key outside of an object");
    return;
  }
  Frame& top = frames_.back();
  if (std::exchange(top.has_key, true)) {
    Complain("two keys in a row");
    json_->Null();
  }
  json_->Key(key);
  if (top.in_file_name) {
    path_.resize(top.path_bytes);
    path_ += '.';
    path_ += key;
  }
}

void Entry::Close() {
  if (!active()) {
    return;
  }
  if (refused_depth_ > 0) {
    --refused_depth_;
    return;
  }
  if (frames_.empty()) {
    Complain("there is no open container to close");
    return;
  }
  CloseInnermost();
}

void Entry::CloseInnermost() {
  const Frame top = frames_.back();
  frames_.pop_back();
  path_.resize(top.path_bytes);
  switch (top.kind) {
    case Kind::kArray:
      json_->EndArray();
      return;
    case Kind::kObject:
      if (top.has_key) {
        Complain("a key without a value");
        json_->Null();
      }
      json_->EndObject();
      return;
    case Kind::kTyped:
      if (!top.has_key) {
        Complain("a typed value without a value");
        json_->Key("value");
        json_->Null();
      }
      json_->EndObject();
      return;
  }
}

uint64_t Entry::PutPending() {
  if (!BeginValue()) {
    return 0;
  }
  const uint64_t ticket = step_->AddPlace({path_, depth_ + frames_.size()});
  json_->Raw(dump::HoleText(ticket));
  return ticket;
}

Result<bool> Entry::AppendRecords() {
  if (text_.size() > kLongestFragmentBytes) {
    return UnsupportedError(fmt::format("{} bytes of JSON for one call", text_.size()));
  }
  records_.clear();
  if (ticket_ != 0 && !text_.empty()) {
    dump::AppendPending(ticket_, text_, records_);
  } else if (has_whole_value_) {
    dump::AppendWhole(name_, text_, records_);
  }
  for (size_t i = 0; i < member_count_; ++i) {
    const size_t end = i + 1 < member_count_ ? members_[i + 1].begin : text_.size();
    dump::AppendMember(name_, members_[i].key,
                       std::string_view(text_).substr(members_[i].begin, end - members_[i].begin),
                       records_);
  }
  if (records_.empty()) {
    return true;
  }
  if (!step_->TakeRecordBytes(records_.size(), files_.size())) {
    return false;
  }
  return step_->Append(records_) ? Result<bool>(true) : Result<bool>(step_->LostError());
}

Status Entry::Commit() {
  if (!active()) {
    return {};
  }
  if (broken_) {
    step_->CountLostRecord();
    Status status = InternalError("no memory to describe " + name_);
    Report(status);
    Discard();
    return status;
  }
  FinishValue();
  CollectDeviceTensors();
  Engine& engine = step_->engine();
  if (step_->online() != nullptr) {
    SendOnline();
    Status status = std::move(first_error_);
    Report(status);
    Discard();
    return status;
  }
  const bool is_overflow_check = step_->settings().task == Task::kOverflowCheck;
  const bool kept = !engine.finished.load() && (!is_overflow_check || overflowed_);
  if (kept) {
    PutIsNan();
    const std::optional<BenchStep::Answer> compared = KeepIfDiffers();
    Result<bool> appended = AppendRecords();
    if (appended.ok() && *appended) {
      SubmitFiles();
      for (const std::shared_ptr<DeviceTensor>& tensor : device_tensors_) {
        if (tensor->is_held) {
          PublishDeviceTensor(*tensor);
        }
      }
      device_tensors_.clear();
      step_->CountEntry(tensor_count_);
    } else if (!appended.ok()) {
      Fail(std::move(appended).status());
    }
    if (is_overflow_check) {
      CountOverflow();
    } else if (compared) {
      step_->CountCompared(name_, *compared);
    } else if (nan_count_ + infinity_count_ > 0) {
      step_->CountNonFinite(name_, nan_count_, infinity_count_);
    }
  }
  Status status = std::move(first_error_);
  Report(status);
  Discard();
  return status;
}

void Entry::NoteChecked(const TensorDescription& tensor, std::optional<uint32_t> crc32) {
  if (!step_->settings().searches_differences() || member_count_ == 0) {
    return;
  }
  const std::string_view member = members_[member_count_ - 1].key;
  if (CheckedCall::IsInput(member)) {
    checked_.inputs.push_back({{tensor.shape.begin(), tensor.shape.end()}, crc32});
  } else if (CheckedCall::IsOutput(member)) {
    checked_.outputs.push_back({{tensor.shape.begin(), tensor.shape.end()}, crc32});
  }
}

std::optional<std::pair<bool, size_t>> Entry::LastChecked() const {
  if (!step_->settings().searches_differences() || member_count_ == 0) {
    return std::nullopt;
  }
  const std::string_view member = members_[member_count_ - 1].key;
  if (CheckedCall::IsInput(member)) {
    return std::pair(true, checked_.inputs.size() - 1);
  }
  return CheckedCall::IsOutput(member)
             ? std::optional(std::pair(false, checked_.outputs.size() - 1))
             : std::nullopt;
}

std::optional<BenchStep::Answer> Entry::KeepIfDiffers() {
  const std::shared_ptr<const BenchStep> bench = step_->bench();
  if (bench == nullptr) {
    return std::nullopt;
  }
  const BenchStep::Answer answer = bench->Judge(name_, checked_);
  const bool differs = answer.outcome == BenchStep::Outcome::kDiffers;
  if (!differs) {
    files_.clear();
    for (const std::shared_ptr<DeviceTensor>& tensor : device_tensors_) {
      tensor->job.reset();
    }
  } else if (unkept_files_ > 0) {
    step_->CountLostRecord();
    Fail(IoError(fmt::format("no room for copies of {} of its tensors (writer_memory_bytes is {})",
                             unkept_files_, step_->settings().writer_memory_bytes)));
  }
  return answer;
}

void Entry::Report(const Status& status) {
  try {
    if (!status.ok()) {
      step_->ReportError(name_, status.message());
    }
  } catch (const std::bad_alloc&) {  // what is lost is counted all the same
  }
}

void Entry::CountOverflow() {
  Engine& engine = step_->engine();
  const int64_t wanted = step_->settings().overflow_nums;
  const int64_t hits = engine.overflow_hits.fetch_add(1) + 1;
  if (hits <= kToldHits) {
    base::LogWarning(fmt::format("overflow in {} (hit {}){}", name_, hits,
                                 hits == kToldHits ? "; later ones are only recorded" : ""));
  }
  if (wanted >= 0 && hits >= wanted && !engine.finished.exchange(true)) {
    base::LogInfo(
        fmt::format("overflow check: {} of {} hits are recorded; capture ends", hits, wanted));
  }
}

bool Entry::IsJudged() const {
  if (step_->settings().task != Task::kNanCheck) {
    return false;
  }
  // True for what a call computed, and for all of parameters_grad.
  return member_count_ == 0 || (!members_[member_count_ - 1].key.starts_with("input") &&
                                members_[member_count_ - 1].key != "parameters");
}

void Entry::Judge(const TensorValues& values) {
  const kernels::TensorStats& counts = values.counts;
  nan_count_ += counts.nan_count;
  infinity_count_ += counts.positive_inf_count + counts.negative_inf_count;
  has_unseen_values_ |= counts.element_count == 0;
}

void Entry::PutIsNan() {
  const auto end = members_.begin() + static_cast<std::ptrdiff_t>(member_count_);
  if (step_->settings().task != Task::kNanCheck ||
      std::none_of(members_.begin(), end, [](const Member& m) { return m.key == "output"; })) {
    return;
  }
  PutMember("is_nan", "");
  if (nan_count_ + infinity_count_ > 0) {
    PutInt(1);
  } else if (has_unseen_values_) {
    PutNull();
  } else {
    PutInt(0);
  }
}

void Entry::SubmitFiles() {
  for (TensorJob& job : files_) {
    job.Submit(*step_->engine().writers);
  }
  files_.clear();
}

void Entry::Discard() {
  if (!active()) {
    return;
  }
  constexpr size_t kKeptBytes = size_t{1} << 20U;
  step_.reset();
  text_.clear();
  if (text_.capacity() > kKeptBytes || broken_) {
    text_ = {};
    records_ = {};
  }
  if (!frames_.empty() || value_wanted_ || broken_) {
    json_.reset();  // it stands in the middle of something
  }
  frames_.clear();
  refused_depth_ = 0;
  member_count_ = 0;
  value_wanted_ = false;
  has_whole_value_ = false;
  ticket_ = 0;
  saves_tensors_.reset();
  overflowed_ = false;
  nan_count_ = 0;
  infinity_count_ = 0;
  has_unseen_values_ = false;
  checked_.inputs.clear();
  checked_.outputs.clear();
  checked_on_device_.clear();
  unkept_files_ = 0;
  is_incomplete_ = false;
  online_bytes_ = 0;
  broken_ = false;
  tensor_count_ = 0;
  files_.clear();
  for (const std::shared_ptr<DeviceTensor>& tensor : device_tensors_) {
    tensor->is_dropped.store(true);
  }
  device_tensors_.clear();
  first_error_ = {};
}

std::unique_ptr<Entry> EntryPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Entry> entry = std::move(idle_.back());
      idle_.pop_back();
      return entry;
    }
  }
  return std::make_unique<Entry>();
}

void EntryPool::Return(std::unique_ptr<Entry> entry) noexcept {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kKept) {
    idle_.push_back(std::move(entry));
  }
}

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
  json_->Member("type", tensor.type);
  json_->Member("dtype", tensor.dtype_text);
  json_->Member("shape", tensor.shape);
}

bool Entry::WantsFile() {
  if (!saves_tensors_) {
    saves_tensors_ = step_->SavesTensors(name_);
  }
  return *saves_tensors_;
}

void Entry::PutTensor(const TensorDescription& tensor, uint64_t identity) {
  DescribeTensor(tensor, false, identity);
}

uint64_t Entry::PutTensorDeferred(const TensorDescription& tensor) {
  return DescribeTensor(tensor, true, 0);
}

Entry::TensorPlan Entry::PlanFor(const TensorDescription& tensor, bool may_defer) const {
  const Settings& settings = step_->settings();
  const bool is_xor = settings.summary_mode == SummaryMode::kXor;
  const bool is_overflow_check = settings.task == Task::kOverflowCheck;
  const bool is_nan_check = settings.task == Task::kNanCheck;
  TensorPlan plan;
  plan.is_judged = IsJudged();
  // The commit of a check needs the values, and the framework reduces whole tensors only.
  plan.is_deferred = may_defer && !is_overflow_check && !is_nan_check && !is_xor &&
                     !step_->has_slices() && tensor.dtype.has_value();
  plan.shows_statistics = !is_xor && !is_nan_check;
  plan.is_held = is_overflow_check || is_nan_check || settings.searches_differences();
  ValueRequest& request = plan.request;
  request.rules = step_->statistic_rules();
  request.rules.is_numpy = tensor.is_numpy;
  if (is_nan_check) {
    request.rules.precision = Precision::kHigh;  // of what is there, not of a cast of it
  }
  request.statistics = !plan.is_deferred && (plan.shows_statistics || is_overflow_check ||
                                             (is_nan_check && plan.is_judged));
  request.extended = settings.extended_statistics && request.statistics && !is_xor;
  request.crc32 = settings.summary_mode == SummaryMode::kMd5;
  request.xor64 = is_xor;
  return plan;
}

uint64_t Entry::DescribeTensor(const TensorDescription& given, bool may_defer, uint64_t identity) {
  if (!BeginValue()) {
    return 0;
  }
  std::optional<TensorDescription> part;
  if (step_->has_slices()) {
    step_->Narrow(part.emplace(given));
  }
  const TensorDescription& tensor = part ? *part : given;
  ++tensor_count_;

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

  const TensorPlan plan = PlanFor(tensor, may_defer);
  has_unseen_values_ |= plan.is_judged && !view && !is_empty;
  const uint64_t ticket =
      plan.is_deferred && !is_empty
          ? step_->AddStatistics(*tensor.dtype, tensor.shape.empty(), tensor.is_numpy)
          : 0;
  json_->BeginObject();
  PutTensorHead(tensor);
  if (view && tensor.device != device::Kind::kHost) {
    PutDeviceValues(tensor, *view, plan, ticket);
  } else if (view) {
    if (ticket != 0) {
      PutHoles(ticket);
    }
    // What is searched for faults is read each time: a fault may be a write without a counter.
    const bool reads_again = part || plan.is_held || step_->settings().reread;
    PutHostValues(tensor, *view, plan, reads_again ? 0 : identity);
  } else if (ticket != 0) {
    PutHoles(ticket);
    PutRequiresGrad(tensor);
    NoteChecked(tensor, std::nullopt);
  } else {
    PutWithoutValues(tensor, plan, is_empty);
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
    json_->Member("requires_grad", *tensor.requires_grad);
  }
}

void Entry::PutWithoutValues(const TensorDescription& tensor, const TensorPlan& plan,
                             bool is_empty) {
  if (plan.shows_statistics) {
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
  if (plan.request.crc32 || plan.request.xor64) {
    TensorValues nothing;
    nothing.crc32 = plan.request.crc32 ? std::optional<uint32_t>(0) : std::nullopt;
    json_->Key("md5");
    PutChecksum(nothing, *json_);
  }
  if (WantsFile()) {
    TensorView view;
    view.dtype = *tensor.dtype;
    view.shape = tensor.shape;
    TensorJob job = MakeJob(view);
    json_->Member("data_name", job.name);
    files_.push_back(std::move(job));
  }
}

void Entry::PutHostValues(const TensorDescription& tensor, const TensorView& view,
                          const TensorPlan& plan, uint64_t identity) {
  const bool wants_file = WantsFile() && FitsBudget(view.size_bytes());
  std::string name = wants_file ? TensorFileName(path_, step_->tensor_files()->kind()) : "";
  std::optional<TensorJob> job = wants_file ? PrepareFile(view) : std::nullopt;
  ValueRequest request = plan.request;
  request.copy_to = job ? job->memory.data() : nullptr;
  TensorValues values;
  if (request.statistics || request.crc32 || request.xor64 || job) {
    values = identity != 0 ? step_->engine().seen_values.Examine(view, request, identity)
                           : ExamineTensor(view, request);
  }
  if (plan.is_judged) {
    Judge(values);
  }
  overflowed_ |= values.overflowed();
  NoteChecked(tensor, values.crc32);
  if (request.statistics && plan.shows_statistics) {
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
    json_->Member("data_name", name);
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
                            const TensorPlan& plan, uint64_t deferred_ticket) {
  const ValueRequest& request = plan.request;
  auto moving = std::make_shared<DeviceTensor>();
  moving->step = step_;
  moving->entry_name = name_;
  moving->view = view;
  moving->request = request;
  moving->is_held = plan.is_held;
  if (deferred_ticket != 0) {
    PutHoles(deferred_ticket);
  } else if (plan.shows_statistics) {
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
      json_->Member("data_name", moving->job->name);
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
  NoteChecked(tensor, std::nullopt);
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
    // Memory that this piece holds itself must not be waited for.
    SubmitFiles();
    job.memory = writers.Take(size_bytes, kPatience);
  }
  if (job.memory) {
    return job;
  }
  WriteWithoutCopy(job, view, may_wait && !writers.fits(size_bytes), writers);
  return std::nullopt;
}

namespace {

// The tensors of a call that is sent, which live as long as somebody borrows from them.
using SentTensors = std::vector<TensorJob>;

}  // namespace

void Entry::PutOnlineTensor(const TensorDescription& tensor, const std::optional<TensorView>& view,
                            bool is_empty) {
  json_->BeginObject();
  PutTensorHead(tensor);
  PutRequiresGrad(tensor);
  if (!view && !is_empty) {  // its values are not known, which the checker tells
    json_->EndObject();
    return;
  }
  TensorJob job;
  job.name = TensorFileName(path_, TensorFileKind::kPt);
  job.dtype = *tensor.dtype;
  job.shape = tensor.shape;
  json_->Member("data_name", job.name);
  json_->EndObject();
  const uint64_t held_bytes = online_bytes_;
  online_bytes_ += view ? view->size_bytes() : 0;
  if (is_incomplete_) {
    return;
  }
  if (!view) {
    files_.push_back(std::move(job));
    return;
  }
  job.memory = step_->online()->Take(*step_->engine().writers, view->size_bytes(), held_bytes);
  if (!job.memory) {
    is_incomplete_ = true;
    return;
  }
  ValueRequest request;
  request.statistics = false;
  if (tensor.device == device::Kind::kHost) {
    request.copy_to = job.memory.data();
    ExamineTensor(*view, request);
    files_.push_back(std::move(job));
    return;
  }
  // Copied behind the work that makes it; the commit waits.
  auto moving = std::make_shared<DeviceTensor>();
  moving->step = step_;
  moving->entry_name = name_;
  moving->view = *view;
  moving->request = request;
  moving->is_held = true;
  moving->job = std::move(job);
  const Status queued = step_->engine().device_copies.Get().Queue(
      SourceOf(tensor, view->extent_bytes),
      [moving](const Result<std::span<const std::byte>>& bytes) {
        DeliverDeviceTensor(*moving, bytes);
      });
  if (queued.ok()) {
    checked_on_device_.push_back(std::nullopt);
    device_tensors_.push_back(std::move(moving));
  } else {
    is_incomplete_ = true;
    Fail(Status(queued).AddContext("a tensor at " + path_));
  }
}

void Entry::SendOnline() {
  OnlineCalls& online = *step_->online();
  // The commit has waited for them.
  for (const std::shared_ptr<DeviceTensor>& moving : device_tensors_) {
    is_incomplete_ = is_incomplete_ || !moving->job;
    if (moving->job) {
      files_.push_back(*std::move(moving->job));
    }
  }
  device_tensors_.clear();
  bool has_output = false;
  for (size_t i = 0; i < member_count_; ++i) {
    has_output = has_output || members_[i].key == "output";
  }
  if (!has_output || !OnlineCalls::IsSent(name_)) {
    return;  // the call failed, or was asked for by somebody else
  }
  if (is_incomplete_) {
    online.Drop(online_bytes_);
    return;
  }
  online::Call call;
  call.rank = step_->rank().value_or(0);
  call.step = step_->step();
  call.name = name_.substr(0, name_.size() - std::string_view(".forward").size());
  call.record = "{";
  for (size_t i = 0; i < member_count_; ++i) {
    const size_t end = i + 1 < member_count_ ? members_[i + 1].begin : text_.size();
    call.record += i > 0 ? ",\"" : "\"";
    call.record += members_[i].key;
    call.record += "\":";
    call.record.append(text_, members_[i].begin, end - members_[i].begin);
  }
  call.record += '}';
  auto tensors = std::make_shared<SentTensors>(std::move(files_));
  files_.clear();
  for (TensorJob& job : *tensors) {
    call.tensors.push_back(
        {std::move(job.name), job.dtype, std::move(job.shape), job.memory.bytes()});
  }
  call.memory = std::move(tensors);
  online.Send(std::move(call));
  step_->CountEntry(tensor_count_);
}

}  // namespace msprobe::capture
