// The C interface of the monitor over MonitorEngine: no exception and no C++ type passes it.
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "msprobe/monitor.h"
#include "msprobe/status.h"

#include "src/capture/c_api_edge.h"
#include "src/capture/engine.h"
#include "src/monitor/engine.h"

using msprobe::DType;
using msprobe::Result;
using msprobe::Status;
using msprobe::TensorView;
using msprobe::UsageError;
using msprobe::capture::Describe;
using msprobe::capture::DeviceCopies;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
using msprobe::capture::LazyDeviceCopies;
using msprobe::capture::TensorDescription;
using msprobe::capture::View;
using MonitorEngine = msprobe::monitor::Engine;
using msprobe::monitor::RankTopology;
using msprobe::monitor::Spot;
using msprobe::monitor::State;
using msprobe::monitor::Table;

struct msprobe_monitor {
  std::unique_ptr<MonitorEngine> engine;  // null: in a forked child
  std::unique_ptr<LazyDeviceCopies> device_copies = std::make_unique<LazyDeviceCopies>();
};

namespace {

static_assert(MSPROBE_MONITOR_ACTV == static_cast<int>(Table::kActv));
static_assert(MSPROBE_MONITOR_UPDATE_RATIO == static_cast<int>(Table::kUpdateRatio));
static_assert(MSPROBE_MONITOR_ATTENTION_HOOK == static_cast<int>(Table::kAttentionHook));
static_assert(MSPROBE_MONITOR_OTHER == static_cast<int>(Table::kOther));
static_assert(MSPROBE_MONITOR_OTHER + 1 == msprobe::monitor::kTableCount);
static_assert(MSPROBE_MONITOR_NO_INDEX == msprobe::monitor::kNone);
static_assert(MSPROBE_MONITOR_NO_MICRO_STEP == msprobe::monitor::kNone);
static_assert(MSPROBE_MONITOR_ON == static_cast<int>(State::kOn));
static_assert(MSPROBE_MONITOR_FINISHED == static_cast<int>(State::kFinished));

// body(msprobe_monitor&) -> Status. In a forked child nothing happens.
template <typename Body>
int WithMonitor(msprobe_monitor* monitor, Body body) noexcept {
  return Guarded([&]() -> Status {
    if (monitor == nullptr) {
      return UsageError("there is no monitor: call msprobe_monitor_open first");
    }
    return monitor->engine != nullptr ? body(*monitor) : Status();
  });
}

// The same for what is put into a step; nothing happens in a step that is not watched.
template <typename Body>
int WhenOn(msprobe_monitor* monitor, Body body) noexcept {
  if (monitor != nullptr && (monitor->engine == nullptr || !monitor->engine->is_on())) {
    return MSPROBE_OK;
  }
  return WithMonitor(monitor, body);
}

struct MeasuredTensor {
  msprobe::monitor::TensorNumbers numbers;
  std::span<const int64_t> shape;  // of the caller
  std::string_view dtype_text;     // of the caller
};

// Waits for the bytes behind the work that produces them.
Status MeasureOnDevice(const TensorDescription& tensor, TensorView view,
                       const msprobe::monitor::MeasureRules& rules, LazyDeviceCopies& device_copies,
                       msprobe::monitor::TensorNumbers& numbers) {
  Status outcome;
  std::exception_ptr thrown;  // on the thread of the copies
  DeviceCopies& copies = device_copies.Get();
  MSP_RETURN_IF_ERROR(copies.Queue(msprobe::capture::SourceOf(tensor, view.extent_bytes),
                                   [&](const Result<std::span<const std::byte>>& bytes) {
                                     try {
                                       if (!bytes.ok()) {
                                         outcome = bytes.status();
                                         return;
                                       }
                                       view.data = bytes->data();
                                       numbers = msprobe::monitor::Measure(view, rules);
                                     } catch (...) {
                                       thrown = std::current_exception();
                                     }
                                   }));
  copies.Wait();
  if (thrown != nullptr) {
    std::rethrow_exception(thrown);
  }
  return outcome;
}

// Statistics of the tensor before this returns; of a device, behind a copy. `tensor` null: not a
// tensor. What has no values (meta, sparse, foreign dtypes) keeps its dtype and shape.
Status MeasureTensor(const msprobe_tensor* tensor, const msprobe::monitor::MeasureRules& rules,
                     LazyDeviceCopies& device_copies, MeasuredTensor& out) {
  out = {};
  if (tensor == nullptr) {
    return {};
  }
  // Keeps the memory of shape and strides from tensor to tensor.
  thread_local TensorDescription described;
  thread_local TensorView view;
  MSP_RETURN_IF_ERROR(Describe(*tensor, described));
  out.shape = {tensor->shape, described.shape.size()};
  out.dtype_text = View(tensor->dtype);
  out.numbers.kind = msprobe::monitor::TensorNumbers::Kind::kUnread;
  if (!described.dtype) {
    return {};
  }
  out.numbers.is_known_dtype = true;
  out.numbers.dtype = *described.dtype;
  MSP_RETURN_IF_ERROR(msprobe::capture::MakeView(described, view));
  if (described.data == nullptr && view.element_count() != 0) {
    return {};
  }
  if (described.device != msprobe::device::Kind::kHost && view.element_count() != 0) {
    return MeasureOnDevice(described, view, rules, device_copies, out.numbers);
  }
  out.numbers = msprobe::monitor::Measure(view, rules);
  return {};
}

std::vector<int64_t> Ranks(const int32_t* ranks, size_t count) {
  return ranks == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(ranks, ranks + count);
}

std::optional<std::vector<int64_t>> GivenRanks(const int32_t* ranks, size_t count) {
  return ranks == nullptr ? std::nullopt : std::optional(Ranks(ranks, count));
}

Status Tell(const Result<MonitorEngine::Next>& next, int32_t* state) {
  if (!next.ok()) {
    return next.status();
  }
  if (state != nullptr) {
    *state = static_cast<int32_t>(next->state) | (next->is_changed ? MSPROBE_MONITOR_CHANGED : 0);
  }
  return {};
}

bool IsTable(int32_t table) {
  return table >= 0 && table < static_cast<int32_t>(msprobe::monitor::kTableCount);
}

std::string& TextOfThisThread() {
  thread_local std::string text;
  return text;
}

// Answers of name_parameter and name_module.
template <typename Ask>
int Name(msprobe_monitor* monitor, const char** reported, Ask ask) noexcept {
  int wanted = 0;
  if (reported != nullptr) {
    *reported = "";
  }
  WithMonitor(monitor, [&](msprobe_monitor& m) -> Status {
    if (std::optional<std::string> name = ask(*m.engine)) {
      TextOfThisThread() = *std::move(name);
      if (reported != nullptr) {
        *reported = TextOfThisThread().c_str();
      }
      wanted = 1;
    }
    return {};
  });
  return wanted;
}

}  // namespace

