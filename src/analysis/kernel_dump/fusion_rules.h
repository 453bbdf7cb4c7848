// The graph of a compiled model as JSON, which ATC writes: which operators of the original model
// each operator of the device stands for.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::kernel_dump {

// An output of an operator; names as those of dump files have them, '_' for '/', '.', '\' and
// blanks.
struct OutputPlace {
  std::string op;
  size_t output = 0;
  auto operator<=>(const OutputPlace&) const = default;
};

// Beyond this many operators, or inputs and outputs of all, a file is refused.
inline constexpr size_t kMostFusionOperators = 1'000'000;
inline constexpr size_t kMostFusionTensors = 16'000'000;

// Files of rules; empty: none.
struct FusionRuleFiles {
  std::filesystem::path network = {};    // what the test side was fused from
  std::filesystem::path quantised = {};  // goes on from where the first one leads
  std::filesystem::path reference = {};  // of the reference, where it is a compiled model, too

  bool any() const { return !network.empty() || !quantised.empty() || !reference.empty(); }
};

// Objects of the lists "op", wherever they stand in the file:
//   {"name": "conv_relu", "input": ["data:0", ...],
//    "attr": [{"key": "_datadump_original_op_names", "value": {"list": {"s": ["conv", "relu"]}}}],
//    "output_desc": [{"attr": [{"key": "_datadump_origin_name", "value": {"s": "relu"}},
//                              {"key": "_datadump_origin_output_index", "value": {"i": 0}}]}]}
// All else is skipped. The file is read as a stream, one operator at a time.
class FusionRules {
 public:
  static Result<FusionRules> Read(const std::filesystem::path& path);

  bool empty() const { return operators_.empty(); }
  bool has(std::string_view op) const { return operators_.count(op) > 0; }
  // What an output is in the original model. An output that is not listed by itself is that of the
  // last operator that the fused one stands for; nothing where neither is known.
  std::optional<OutputPlace> Origin(std::string_view op, size_t output) const;
  // What an input is: the origin of the output that it comes from.
  std::optional<OutputPlace> InputOrigin(std::string_view op, size_t input) const;
  // Origin() from the other side. Where two outputs have one origin, the one that is listed by
  // itself counts.
  std::map<OutputPlace, OutputPlace> ByOrigin() const;

 private:
  friend class FusionReader;

  struct Operator {
    std::vector<std::optional<OutputPlace>> outputs;  // listed one by one
    std::string last;                                 // of the operators that it stands for
    std::vector<OutputPlace> inputs;                  // where they come from
  };
  std::map<std::string, Operator, std::less<>> operators_;
  size_t tensors_ = 0;
};

}  // namespace msprobe::analysis::kernel_dump
