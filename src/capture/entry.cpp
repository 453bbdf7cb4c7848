#include "src/capture/entry.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "src/base/log.h"
#include "src/capture/step_recording.h"
#include "src/dump/record_log.h"

namespace msprobe::capture {
namespace {

constexpr size_t kMemberDepth = 3;  // of a member's value in dump.json
constexpr size_t kWholeDepth = 2;
// Deeper values are no arguments of a call, but a structure that holds itself.
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
    json_->Key("type");
    json_->Text(type);
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
  // Of a call, what it computed; all of parameters_grad.
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

}  // namespace msprobe::capture
