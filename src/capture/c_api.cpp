// The C interface over Session and Entry: no exception and no C++ type passes it.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "msprobe/capture.h"
#include "msprobe/dtype.h"
#include "msprobe/status.h"
#include "msprobe/version.h"

#include "src/base/log.h"
#include "src/capture/c_api_edge.h"
#include "src/capture/session.h"

using msprobe::Result;
using msprobe::Status;
using msprobe::UsageError;
using msprobe::capture::ConcludeException;
using msprobe::capture::Describe;
using msprobe::capture::Engine;
using msprobe::capture::Entry;
using msprobe::capture::Framework;
using msprobe::capture::Guarded;
using msprobe::capture::Remarks;
using msprobe::capture::Session;
using msprobe::capture::Settings;
using msprobe::capture::StepRecording;
using msprobe::capture::TensorDescription;
using msprobe::capture::View;
using msprobe::capture::Wanted;

struct msprobe_capture {
  std::unique_ptr<Session> session;
  std::string settings_json;
};

namespace {

// The hook that this thread is in, if it says so. What a hook calls does not count twice.
struct HookWork {
  int depth = 0;
  std::chrono::steady_clock::time_point begin;
};
thread_local HookWork hook_work;

uint64_t NanosecondsSince(std::chrono::steady_clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

// Adds the time of a scope to what the library took from its callers.
class EngineTime {
 public:
  explicit EngineTime(Engine& engine) : engine_(engine), begin_(std::chrono::steady_clock::now()) {}
  EngineTime(const EngineTime&) = delete;
  EngineTime& operator=(const EngineTime&) = delete;
  ~EngineTime() {
    const uint64_t spent = NanosecondsSince(begin_);
    engine_.totals->engine_nanoseconds += spent;
    if (hook_work.depth == 0) {
      engine_.budget.AddNanoseconds(spent);
    }
  }

 private:
  Engine& engine_;
  const std::chrono::steady_clock::time_point begin_;
};

// body(Session&) -> Status, with its time counted.
template <typename Body>
int WithSession(msprobe_capture* capture, Body body) noexcept {
  return Guarded([&]() -> Status {
    if (capture == nullptr || capture->session == nullptr) {
      return UsageError("there is no capture: call msprobe_capture_open first");
    }
    const EngineTime time(capture->session->engine());
    return body(*capture->session);
  });
}

// The same for calls that record something: where they end in an exception it is lost, and counted.
template <typename Body>
int WithRecord(msprobe_capture* capture, Body body) noexcept {
  return WithSession(capture, [&](Session& session) -> Status {
    try {
      return body(session);
    } catch (...) {
      session.CountLostRecord();
      throw;
    }
  });
}

// Stands for every entry that records nothing; nothing ever changes it.
Entry& InactiveEntry() {
  static Entry entry;
  return entry;
}

Entry* Unwrap(msprobe_entry* entry) { return reinterpret_cast<Entry*>(entry); }

msprobe_entry* Wrap(std::unique_ptr<Entry> entry) {
  return reinterpret_cast<msprobe_entry*>(entry != nullptr ? entry.release() : &InactiveEntry());
}

// Runs body(Entry&) for calls that report at the commit.
template <typename Body>
void WithEntry(msprobe_entry* handle, Body body) noexcept {
  Entry* const entry = Unwrap(handle);
  if (entry == nullptr || !entry->active()) {
    return;
  }
  try {
    body(*entry);
  } catch (...) {
    entry->MarkBroken();
  }
}

template <typename Make>
msprobe_entry* BeginEntry(msprobe_capture* capture, Make make) noexcept {
  try {
    if (capture != nullptr && capture->session != nullptr) {
      return Wrap(make(*capture->session));
    }
  } catch (...) {
    capture->session->CountLostRecord();
    ConcludeException();
  }
  return Wrap(nullptr);
}

uint64_t PutTensor(msprobe_entry* handle, const msprobe_tensor* tensor, bool deferred,
                   uint64_t identity = 0) noexcept {
  uint64_t ticket = 0;
  WithEntry(handle, [&](Entry& entry) {
    const EngineTime time(entry.step()->engine());
    if (tensor == nullptr) {
      entry.Refuse(UsageError("no tensor is given"));
      return;
    }
    TensorDescription described;
    if (Status status = Describe(*tensor, described); !status.ok()) {
      entry.Refuse(std::move(status));
    } else if (deferred) {
      ticket = entry.PutTensorDeferred(described);
    } else {
      entry.PutTensor(described, identity);
    }
  });
  return ticket;
}

uint32_t BitsOf(const Wanted& wanted) {
  uint32_t bits = 0;
  bits |= wanted.input ? uint32_t{MSPROBE_WANT_INPUT} : 0;
  bits |= wanted.output ? uint32_t{MSPROBE_WANT_OUTPUT} : 0;
  bits |= wanted.stack ? uint32_t{MSPROBE_WANT_STACK} : 0;
  return bits;
}

}  // namespace

extern "C" {

int32_t msprobe_capture_abi(void) noexcept { return MSPROBE_CAPTURE_ABI; }
const char* msprobe_capture_version(void) noexcept { return MSPROBE_VERSION; }
const char* msprobe_last_error(void) noexcept { return msprobe::capture::LastErrorText(); }

int msprobe_capture_open(msprobe_text config_path, msprobe_text overrides_json,
                         msprobe_text framework, msprobe_capture** out) noexcept {
  return Guarded([&]() -> Status {
    if (out == nullptr) {
      return UsageError("msprobe_capture_open needs a place for the capture");
    }
    *out = nullptr;
    MSP_ASSIGN_OR_RETURN(const Framework known, msprobe::capture::FrameworkOf(View(framework)));
    MSP_ASSIGN_OR_RETURN(Settings settings,
                         msprobe::capture::LoadSettings(msprobe::base::Path(View(config_path)),
                                                        View(overrides_json), known));
    auto capture = std::make_unique<msprobe_capture>();
    MSP_ASSIGN_OR_RETURN(capture->session, Session::Open(std::move(settings)));
    capture->settings_json = capture->session->settings_json();
    *out = capture.release();
    return {};
  });
}

void msprobe_capture_close(msprobe_capture* capture) noexcept {
  if (capture == nullptr) {
    return;
  }
  Guarded([&] {
    if (capture->session != nullptr && !capture->session->InOwnProcess()) {
      // A child that ends without a word: threads and locks are its parent's.
      [[maybe_unused]] Session* const left_alone = capture->session.release();
    }
    Status status = capture->session != nullptr ? capture->session->Close() : Status();
    delete capture;
    return status;
  });
}

const char* msprobe_capture_settings(const msprobe_capture* capture) noexcept {
  return capture != nullptr ? capture->settings_json.c_str() : "{}";
}

int msprobe_capture_start(msprobe_capture* capture, int64_t rank, int* outcome) noexcept {
  if (outcome != nullptr) {
    *outcome = MSPROBE_START_OFF;
  }
  return WithSession(capture, [&](Session& session) -> Status {
    MSP_ASSIGN_OR_RETURN(const Session::Outcome result,
                         session.Start(rank >= 0 ? std::optional(rank) : std::nullopt));
    if (outcome != nullptr) {
      *outcome = result == Session::Outcome::kOn    ? MSPROBE_START_ON
                 : result == Session::Outcome::kOff ? MSPROBE_START_OFF
                                                    : MSPROBE_START_FINISHED;
    }
    return {};
  });
}

int msprobe_capture_set_batch(msprobe_capture* capture, const msprobe_request* requests,
                              size_t count) noexcept {
  return WithSession(capture, [&](Session& session) -> Status {
    if (count > 0 && requests == nullptr) {
      return UsageError("msprobe_capture_set_batch needs the requests");
    }
    std::vector<msprobe::capture::RequestRows> batch;
    batch.reserve(count);
    int64_t end = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t begin = end;
      if (requests[i].rows <= 0 || __builtin_add_overflow(begin, requests[i].rows, &end)) {
        return UsageError(fmt::format("request {} has {} rows; allowed: 1 or more",
                                      View(requests[i].id), requests[i].rows));
      }
      batch.push_back({std::string(View(requests[i].id)), begin, end});
    }
    return session.SetBatch(std::move(batch));
  });
}

void msprobe_hook_begin(msprobe_capture* /*capture*/) noexcept {
  if (hook_work.depth++ == 0) {
    hook_work.begin = std::chrono::steady_clock::now();
  }
}

void msprobe_hook_end(msprobe_capture* capture) noexcept {
  if (hook_work.depth > 0 && --hook_work.depth == 0 && capture != nullptr &&
      capture->session != nullptr) {
    capture->session->engine().budget.AddNanoseconds(NanosecondsSince(hook_work.begin));
  }
}

int msprobe_capture_set_layout(msprobe_capture* capture, msprobe_text json) noexcept {
  return WithSession(capture, [&](Session& session) -> Status {
    session.SetLayout(std::string(View(json)));
    return {};
  });
}

int msprobe_capture_stop(msprobe_capture* capture) noexcept {
  return WithSession(capture, [](Session& session) { return session.Stop(); });
}

int msprobe_capture_step(msprobe_capture* capture) noexcept {
  return WithSession(capture, [](Session& session) { return session.Step(); });
}

int msprobe_capture_set_init_step(msprobe_capture* capture, int64_t step) noexcept {
  return WithSession(capture, [&](Session& session) { return session.SetInitStep(step); });
}

int64_t msprobe_capture_current_step(const msprobe_capture* capture) noexcept {
  return capture != nullptr && capture->session != nullptr ? capture->session->current_step() : 0;
}

void msprobe_capture_after_fork(msprobe_capture* capture) noexcept {
  Guarded([&]() -> Status {
    if (capture != nullptr && capture->session != nullptr) {
      capture->session = Session::AfterFork(std::move(capture->session));
    }
    return {};
  });
}

void msprobe_capture_get_totals(const msprobe_capture* capture,
                                msprobe_capture_totals* out) noexcept {
  if (out == nullptr) {
    return;
  }
  *out = {};
  if (capture == nullptr || capture->session == nullptr) {
    return;
  }
  const msprobe::capture::Totals& totals = *capture->session->engine().totals;
  out->steps = totals.steps.load();
  out->entries = totals.entries.load();
  out->tensors = totals.tensors.load();
  out->tensor_files = totals.tensor_files.load();
  out->tensor_bytes = totals.tensor_bytes.load();
  out->written_bytes = totals.written_bytes.load();
  out->deduplicated_files = totals.deduplicated_files.load();
  out->lost_files = totals.lost_files.load();
  out->errors = totals.errors.load();
  out->dropped_records = totals.dropped_records.load();
  out->dropped_files = totals.dropped_files.load();
  out->dropped_steps = totals.dropped_steps.load();
  out->engine_nanoseconds = totals.engine_nanoseconds.load();
}

uint32_t msprobe_capture_enter(msprobe_capture* capture, msprobe_text name) noexcept {
  uint32_t bits = 0;
  WithRecord(capture, [&](Session& session) -> Status {
    bits = BitsOf(session.Enter(View(name)));
    return {};
  });
  return bits;
}

uint32_t msprobe_capture_leave(msprobe_capture* capture, msprobe_text name) noexcept {
  uint32_t bits = 0;
  WithRecord(capture, [&](Session& session) -> Status {
    bits = BitsOf(session.Leave(View(name)));
    return {};
  });
  return bits;
}

int msprobe_capture_wants_parameters_grad(msprobe_capture* capture, msprobe_text module) noexcept {
  int wanted = 0;
  WithRecord(capture, [&](Session& session) -> Status {
    wanted = session.WantsParametersGrad(View(module)) ? 1 : 0;
    return {};
  });
  return wanted;
}

int msprobe_capture_construct(msprobe_capture* capture, msprobe_text name,
                              const msprobe_text* parent) noexcept {
  return WithRecord(capture, [&](Session& session) {
    return session.SetConstruct(View(name),
                                parent != nullptr ? std::optional(View(*parent)) : std::nullopt);
  });
}

int msprobe_capture_stack(msprobe_capture* capture, const msprobe_frame* frames, size_t count,
                          uint32_t* id) noexcept {
  return WithRecord(capture, [&](Session& session) -> Status {
    if (id == nullptr || (count > 0 && frames == nullptr)) {
      return UsageError("msprobe_capture_stack needs frames, and a place for the id");
    }
    std::vector<msprobe::dump::LogFrame> views;
    views.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      views.push_back({View(frames[i].file), View(frames[i].function), frames[i].line});
    }
    *id = session.RegisterStack(views);
    return {};
  });
}

