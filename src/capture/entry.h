// The values of one call while they are being described: JSON text at its final place in dump.json,
// and the tensors that go to files with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "msprobe/status.h"
#include "msprobe/tensor_view.h"

#include "src/capture/bench_step.h"
#include "src/capture/device_copies.h"
#include "src/capture/tensor_files.h"
#include "src/capture/tensor_values.h"
#include "src/device/device.h"
#include "src/json/writer.h"

namespace msprobe::capture {

class StepRecording;

// A view of the described memory, when it can be one; `dtype` is known.
Result<TensorView> ViewOf(const TensorDescription& tensor);
// The same into a view that keeps its memory.
Status MakeView(const TensorDescription& tensor, TensorView& view);
// Its first `bytes` bytes on the device, to be copied from there.
DeviceCopies::Source SourceOf(const TensorDescription& tensor, size_t bytes);

// Where a value that comes later will stand.
struct PendingPlace {
  std::string path;  // file names continue from there
  size_t depth = 0;
};

// Begin..., Put..., Commit or Discard; then it may begin anew. Calls in a wrong order are noted and
// otherwise do nothing; the text stays valid JSON whatever comes. Not thread-safe.
class Entry {
 public:
  Entry() = default;
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() = default;

  void Begin(std::shared_ptr<StepRecording> step, std::string_view name);
  // The one value of this entry fills the place of `ticket`.
  void BeginPending(std::shared_ptr<StepRecording> step, uint64_t ticket,
                    const PendingPlace& place);
  // False: nothing is recorded, and all calls do nothing.
  bool active() const { return step_ != nullptr; }
  const std::shared_ptr<StepRecording>& step() const { return step_; }

  void PutMember(std::string_view key, std::string_view file_segment);
  void PutNull();
  void PutBool(bool value);
  void PutInt(int64_t value);
  void PutFloat(double value);
  void PutText(std::string_view value);
  void PutDigits(std::string_view digits);
  void OpenTyped(std::string_view type);
  void OpenArray(bool in_file_name);
  void OpenObject(bool in_file_name);
  void PutKey(std::string_view key);
  void Close();

  // A value that cannot be described: null, and the commit tells why.
  void Refuse(Status why);
  // Describes the tensor; statistics, checksum and file as the settings say.
  // `identity` as in msprobe_put_tensor_known.
  void PutTensor(const TensorDescription& tensor, uint64_t identity = 0);
  // The four statistics come later, under the tickets returned and the three that follow. 0: none
  // are wanted.
  uint64_t PutTensorDeferred(const TensorDescription& tensor);
  uint64_t PutPending();

  // Hands over what was described, and is empty then. The error is the first one met.
  Status Commit();
  void Discard();
  // The text may end anywhere (memory ran out): nothing of this piece is recorded.
  void MarkBroken() { broken_ = true; }

 private:
  enum class Kind : uint8_t { kArray, kObject, kTyped };
  struct Frame {
    Kind kind = Kind::kArray;
    bool in_file_name = false;
    bool has_key = false;     // object: a key waits for its value; typed: the value is there
    size_t path_bytes = 0;    // of the path that the container stands at
    uint64_t next_index = 0;  // array
  };
  struct Member {
    std::string key;
    size_t begin = 0;  // in text_
  };

