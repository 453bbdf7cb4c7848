// How a C function ends. Every call of the C interfaces leaves a code, and the
// text of its error in msprobe_last_error of its thread; no exception passes.
#pragma once

#include <string_view>

#include "msprobe/capture.h"
#include "msprobe/status.h"

#include "src/capture/entry.h"

namespace msprobe::capture {

// The text that msprobe_last_error returns.
const char* LastErrorText() noexcept;
// Notes the outcome for LastErrorText and returns its MSPROBE_ code.
int Conclude(const Status& status) noexcept;
// The same for the exception that is being handled.
int ConcludeException() noexcept;

// Runs body() -> Status at the edge of the library.
template <typename Body>
int Guarded(Body body) noexcept {
  try {
    return Conclude(body());
  } catch (...) {
    return ConcludeException();
  }
}

inline std::string_view View(msprobe_text text) {
  return text.length > 0 ? std::string_view(text.data, text.length) : std::string_view();
}

// The caller's description of a tensor, checked; `result` may have been used before and keeps its
// memory.
Status Describe(const msprobe_tensor& tensor, TensorDescription& result);

// The elements of a host tensor; an error when there are none to see.
Result<TensorView> HostView(const msprobe_tensor* tensor);

}  // namespace msprobe::capture