int msprobe_capture_set_stack(msprobe_capture* capture, msprobe_text name, uint32_t id) noexcept {
  return WithRecord(capture, [&](Session& session) { return session.SetStack(View(name), id); });
}

msprobe_entry* msprobe_entry_begin(msprobe_capture* capture, msprobe_text name) noexcept {
  return BeginEntry(capture, [&](Session& session) { return session.BeginEntry(View(name)); });
}

msprobe_entry* msprobe_entry_begin_pending(msprobe_capture* capture, uint64_t ticket) noexcept {
  return BeginEntry(capture, [&](Session& session) { return session.BeginPendingEntry(ticket); });
}

int msprobe_entry_commit(msprobe_entry* handle) noexcept {
  return Guarded([&]() -> Status {
    Entry* const entry = Unwrap(handle);
    if (entry == nullptr || !entry->active()) {
      return {};
    }
    const std::shared_ptr<msprobe::capture::StepRecording> step = entry->step();
    Engine& engine = step->engine();
    if (engine.abandoned.load()) {
      return {};  // the parent's: neither freed nor touched
    }
    const EngineTime time(engine);
    std::unique_ptr<Entry> owner(entry);
    try {
      Status status = owner->Commit();
      engine.entries.Return(std::move(owner));
      return status;
    } catch (...) {
      step->CountLostRecord();
      throw;
    }
  });
}

