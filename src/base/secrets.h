// What must not leave this machine in a result: passwords, tokens and keys, found by the names they
// are stored under and by how they look. Used wherever variables, command lines, settings or
// captured output are shown or stored.
//
// Nothing that is masked changes what is around it: JSON stays JSON, YAML stays YAML, a command
// line is split as before. Masking twice changes nothing more. Time is linear in the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msprobe::base {

inline constexpr std::string_view kMaskedText = "***";

struct Masked {
  std::string text;
  size_t count = 0;  // values that were replaced
};

// What a name says of its value.
enum class Secrecy : uint8_t {
  kNone,
  kRandom,  // "session": a secret where it looks like random letters
  kPlural,  // "tokens" alone: as kLikely, but words in lower case are names of columns or members
  kLikely,  // "wandb-key": a secret unless it is a number, a word like true, or a path
  kSure,    // "password": a secret, and so is all that is inside of it
};

// `name` may be of a variable, an option, a key of a config, dotted or not: "HF_TOKEN",
// "--db-password", "hub.apiKey". Model words ("pad_token", "num_key_value_heads") are none.
Secrecy SecrecyOf(std::string_view name);

// Whether a value is one under such a name. Empty texts, words like true and none, short numbers,
// ${VARIABLE} and kMaskedText never are.
bool IsSecretValue(Secrecy secrecy, std::string_view value);

// Any text: logs, output, scripts, configs, values.
Masked MaskText(std::string_view text);
// The value of one variable, parameter or member of a config.
Masked MaskValue(std::string_view name, std::string_view value);
// The words of a command line; `count`, if given, grows by what was masked.
std::vector<std::string> MaskArguments(std::span<const std::string> arguments,
                                       size_t* count = nullptr);

}  // namespace msprobe::base
