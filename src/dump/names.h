// The names of a dump: "Functional.conv2d.0.forward", "Module.net.fc.Linear.forward.0",
// "Module.net.fc.Linear.parameters_grad", "loss.0.debug", and the rows below them:
// "Functional.conv2d.0.forward.input.0".
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::dump {

// Ends the names of entries that stand in kReducedGradientsFileName: gradients of a module's
// parameters as the optimizer was given them.
inline constexpr std::string_view kReducedGradientsEnd = ".parameters_grad.reduced";

enum class Direction : uint8_t { kNone, kForward, kBackward };
enum class RowState : uint8_t { kInput, kOutput, kKwargs, kParameters, kParametersGrad, kDebug };
std::string_view RowStateName(
    RowState state);  // "input", "output", "kwargs", "parameters", "parameters_grad", "debug"

// An entry's name, taken apart. Views point into the name given.
struct EntryName {
  std::string_view kind;        // first part: "Functional", "Tensor", "Module", "Distributed", ...
  std::string_view subject;     // API: "conv2d" (whatever stands between kind and number); module:
                                // "net.fc" (path); debug: everything before ".debug"; a name of no
                                // known form: everything behind the kind
  std::string_view class_name;  // modules: "Linear"; else empty
  std::optional<int64_t> call;  // call number; of a debug entry the number in front of ".debug"
  Direction direction = Direction::kNone;
  bool is_module = false;  // Module.* or Cell.*
  bool is_parameters_grad = false;
  bool is_debug = false;
};
EntryName ParseEntryName(std::string_view name);
template <std::same_as<std::string> Text>
EntryName ParseEntryName(Text&& name) = delete;  // what is returned refers to `name`

// A row's name: which part of which call it belongs to.
struct RowName {
  RowState state = RowState::kInput;
  // "Functional.conv2d.0.forward." or "Module.fc.Linear.forward.0.", with the trailing dot; for
  // parameters_grad the text before "parameters_grad", for debug the text before the first "debug".
  std::string_view api_name;
};
// nullopt when the name follows none of the forms: no or several ".forward."/".backward.", or
// behind it something else than an optional call number, one of input, output, kwargs, parameters,
// and at least one more part.
std::optional<RowName> ParseRowName(std::string_view name);
template <std::same_as<std::string> Text>
std::optional<RowName> ParseRowName(Text&& name) = delete;

// "Functional.linear.0.backward" <-> "Functional.linear.0.forward", "Module.a.Linear.backward.1"
// <-> "...forward.1". A name without a direction (and any name for kNone) is returned unchanged.
std::string WithDirection(std::string_view entry_name, Direction direction);

// Suggestions for the name of a call that does not exist.
// Up to five of `names`, of which none is `word`: those of the same subject first, then those with
// the word in them; where there are none, those whose subject is a slip of the finger away. Sorted,
// each once.
std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names);

// For a message: "it has <names>"; without names near, how `json` shows what it has.
std::string NamesLikeHint(std::string_view word, std::span<const std::string> names,
                          const std::string& json);

}  // namespace msprobe::dump