void msprobe_entry_discard(msprobe_entry* handle) noexcept {
  Guarded([&]() -> Status {
    Entry* const entry = Unwrap(handle);
    if (entry == nullptr || !entry->active() || entry->step()->engine().abandoned.load()) {
      return {};
    }
    const std::shared_ptr<msprobe::capture::StepRecording> step = entry->step();
    std::unique_ptr<Entry> owner(entry);
    owner->Discard();
    step->engine().entries.Return(std::move(owner));
    return {};
  });
}

void msprobe_put_member(msprobe_entry* entry, msprobe_text key,
                        msprobe_text file_segment) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutMember(View(key), View(file_segment)); });
}
void msprobe_put_null(msprobe_entry* entry) noexcept {
  WithEntry(entry, [](Entry& e) { e.PutNull(); });
}
void msprobe_put_bool(msprobe_entry* entry, int value) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutBool(value != 0); });
}
void msprobe_put_int(msprobe_entry* entry, int64_t value) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutInt(value); });
}
void msprobe_put_float(msprobe_entry* entry, double value) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutFloat(value); });
}
void msprobe_put_text(msprobe_entry* entry, msprobe_text value) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutText(View(value)); });
}
void msprobe_put_digits(msprobe_entry* entry, msprobe_text digits) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutDigits(View(digits)); });
}
void msprobe_open_typed(msprobe_entry* entry, msprobe_text type) noexcept {
  WithEntry(entry, [&](Entry& e) { e.OpenTyped(View(type)); });
}
void msprobe_open_array(msprobe_entry* entry, int naming) noexcept {
  WithEntry(entry, [&](Entry& e) { e.OpenArray(naming == MSPROBE_IN_FILE_NAME); });
}
void msprobe_open_object(msprobe_entry* entry, int naming) noexcept {
  WithEntry(entry, [&](Entry& e) { e.OpenObject(naming == MSPROBE_IN_FILE_NAME); });
}
void msprobe_put_key(msprobe_entry* entry, msprobe_text key) noexcept {
  WithEntry(entry, [&](Entry& e) { e.PutKey(View(key)); });
}
void msprobe_close(msprobe_entry* entry) noexcept {
  WithEntry(entry, [](Entry& e) { e.Close(); });
}

