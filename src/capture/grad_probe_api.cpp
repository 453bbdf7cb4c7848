// The C interface of msprobe/grad_probe.h over the component grad_probe.
#include <memory>

#include "msprobe/grad_probe.h"

#include "src/capture/c_api_edge.h"
#include "src/grad_probe/probe.h"

using msprobe::OkStatus;
using msprobe::Status;
using msprobe::TensorView;
using msprobe::UsageError;
using msprobe::capture::Guarded;
using msprobe::capture::HostView;
using msprobe::capture::View;

struct msprobe_grad_probe {
  explicit msprobe_grad_probe(msprobe::grad_probe::Settings settings)
      : probe(std::move(settings)) {}

  msprobe::grad_probe::Probe probe;
  bool is_forked = false;
};

namespace {

// body(probe) -> Status. In a forked child nothing happens.
template <typename Body>
int WithProbe(msprobe_grad_probe* probe, Body body) noexcept {
  return Guarded([&]() -> Status {
    if (probe == nullptr) {
      return UsageError("there is no probe: call msprobe_grad_probe_open first");
    }
    return probe->is_forked ? OkStatus() : body(probe->probe);
  });
}

}  // namespace

extern "C" {

int msprobe_is_grad_probe(msprobe_text config_path, msprobe_text overrides_json) noexcept {
  bool is_grad_probe = false;
  const int code = Guarded([&]() -> Status {
    is_grad_probe = msprobe::grad_probe::IsGradProbe(View(config_path), View(overrides_json));
    return OkStatus();
  });
  return code == MSPROBE_OK && is_grad_probe ? 1 : 0;
}

int msprobe_grad_probe_open(msprobe_text config_path, msprobe_text overrides_json,
                            msprobe_grad_probe** out) noexcept {
  return Guarded([&]() -> Status {
    if (out == nullptr) {
      return UsageError("msprobe_grad_probe_open needs a place for the probe");
    }
    MSP_ASSIGN_OR_RETURN(
        msprobe::grad_probe::Settings settings,
        msprobe::grad_probe::LoadSettings(View(config_path), View(overrides_json)));
    *out = std::make_unique<msprobe_grad_probe>(std::move(settings)).release();
    return OkStatus();
  });
}

void msprobe_grad_probe_close(msprobe_grad_probe* probe) noexcept {
  const std::unique_ptr<msprobe_grad_probe> owned(probe);
}

void msprobe_grad_probe_after_fork(msprobe_grad_probe* probe) noexcept {
  static_cast<void>(Guarded([&]() -> Status {
    if (probe != nullptr) {
      probe->is_forked = true;
      probe->probe.AfterFork();
    }
    return OkStatus();
  }));
}

const char* msprobe_grad_probe_parameter(const msprobe_grad_probe* probe, size_t index) noexcept {
  if (probe == nullptr || index >= probe->probe.settings().parameters.size()) {
    return nullptr;
  }
  return probe->probe.settings().parameters[index].c_str();
}

int msprobe_grad_probe_begin_step(msprobe_grad_probe* probe, int64_t rank, int64_t step,
                                  int* outcome) noexcept {
  return WithProbe(probe, [&](msprobe::grad_probe::Probe& open) -> Status {
    if (outcome == nullptr) {
      return UsageError("msprobe_grad_probe_begin_step needs a place for its outcome");
    }
    bool finished = false;
    const bool selected = open.Selects(rank, step, finished);
    *outcome = finished ? MSPROBE_START_FINISHED : selected ? MSPROBE_START_ON : MSPROBE_START_OFF;
    return selected ? open.BeginStep(rank, step) : OkStatus();
  });
}

int msprobe_grad_probe_put(msprobe_grad_probe* probe, msprobe_text name,
                           const msprobe_tensor* gradient) noexcept {
  return WithProbe(probe, [&](msprobe::grad_probe::Probe& open) -> Status {
    MSP_ASSIGN_OR_RETURN(const TensorView view, HostView(gradient), View(name));
    return open.Put(View(name), view);
  });
}

int msprobe_grad_probe_end_step(msprobe_grad_probe* probe) noexcept {
  return WithProbe(probe, [](msprobe::grad_probe::Probe& open) { return open.EndStep(); });
}

int msprobe_grad_probe_flush(msprobe_grad_probe* probe) noexcept {
  return WithProbe(probe, [](msprobe::grad_probe::Probe& open) { return open.Flush(); });
}

}  // extern "C"
