// What must not travel inside a pack: passwords, tokens and keys, told by the names they are stored
// under, and credentials inside of URLs. The patterns stand in secrets.cpp, in one place.
#pragma once

#include <string>
#include <string_view>

#include "src/json/config.h"

namespace msprobe::analysis::config_check {

inline constexpr std::string_view kMaskedText = "***";

// The value with every secret replaced by kMaskedText. Masking twice changes nothing more, so two
// sides of which only one was masked agree after both were.
std::string MaskVariable(std::string_view name, std::string_view value);

// The same for a hyperparameter, in place: every text inside of it. Names that speak of a model's
// tokens and keys ("pad-token", "num-key-value-heads") are no secrets here.
void MaskParameter(std::string_view name, json::ConfigValue& value);
std::string MaskParameterText(std::string_view name, std::string_view value);

}  // namespace msprobe::analysis::config_check