size_t msprobe_dtype_bytes(int32_t dtype_code) noexcept {
  const bool is_known = dtype_code >= 0 && dtype_code < msprobe::kDTypeCount;
  return is_known ? msprobe::DTypeSize(static_cast<msprobe::DType>(dtype_code)) : 0;
}

void msprobe_put_tensor(msprobe_entry* entry, const msprobe_tensor* tensor) noexcept {
  PutTensor(entry, tensor, false);
}

void msprobe_put_tensor_known(msprobe_entry* entry, const msprobe_tensor* tensor,
                              uint64_t identity) noexcept {
  PutTensor(entry, tensor, false, identity);
}

uint64_t msprobe_put_tensor_deferred(msprobe_entry* entry, const msprobe_tensor* tensor) noexcept {
  return PutTensor(entry, tensor, true);
}

int msprobe_fill_statistics(msprobe_capture* capture, uint64_t ticket,
                            const double* statistics) noexcept {
  return WithRecord(capture, [&](Session& session) -> Status {
    if (statistics == nullptr) {
      return UsageError("no statistics are given");
    }
    return session.FillStatistics(
        ticket, std::array{statistics[0], statistics[1], statistics[2], statistics[3]});
  });
}

int msprobe_tensor_statistics(const msprobe_tensor* tensor, int rounding,
                              double* statistics) noexcept {
  return Guarded([&]() -> Status {
    if (tensor == nullptr || statistics == nullptr) {
      return UsageError("msprobe_tensor_statistics needs a tensor, and a place for four numbers");
    }
    TensorDescription described;
    MSP_RETURN_IF_ERROR(Describe(*tensor, described));
    if (!described.dtype || described.data == nullptr ||
        described.device != msprobe::device::Kind::kHost) {
      return UsageError("the tensor has no values on the host");
    }
    MSP_ASSIGN_OR_RETURN(const msprobe::TensorView view, msprobe::capture::ViewOf(described));
    if (view.element_count() == 0) {
      return UsageError("the tensor has no elements");
    }
    const std::array<double, 4> values =
        msprobe::capture::FloatStatistics(view, rounding == MSPROBE_ROUND_TO_OWN_HALF);
    std::copy(values.begin(), values.end(), statistics);
    return {};
  });
}

