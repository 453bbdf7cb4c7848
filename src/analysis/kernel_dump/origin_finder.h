// Where the tensor of an operator that stands for several of the reference is found there.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/analysis/kernel_dump/fusion_rules.h"
#include "src/analysis/kernel_dump/vector_side.h"

namespace msprobe::analysis::kernel_dump {

// An output of an operator of the reference.
struct ReferencePlace {
  const VectorOperator* op = nullptr;
  size_t output = 0;
};

class OriginFinder {
 public:
  // `reference` must outlive the finder.
  static Result<OriginFinder> Make(const FusionRuleFiles& files,
                                   const std::vector<VectorOperator>& reference);

  // All runs of the operator of this name in the reference, in order.
  const std::vector<const VectorOperator*>& Runs(std::string_view name) const;
  // Whether rules know the operator under test.
  bool HasRules(std::string_view op) const;

  // Of the `turn`-th run of an operator; nothing where neither rules nor the file itself tell an
  // origin that the reference has.
  std::optional<ReferencePlace> Find(const OpenOperator& open, std::string_view op, size_t turn,
                                     bool outputs, size_t number) const;

 private:
  std::optional<ReferencePlace> InReference(const OutputPlace& origin, size_t turn) const;

  std::vector<FusionRules> rules_;                    // of the side under test
  std::map<OutputPlace, OutputPlace> golden_places_;  // by origin
  std::map<std::string_view, std::vector<const VectorOperator*>> runs_;
};

}  // namespace msprobe::analysis::kernel_dump
