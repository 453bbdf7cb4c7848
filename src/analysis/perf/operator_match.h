// Which operator of the comparison stands beside which of the base.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/perf.h"

namespace msprobe::analysis::perf {

// What matching goes by, for both sides in one numbering: the name, replaced where the options say
// so, and where they ask for it the input shapes.
class OperatorKeys {
 public:
  OperatorKeys(const profile::Profile& base, const profile::Profile& comparison,
               const Options& options);

  uint32_t Base(const profile::Operator& operation) { return Key(0, operation); }
  uint32_t Comparison(const profile::Operator& operation) { return Key(1, operation); }

 private:
  uint32_t Key(size_t side, const profile::Operator& operation);

  bool with_shapes_;
  std::vector<uint32_t> names_[2];   // by TextId
  std::vector<uint32_t> shapes_[2];  // the same for shapes
  std::unordered_map<uint64_t, uint32_t> pairs_;
};

// Pairs of nodes of the two trees in the order in which sheets list them. The top operators of both
// sides, in stretches on and off the thread that runs backward passes where both sides have one;
// pairs with more than options.max_kernels kernels give way to their children, as deep as it goes.
// Without details nothing is paired. Warns where sequences were too long to be aligned exactly.
std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const Options& options, std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
