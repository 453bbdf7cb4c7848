// Where in a row of changes a run turns from good to bad, when runs may lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "msprobe/status.h"

namespace msprobe::analysis::bisect {

// What one run said. A weak verdict is one near the border between good and bad.
enum class Outcome : uint8_t { kGood, kBad, kWeaklyGood, kWeaklyBad, kSkip };

// All that the runs of one set of changes said.
struct Tally {
  uint32_t good = 0;
  uint32_t bad = 0;
  uint32_t weakly_good = 0;
  uint32_t weakly_bad = 0;
  bool skipped = false;

  void Add(Outcome outcome);
  uint32_t runs() const { return good + bad + weakly_good + weakly_bad; }
  bool says_good() const { return good + weakly_good > bad + weakly_bad; }
  bool says_bad() const { return bad + weakly_bad > good + weakly_good; }
  bool contradicts() const { return good + weakly_good > 0 && bad + weakly_bad > 0; }
};

// How often a good state gives a bad run and the other way round, as a distribution over pairs of
// rates; what one search learns is where the next one begins.
class Noise {
 public:
  struct Rates {
    double false_bad = 0;
    double false_good = 0;
    double weight = 0;
  };

  // Half of the weight says that runs never lie. `trusts`: all of it.
  explicit Noise(bool trusts = false);
  const std::vector<Rates>& rates() const { return rates_; }
  // The weights after what was seen, each multiplied by `likelihoods`.
  void Learn(const std::vector<double>& likelihoods);

 private:
  std::vector<Rates> rates_;
};

// 20 to 1.
inline constexpr double kOdds = 20;

// How many runs of a state that was run before there may still be.
struct Budget {
  int64_t repeats = 0;
};

struct Boundary {
  enum class End : uint8_t {
    kFound,
    kNeverBad,   // not even with all changes
    kAlwaysBad,  // not even without any
    kFlaky       // the budget ended before the odds were reached
  };
  End end = End::kFlaky;
  // The change that turns it, 1-based; a range where the states between could not be judged.
  size_t first = 0;
  size_t last = 0;
  double probability = 0;
};

// One run of the state after `position` changes.
using RunAt = std::function<Result<Outcome>(size_t position)>;

// Positions are 0 to `count`; `seen` (count + 1 of them) is what earlier runs said, and grows.
// `ends_are_known`: that there is a boundary is not in question.
Result<Boundary> FindBoundary(size_t count, std::vector<Tally>& seen, bool ends_are_known,
                              Noise& noise, Budget& budget, const RunAt& run);

enum class State : uint8_t { kGood, kBad, kUnknown, kSkipped };
// Whether one state is good or bad; kUnknown where the budget does not suffice. `prior`: how
// probable bad is before any run.
Result<State> Judge(Tally& seen, double prior, Noise& noise, Budget& budget,
                    const std::function<Result<Outcome>()>& run);

}  // namespace msprobe::analysis::bisect