extern "C" {

int msprobe_monitor_open(msprobe_text config_path, msprobe_text overrides_json,
                         msprobe_text framework, msprobe_monitor** out) noexcept {
  return Guarded([&]() -> Status {
    if (out == nullptr) {
      return UsageError("msprobe_monitor_open needs a place for the monitor");
    }
    *out = nullptr;
    auto monitor = std::make_unique<msprobe_monitor>();
    MSP_ASSIGN_OR_RETURN(
        monitor->engine,
        MonitorEngine::Open(std::string(View(config_path)), View(overrides_json), View(framework)));
    *out = monitor.release();
    return {};
  });
}

void msprobe_monitor_close(msprobe_monitor* monitor) noexcept {
  if (monitor == nullptr) {
    return;
  }
  Guarded([&] {
    if (monitor->engine != nullptr && !monitor->engine->InOwnProcess()) {
      msprobe_monitor_after_fork(monitor);
    }
    Status status = monitor->engine != nullptr ? monitor->engine->Close() : Status();
    delete monitor;
    return status;
  });
}

void msprobe_monitor_after_fork(msprobe_monitor* monitor) noexcept {
  if (monitor != nullptr) {
    // Threads and locks are the parent's.
    [[maybe_unused]] const auto* const engine = monitor->engine.release();
    [[maybe_unused]] const auto* const copies = monitor->device_copies.release();
  }
}

const char* msprobe_monitor_settings(const msprobe_monitor* monitor) noexcept {
  return monitor != nullptr && monitor->engine != nullptr ? monitor->engine->settings_json() : "{}";
}

int msprobe_monitor_set_ops(msprobe_monitor* monitor, msprobe_text json_list) noexcept {
  return WithMonitor(monitor,
                     [&](msprobe_monitor& m) { return m.engine->SetOps(View(json_list)); });
}

int msprobe_monitor_set_place(msprobe_monitor* monitor,
                              const msprobe_monitor_place* place) noexcept {
  return WithMonitor(monitor, [&](msprobe_monitor& m) -> Status {
    if (place == nullptr || place->rank < 0) {
      return UsageError("msprobe_monitor_set_place needs a place with a rank from 0");
    }
    RankTopology given;
    given.is_distributed = place->distributed != 0;
    given.rank = place->rank;
    given.world_size = place->world_size;
    given.pipeline_stage = place->pipeline_stage;
    if (place->group_mates != nullptr) {
      given.pipeline_ranks = Ranks(place->group_mates, place->group_mate_count);
    }
    given.tensor_ranks = GivenRanks(place->tensor_ranks, place->tensor_rank_count);
    given.data_ranks = GivenRanks(place->data_ranks, place->data_rank_count);
    return m.engine->SetTopology(std::move(given));
  });
}

int msprobe_monitor_selects_stack(msprobe_monitor* monitor, msprobe_text stack) noexcept {
  bool selects = false;
  WithMonitor(monitor, [&](msprobe_monitor& m) -> Status {
    selects = m.engine->SelectsStack(View(stack));
    return {};
  });
  return selects ? 1 : 0;
}

const char* msprobe_monitor_output_folder(const msprobe_monitor* monitor) noexcept {
  Guarded([&]() -> Status {
    TextOfThisThread().clear();
    if (monitor != nullptr && monitor->engine != nullptr) {
      TextOfThisThread() = monitor->engine->output_folder();
    }
    return {};
  });
  return TextOfThisThread().c_str();
}

int msprobe_monitor_name_parameter(msprobe_monitor* monitor, int32_t stage, msprobe_text full_name,
                                   const char** reported) noexcept {
  return Name(monitor, reported,
              [&](MonitorEngine& engine) { return engine.NameParameter(stage, View(full_name)); });
}

int msprobe_monitor_name_module(msprobe_monitor* monitor, int32_t stage, msprobe_text full_name,
                                const char** reported) noexcept {
  return Name(monitor, reported,
              [&](MonitorEngine& engine) { return engine.NameModule(stage, View(full_name)); });
}

int msprobe_monitor_name_feature_module(msprobe_monitor* monitor, int32_t table, int32_t stage,
                                        msprobe_text full_name, const char** reported) noexcept {
  return Name(monitor, reported, [&](MonitorEngine& engine) -> std::optional<std::string> {
    const auto hook = IsTable(table) ? FeatureHookOf(static_cast<Table>(table)) : std::nullopt;
    return hook ? engine.NameFeatureModule(*hook, stage, View(full_name)) : std::nullopt;
  });
}

void msprobe_monitor_forget_names(msprobe_monitor* monitor) noexcept {
  WithMonitor(monitor, [](msprobe_monitor& m) -> Status {
    m.engine->ForgetNames();
    return {};
  });
}

int msprobe_monitor_begin(msprobe_monitor* monitor, int64_t step, int32_t* state) noexcept {
  if (state != nullptr) {
    *state = MSPROBE_MONITOR_OFF;
  }
  return WithMonitor(monitor,
                     [&](msprobe_monitor& m) { return Tell(m.engine->Begin(step), state); });
}

int msprobe_monitor_end_step(msprobe_monitor* monitor, int32_t* state) noexcept {
  if (state != nullptr) {
    *state = MSPROBE_MONITOR_OFF;
  }
  return WithMonitor(monitor, [&](msprobe_monitor& m) { return Tell(m.engine->EndStep(), state); });
}

int64_t msprobe_monitor_current_step(const msprobe_monitor* monitor) noexcept {
  return monitor != nullptr && monitor->engine != nullptr ? monitor->engine->current_step() : 0;
}

int msprobe_monitor_flush(msprobe_monitor* monitor) noexcept {
  return WithMonitor(monitor, [](msprobe_monitor& m) { return m.engine->Flush(); });
}

uint32_t msprobe_monitor_slot(msprobe_monitor* monitor, int32_t table, msprobe_text name,
                              msprobe_text task) noexcept {
  uint32_t slot = 0;
  WithMonitor(monitor, [&](msprobe_monitor& m) -> Status {
    if (!IsTable(table)) {
      return UsageError("no table has the number " + std::to_string(table));
    }
    slot = m.engine->Slot(static_cast<Table>(table), View(name), View(task));
    return {};
  });
  return slot;
}

int msprobe_monitor_measure(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                            int32_t micro_step, const msprobe_tensor* tensor) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    MeasuredTensor measured;
    Status status = MeasureTensor(tensor, m.engine->rules(), *m.device_copies, measured);
    // A tensor that cannot be read keeps its row, without numbers.
    MSP_RETURN_IF_ERROR(m.engine->Put({slot, index, micro_step}, measured.numbers, measured.shape,
                                      measured.dtype_text));
    return status;
  });
}