  void Reset(std::shared_ptr<StepRecording> step, size_t depth);
  bool BeginValue();  // false: there is no place for a value
  void Open(Kind kind, bool in_file_name);
  void CloseInnermost();
  void FinishValue();  // what is open is closed, what is missing becomes null
  void Complain(std::string_view what);
  void Fail(Status status);
  void Report(const Status& status);
  // What to record of the next tensor: decided once, carried out by Put...Values.
  struct TensorPlan {
    ValueRequest request;
    bool is_deferred = false;       // its statistics come later, from the framework's side
    bool shows_statistics = false;  // four numbers, or places for them
    bool is_judged = false;         // task nan_check: NaN and infinities in it count
    bool is_held = false;           // of a device: the commit waits for its values
  };
  TensorPlan PlanFor(const TensorDescription& tensor, bool may_defer) const;
  uint64_t DescribeTensor(const TensorDescription& given, bool may_defer, uint64_t identity);
  void PutTensorHead(const TensorDescription& tensor);
  // The values are there.
  void PutHostValues(const TensorDescription& tensor, const TensorView& view,
                     const TensorPlan& plan, uint64_t identity);
  // Places for them are there.
  void PutDeviceValues(const TensorDescription& tensor, const TensorView& view,
                       const TensorPlan& plan, uint64_t deferred_ticket);
  void PutWithoutValues(const TensorDescription& tensor, const TensorPlan& plan, bool is_empty);
  void PutHoles(uint64_t ticket);
  void PutRequiresGrad(const TensorDescription& tensor);
  bool WantsFile();
  bool FitsBudget(size_t file_bytes);  // counts the file as dropped where not
  // The file of a tensor at the present path, without its memory.
  TensorJob MakeJob(const TensorView& view);
  // With memory for a copy; nullopt when no file is wanted, or it is dealt with already.
  std::optional<TensorJob> PrepareFile(const TensorView& view);
  Result<bool> AppendRecords();  // false: the budget did not allow it
  void SubmitFiles();
  void CountOverflow();
  // Task nan_check: whether what is described now is looked at, what was found in it, and the
  // member is_nan.
  bool IsJudged() const;
  void Judge(const TensorValues& values);
  void PutIsNan();
  // Search for differences: what the earlier dump says of this call, whose files are kept only
  // where it differs.
  void NoteChecked(const TensorDescription& tensor, std::optional<uint32_t> crc32);
  std::optional<std::pair<bool, size_t>> LastChecked() const;  // where NoteChecked put it
  std::optional<BenchStep::Answer> KeepIfDiffers();            // nullopt: there is no search
  // Calls that are sent to a checker (entry.cpp).
  void PutOnlineTensor(const TensorDescription& tensor, const std::optional<TensorView>& view,
                       bool is_empty);
  void SendOnline();
  // Overflow check: waits for tensors of devices and looks at them.
  void CollectDeviceTensors();

  std::shared_ptr<StepRecording> step_;
  std::string name_;
  std::string path_;  // of the value that comes next, in file names
  std::string text_;  // the fragments of all members, one after the other
  std::string records_;
  std::optional<json::Writer> json_;
  json::Writer::NonFinite json_non_finite_ = json::Writer::NonFinite::kPython;
  size_t depth_ = 0;
  std::vector<Frame> frames_;
  size_t refused_depth_ = 0;  // containers open inside one that had no place
  std::vector<Member> members_;
  size_t member_count_ = 0;  // of members_, which keeps its texts' memory
  bool value_wanted_ = false;
  bool has_whole_value_ = false;
  uint64_t ticket_ = 0;
  std::optional<bool> saves_tensors_;
  bool overflowed_ = false;
  uint64_t nan_count_ = 0;  // task nan_check: of the elements that were looked at
  uint64_t infinity_count_ = 0;
  bool has_unseen_values_ = false;
  CheckedCall checked_;  // search for differences
  // For each of device_tensors_, whose checksum comes later: its place in checked_.
  std::vector<std::optional<std::pair<bool, size_t>>> checked_on_device_;  // is input, number
  uint64_t unkept_files_ = 0;   // no memory was there to keep them until it is known
  bool is_incomplete_ = false;  // online: there was no room for one of its tensors
  uint64_t online_bytes_ = 0;   // of all its tensors, with room or without
  bool broken_ = false;
  uint64_t tensor_count_ = 0;
  std::vector<TensorJob> files_;
  std::vector<std::shared_ptr<DeviceTensor>> device_tensors_;
  DeviceCopies::Source last_device_source_;  // with device_tensors_: of the last one
  Status first_error_;
};

// Entries that are used again: their buffers have grown to what calls need.
class EntryPool {
 public:
  EntryPool() { idle_.reserve(kKept); }
  std::unique_ptr<Entry> Take();
  void Return(std::unique_ptr<Entry> entry) noexcept;

 private:
  static constexpr size_t kKept = 64;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Entry>> idle_;  // has room for kKept
};

}  // namespace msprobe::capture