int msprobe_reduce_on_device(const msprobe_tensor* tensor, void* row, void* scratch) noexcept {
  return Guarded([&]() -> Status {
    if (tensor == nullptr || row == nullptr || scratch == nullptr) {
      return UsageError("msprobe_reduce_on_device needs a tensor and memory of its device");
    }
    TensorDescription described;
    MSP_RETURN_IF_ERROR(Describe(*tensor, described));
    if (!described.dtype || described.data == nullptr || described.conjugated ||
        described.negated) {
      return msprobe::DeviceError("the tensor has no values that a kernel could read");
    }
    msprobe::device::StatisticsRequest request;
    request.device = described.device_index;
    request.source = described.data;
    request.dtype = *described.dtype;
    request.shape = {described.shape.data(), described.shape.size()};
    request.strides = {described.strides.data(), described.strides.size()};
    request.stream = described.stream;
    request.row = static_cast<double*>(row);
    request.scratch = scratch;
    static_assert(size_t{MSPROBE_STATISTICS_SCRATCH_BYTES} >=
                  msprobe::device::kStatisticsScratchBytes);
    const Status queued =
        msprobe::device::Registry::OfThisProcess().Get(described.device).QueueStatistics(request);
    return queued.code() == msprobe::StatusCode::kUnsupported
               ? msprobe::DeviceError(queued.message())
               : queued;
  });
}

uint64_t msprobe_put_pending(msprobe_entry* entry) noexcept {
  uint64_t ticket = 0;
  WithEntry(entry, [&](Entry& e) { ticket = e.PutPending(); });
  return ticket;
}

int msprobe_device_wait(msprobe_capture* capture) noexcept {
  return WithSession(capture, [](Session& session) -> Status {
    session.engine().device_copies.Wait();
    return {};
  });
}

int msprobe_kernel_dump_begin(msprobe_capture* capture) noexcept {
  return WithSession(capture, [](Session& session) { return session.BeginKernelDump(); });
}

int msprobe_kernel_dump_end(msprobe_capture* capture) noexcept {
  return WithSession(capture, [](Session& session) { return session.EndKernelDump(); });
}

void msprobe_capture_report_error(msprobe_capture* capture, msprobe_text name,
                                  msprobe_text text) noexcept {
  WithSession(capture, [&](Session& session) -> Status {
    session.ReportError(View(name), View(text));
    return {};
  });
}

void msprobe_capture_remark(msprobe_capture* capture, int kind, msprobe_text name,
                            msprobe_text text) noexcept {
  WithSession(capture, [&](Session& session) -> Status {
    if (const std::shared_ptr<StepRecording> recording = session.recording()) {
      recording->Remark(
          kind == MSPROBE_REMARK_OWN_GRADIENT ? Remarks::kOwnGradient : Remarks::kAlteredModule,
          View(name), View(text));
    }
    return {};
  });
}

void msprobe_capture_repeated(msprobe_capture* capture, uint64_t nanoseconds) noexcept {
  if (capture != nullptr && capture->session != nullptr && capture->session->InOwnProcess()) {
    capture->session->engine().totals->repeat_nanoseconds += nanoseconds;
  }
}

void msprobe_capture_lost_record(msprobe_capture* capture) noexcept {
  if (capture != nullptr && capture->session != nullptr && capture->session->InOwnProcess()) {
    capture->session->CountLostRecord();
  }
}

void msprobe_log(int level, msprobe_text text) noexcept {
  Guarded([&]() -> Status {
    switch (level) {
      case 0:
        msprobe::base::LogDebug(View(text));
        break;
      case 1:
        msprobe::base::LogInfo(View(text));
        break;
      case 2:
        msprobe::base::LogWarning(View(text));
        break;
      default:
        msprobe::base::LogError(View(text));
    }
    return {};
  });
}

}  // extern "C"
