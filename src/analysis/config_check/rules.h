// What config_check compares and why it matters: the tables of config/config_check.json.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/json/document.h"

namespace msprobe::analysis::config_check {

// The name of a variable on one kind of device and what counts when it is not set.
struct VariableOnDevice {
  std::string name;                           // empty: no such variable there
  const json::Json* default_value = nullptr;  // of Rules::tree, with the type it is compared with
};

struct VariableRule {
  VariableOnDevice npu;
  VariableOnDevice gpu;
  std::string why;
  std::string fix;
};

// A variable outside of the standard rows.
struct FurtherVariable {
  std::string name;
  std::string device;  // "npu", "gpu" or empty for both
  std::string why;
};

struct FurtherPackage {
  std::string name;
  bool one_side_is_error = false;
};

struct Remedy {
  std::string why;
  std::string fix;
};

// Hyperparameters of one kind; patterns as base::GlobMatch takes them, for lower-case names.
struct Topic {
  std::vector<std::string> names;
  std::string why;
};

struct Rules {
  std::shared_ptr<const json::Json> tree;
  std::vector<VariableRule> variables;
  std::vector<FurtherVariable> further_variables;
  std::vector<std::string> packages;
  std::vector<FurtherPackage> further_packages;
  std::vector<std::pair<std::string, std::vector<std::string>>> aliases;  // canonical name, others
  std::vector<std::pair<std::string, Remedy>> checks;                     // by part name
  std::vector<Topic> topics;                                              // the most telling first

  std::vector<std::string> local_variables;  // patterns: paths, addresses, logging

  // A variable of the two tables.
  bool Compares(std::string_view variable) const;
  // It differs from host to host and changes no result.
  bool IsLocal(std::string_view variable) const;
  const Remedy& RemedyOf(std::string_view part) const;
  // The index of the first topic a hyperparameter belongs to; topics.size() for none.
  size_t TopicOf(std::string_view name) const;
};

// Parsed once.
const Rules& BuiltInRules();

}  // namespace msprobe::analysis::config_check