int msprobe_monitor_accumulate(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                               const msprobe_tensor* tensor) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    MeasuredTensor measured;
    Status status = MeasureTensor(tensor, m.engine->rules(), *m.device_copies, measured);
    MSP_RETURN_IF_ERROR(m.engine->Accumulate({slot, index, MSPROBE_MONITOR_NO_MICRO_STEP},
                                             measured.numbers, measured.shape,
                                             measured.dtype_text));
    return status;
  });
}

int msprobe_monitor_put_number(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                               int32_t micro_step, double value) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) {
    return m.engine->PutNumber({slot, index, micro_step}, value);
  });
}

int msprobe_monitor_put_features(msprobe_monitor* monitor, uint32_t slot, int32_t micro_step,
                                 const double* numbers, size_t count) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    if (numbers == nullptr) {
      return UsageError("no numbers are given");
    }
    return m.engine->PutFeatures({slot, MSPROBE_MONITOR_NO_INDEX, micro_step},
                                 std::span(numbers, count));
  });
}

int msprobe_monitor_put_sign_agreement(msprobe_monitor* monitor, uint32_t slot,
                                       const msprobe_tensor* gradient,
                                       const msprobe_tensor* moment) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    MSP_ASSIGN_OR_RETURN(const TensorView a, HostView(gradient));
    MSP_ASSIGN_OR_RETURN(const TensorView b, HostView(moment));
    return m.engine->PutNumber({slot, MSPROBE_MONITOR_NO_INDEX, MSPROBE_MONITOR_NO_MICRO_STEP},
                               msprobe::monitor::SignAgreement(a, b));
  });
}

