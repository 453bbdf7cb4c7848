// What must not travel inside a pack or stand in a result, by the rules of base/secrets.h: here for
// values that hold others.
#pragma once

#include <cstddef>
#include <string_view>

#include "src/json/config.h"
#include "src/json/value_tree.h"

namespace msprobe::analysis::config_check {

// Masks a hyperparameter in place, with all that is inside of it; returns how many values were
// replaced.
size_t MaskParameter(std::string_view name, json::ConfigValue& value);

struct MaskedTree {
  json::ValueTree tree;
  size_t count = 0;
};
// The same for an object of parameters. Masking twice changes nothing more, so two sides of which
// only one was masked agree after both were.
MaskedTree MaskParameters(const json::ValueTree& tree);

}  // namespace msprobe::analysis::config_check
