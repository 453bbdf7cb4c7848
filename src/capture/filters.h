// Which halves of which calls are recorded: list, scope and data_mode as windows in time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "msprobe/status.h"

#include "src/capture/settings.h"

namespace msprobe::capture {

// What to record of a call at this moment.
struct Wanted {
  bool input = false;
  bool output = false;
  bool stack = false;  // forward names only
};

// Not thread-safe: calls come in the order of events, under the session's lock.
class Filters {
 public:
  // Names in scope are checked against the level; regular expressions are compiled.
  static Result<Filters> Create(const Settings& settings);
  Filters(Filters&&) noexcept;
  Filters& operator=(Filters&&) noexcept;
  ~Filters();

  // Full names: "Functional.linear.0.forward", "Module.fc.Linear.backward.0". A call enters before
  // it runs and leaves after it: the windows that it opens include it, the windows that it closes
  // too, output included.
  Wanted Enter(std::string_view name);
  Wanted Leave(std::string_view name);

  // "Module.fc.Linear": its parameters' gradients are recorded when its name passes the list or its
  // backward was recorded in this step.
  bool WantsParametersGrad(std::string_view module);
  // Whether tensors of this name are saved as files (task tensor: of every recorded name).
  bool SavesTensors(std::string_view name) const;

  // Whether it matters that calls are told which are not recorded.
  bool has_windows() const;

  // Forgets what happened in a step; open scope windows stay open.
  void NextStep();

 private:
  struct State;
  explicit Filters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::capture