uint64_t msprobe_monitor_measure_deferred(msprobe_monitor* monitor, uint32_t slot, int32_t index,
                                          int32_t micro_step,
                                          const msprobe_tensor* tensor) noexcept {
  uint64_t ticket = 0;
  WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    if (tensor == nullptr) {
      return m.engine->Put({slot, index, micro_step}, {}, {}, {});
    }
    TensorDescription described;
    MSP_RETURN_IF_ERROR(Describe(*tensor, described));
    MSP_ASSIGN_OR_RETURN(ticket, m.engine->PutDeferred({slot, index, micro_step}, described.dtype,
                                                       described.shape, described.dtype_text));
    return {};
  });
  return ticket;
}

int msprobe_monitor_fill(msprobe_monitor* monitor, uint64_t ticket, const double* numbers,
                         size_t count) noexcept {
  return WhenOn(monitor, [&](msprobe_monitor& m) -> Status {
    if (numbers == nullptr && count > 0) {
      return UsageError("no numbers are given");
    }
    return m.engine->Fill(ticket, std::span(numbers, count));
  });
}

int msprobe_monitor_rows(msprobe_monitor* monitor, int32_t table, const char** json) noexcept {
  if (json != nullptr) {
    *json = "[]";
  }
  return WithMonitor(monitor, [&](msprobe_monitor& m) -> Status {
    if (!IsTable(table) || json == nullptr) {
      return UsageError("msprobe_monitor_rows needs a table, and a place for the text");
    }
    TextOfThisThread() = m.engine->RowsJson(static_cast<Table>(table));
    *json = TextOfThisThread().c_str();
    return {};
  });
}

int msprobe_monitor_write_file(msprobe_monitor* monitor, msprobe_text name,
                               msprobe_text content) noexcept {
  return WithMonitor(
      monitor, [&](msprobe_monitor& m) { return m.engine->WriteFile(View(name), View(content)); });
}

}  // extern "C"
