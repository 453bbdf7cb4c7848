// Decides which halves of which calls are recorded: list, scope and data_mode as windows in time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/bounded_expression.h"
#include "src/capture/settings.h"

namespace msprobe::capture {

// One element of `list` or `tensor_list`.

// "linear": any name that holds the text. "name-exact(Functional.linear.1)": this name and what
// begins with it and a dot, so not Functional.linear.10. "name-regex(attn.*proj)": a
// Perl-compatible expression, searched anywhere in the name.
class NamePattern {
 public:
  static Result<NamePattern> Parse(std::string_view element);

  // An expression that takes unreasonably long for a name is given up with a warning and matches
  // nothing from then on. One thread at a time.
  bool Matches(std::string_view name);

 private:
  enum class Kind { kSubstring, kExact, kExpression };

  NamePattern(Kind kind, std::string_view text);

  Kind kind_;
  std::string text_;
  std::optional<base::BoundedExpression> expression_;
};

// How likely a fault of the values is in an API: what risk_level leaves out of a capture.

// Whether calls of `api` ("matmul", "linalg.multi_dot"), whose names begin with `kind` ("Torch",
// "Tensor", "NPU"), are recorded at this level. kFocus leaves out what only moves or makes
// elements, kCore keeps matrix products, convolutions, normalisations, embeddings, attention,
// collectives and fused operators. The lists are those of the Python tool, with linear and
// chain_matmul in kCore.
bool IsAtRisk(RiskLevel level, std::string_view kind, std::string_view api);

// The parts of a call to record at this moment.
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

  // Whether it matters that calls are reported which are not recorded.
  bool has_windows() const;

  // Forgets what happened in a step; open scope windows stay open.
  void NextStep();

 private:
  struct State;
  explicit Filters(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::capture
