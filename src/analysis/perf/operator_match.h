// Which operator of the comparison stands beside which of the base.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/analysis/perf/alignment.h"
#include "src/analysis/perf/operator_tree.h"
#include "src/analysis/perf/options.h"
#include "src/profile/profile.h"

namespace msprobe::analysis::perf {

// What matching goes by, for both sides in one numbering: the name, replaced where the options say
// so, and where they ask for it the input shapes.
class OperatorKeys {
 public:
  // Borrows all three.
  OperatorKeys(const profile::Profile& base, const profile::Profile& comparison,
               const PairOptions& options);

  uint32_t Base(const profile::Operator& operation) { return Key(sides_[0], operation); }
  uint32_t Comparison(const profile::Operator& operation) { return Key(sides_[1], operation); }

 private:
  // Equal texts of either side have equal numbers.
  using Numbers = std::unordered_map<std::string_view, uint32_t>;
  struct KnownNumbers {
    const profile::Profile* profile = nullptr;
    std::vector<uint32_t> names;   // numbers by TextId, once they were asked for
    std::vector<uint32_t> shapes;  // the same
  };

  uint32_t Key(KnownNumbers& side, const profile::Operator& operation);
  std::string_view Renamed(std::string_view name) const;

  const PairOptions& options_;
  std::array<KnownNumbers, 2> sides_;
  Numbers names_;
  Numbers shapes_;
  std::unordered_map<uint64_t, uint32_t> pairs_;  // of a name and shapes
};

// Pairs of nodes of the two trees in the order in which sheets list them. The top operators of both
// sides, in stretches on and off the thread that runs backward passes where both sides have one;
// pairs with more than options.max_kernels kernels give way to their children, as deep as it goes.
// Without details nothing is paired. Warns where sequences were too long to be aligned exactly, and
// where not a single pair was found.
std::vector<AlignedPair> MatchOperators(const OperatorSide& base, const OperatorSide& comparison,
                                        const PairOptions& options,
                                        std::vector<std::string>& warnings);

}  // namespace msprobe::analysis::perf
