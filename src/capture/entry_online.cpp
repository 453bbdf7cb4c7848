// Entries whose calls go to a checker on another host.
#include <utility>

#include "src/capture/entry.h"
#include "src/capture/step_recording.h"
#include "src/capture/tensor_values.h"

namespace msprobe::capture {
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
  PutDataName(job.name);
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
