// Noisy binary search. The unknown is the pair of the change that turns the run bad, and of two
// rates: how often a good state gives a bad run, and a bad state a good one. Runs that never lie
// are one hypothesis among those, with half of the weight; that no change matters (the same rate
// everywhere) is another. After each run all hypotheses are weighed by Bayes' rule.
//
// As long as no two runs contradict each other the next state is the middle of what is left, so
// that a search without noise takes log2(n) runs. Then, and once there is a contradiction, it is
// the state at which the distribution of the boundary is cut in halves (probabilistic bisection),
// which near the end means: the two neighbours of the boundary are run again. The search ends when
// one hypothesis has odds of 20 to 1 against all others together.
//
// A state that cannot be judged is left out: its two neighbours become one, and the answer a range.
#include "src/analysis/bisect/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace msprobe::analysis::bisect {
namespace {

constexpr double kEnough = kOdds / (kOdds + 1);
constexpr double kWeakTrust = 0.7;  // a run near the border is right so often
constexpr double kBoundaryWeight = 0.5;
constexpr double kHardlyEver = 0.11;

// The same rate of bad runs in every state.
struct FlatRate {
  double bad = 0;
  double weight = 0;
};
constexpr FlatRate kFlat[] = {{0, 0.15},   {1, 0.15},   {0.1, 0.04}, {0.3, 0.04},
                              {0.5, 0.04}, {0.7, 0.04}, {0.9, 0.04}};

double Power(double count, double rate) {
  if (count == 0) {
    return 0;
  }
  return rate > 0 ? count * std::log(rate) : -std::numeric_limits<double>::infinity();
}

// Sums of tallies.
struct Sums {
  double good = 0;
  double bad = 0;
  double weakly_good = 0;
  double weakly_bad = 0;

  void Add(const Tally& tally) {
    good += tally.good;
    bad += tally.bad;
    weakly_good += tally.weakly_good;
    weakly_bad += tally.weakly_bad;
  }
  Sums Without(const Sums& part) const {
    return {good - part.good, bad - part.bad, weakly_good - part.weakly_good,
            weakly_bad - part.weakly_bad};
  }
};

double LogOfGoodState(const Sums& sums, double false_bad) {
  return Power(sums.good, 1 - false_bad) + Power(sums.bad, false_bad) +
         Power(sums.weakly_good, kWeakTrust) + Power(sums.weakly_bad, 1 - kWeakTrust);
}

double LogOfBadState(const Sums& sums, double false_good) {
  return Power(sums.bad, 1 - false_good) + Power(sums.good, false_good) +
         Power(sums.weakly_bad, kWeakTrust) + Power(sums.weakly_good, 1 - kWeakTrust);
}

// All hypotheses weighed.
struct Posterior {
  std::vector<double> boundary;  // one per place between neighbouring states
  std::vector<double> noise;     // likelihood per pair of rates, at the best place
  double flat = 0;
  double never_bad = 0;  // hardly ever
  double always_bad = 0;
  double mean_flat_rate = 0;
  size_t best = 0;
};

Posterior Weigh(const std::vector<size_t>& states, const std::vector<Tally>& seen,
                const Noise& noise, bool ends_are_known) {
  const size_t places = states.size() - 1;
  std::vector<Sums> before(places);  // of the states in front of a place
  Sums all;
  for (size_t i = 0; i < states.size(); ++i) {
    all.Add(seen[states[i]]);
    if (i < places) {
      before[i] = all;
    }
  }
  const auto changes = static_cast<double>(states.back() - states.front());
  std::vector<double> logs;
  logs.reserve(places * noise.rates().size());
  for (size_t place = 0; place < places; ++place) {
    const double prior = static_cast<double>(states[place + 1] - states[place]) / changes;
    const Sums behind = all.Without(before[place]);
    for (const Noise::Rates& rates : noise.rates()) {
      logs.push_back(std::log(rates.weight * kBoundaryWeight * prior) +
                     LogOfGoodState(before[place], rates.false_bad) +
                     LogOfBadState(behind, rates.false_good));
    }
  }
  std::vector<double> flat_logs;
  for (const FlatRate& flat : kFlat) {
    flat_logs.push_back(ends_are_known
                            ? -std::numeric_limits<double>::infinity()
                            : std::log(flat.weight) + Power(all.bad, flat.bad) +
                                  Power(all.good, 1 - flat.bad) +
                                  Power(all.weakly_bad, std::clamp(flat.bad, 0.3, 0.7)) +
                                  Power(all.weakly_good, 1 - std::clamp(flat.bad, 0.3, 0.7)));
  }
  const double most = std::max(*std::max_element(logs.begin(), logs.end()),
                               *std::max_element(flat_logs.begin(), flat_logs.end()));
  double total = 0;
  for (double& value : logs) {
    value = std::exp(value - most);
    total += value;
  }
  for (double& value : flat_logs) {
    value = std::exp(value - most);
    total += value;
  }
  Posterior posterior;
  posterior.boundary.resize(places);
  for (size_t place = 0; place < places; ++place) {
    for (size_t i = 0; i < noise.rates().size(); ++i) {
      posterior.boundary[place] += logs[place * noise.rates().size() + i] / total;
    }
    if (posterior.boundary[place] > posterior.boundary[posterior.best]) {
      posterior.best = place;
    }
  }
  for (size_t i = 0; i < noise.rates().size(); ++i) {
    posterior.noise.push_back(logs[posterior.best * noise.rates().size() + i] /
                              std::max(noise.rates()[i].weight, 1e-300));
  }
  for (size_t i = 0; i < flat_logs.size(); ++i) {
    const double weight = flat_logs[i] / total;
    posterior.flat += weight;
    posterior.mean_flat_rate += weight * kFlat[i].bad;
    posterior.never_bad += kFlat[i].bad <= kHardlyEver ? weight : 0;
    posterior.always_bad += kFlat[i].bad >= 1 - kHardlyEver ? weight : 0;
  }
  posterior.mean_flat_rate /= std::max(posterior.flat, 1e-300);
  return posterior;
}

// The middle of the states that no run has judged yet; npos where nothing is left between the last
// good and the first bad one, or where runs contradict each other.
size_t PlainMiddle(const std::vector<size_t>& states, const std::vector<Tally>& seen) {
  size_t low = 0;
  size_t high = states.size() - 1;
  for (size_t i = 0; i < states.size(); ++i) {
    const Tally& tally = seen[states[i]];
    if (tally.contradicts()) {
      return SIZE_MAX;
    }
    if (tally.says_good()) {
      low = i;
    }
    if (tally.says_bad()) {
      high = std::min(high, i);
    }
  }
  return low < high && high - low > 1 ? (low + high) / 2 : SIZE_MAX;
}

size_t NextState(const std::vector<size_t>& states, const std::vector<Tally>& seen,
                 const Posterior& posterior) {
  const size_t last = states.size() - 1;
  for (const size_t end : {size_t{0}, last}) {
    if (seen[states[end]].runs() == 0) {
      return end;
    }
  }
  const Tally& none = seen[states.front()];
  const Tally& all = seen[states.back()];
  const double others = 1 - posterior.flat - posterior.boundary[posterior.best];
  if (!none.says_good() || !all.says_bad() || posterior.flat > others) {
    const size_t middle = PlainMiddle(states, seen);
    if (none.says_good() && all.says_bad() && middle != SIZE_MAX) {
      return middle;
    }
    // Ends are run again: the one that does not look as it should, else the less known one.
    if (all.says_bad() != none.says_good()) {
      return all.says_bad() ? 0 : last;
    }
    return all.runs() <= none.runs() ? last : 0;
  }
  if (const size_t middle = PlainMiddle(states, seen); middle != SIZE_MAX) {
    return middle;
  }
  double total = 0;
  for (const double weight : posterior.boundary) {
    total += weight;
  }
  size_t best = 0;
  double nearest = 1;
  double sum = 0;
  for (size_t i = 0; i <= last; ++i) {
    if (const double distance = std::abs(sum / total - 0.5); distance < nearest) {
      nearest = distance;
      best = i;
    }
    sum += i < last ? posterior.boundary[i] : 0;
  }
  return best;
}

}  // namespace

void Tally::Add(Outcome outcome) {
  switch (outcome) {
    case Outcome::kGood:
      ++good;
      return;
    case Outcome::kBad:
      ++bad;
      return;
    case Outcome::kWeaklyGood:
      ++weakly_good;
      return;
    case Outcome::kWeaklyBad:
      ++weakly_bad;
      return;
    case Outcome::kSkip:
      skipped = true;
      return;
  }
}

Noise::Noise(bool trusts) {
  if (trusts) {
    rates_ = {{0, 0, 1}};
    return;
  }
  constexpr double kNeverLie = 0.5;
  // A fault that does not always show is commoner than one that shows without being there.
  constexpr std::pair<double, double> kFalseBad[] = {{0, 0.6}, {0.05, 0.2}, {0.2, 0.2}};
  constexpr double kFalseGood[] = {0.02, 0.1, 0.2, 0.3, 0.5};
  rates_.push_back({0, 0, kNeverLie});
  for (const auto& [false_bad, weight] : kFalseBad) {
    for (const double false_good : kFalseGood) {
      rates_.push_back({false_bad, false_good, (1 - kNeverLie) * weight / std::size(kFalseGood)});
    }
  }
}

void Noise::Learn(const std::vector<double>& likelihoods) {
  double total = 0;
  for (size_t i = 0; i < rates_.size(); ++i) {
    total += rates_[i].weight * likelihoods[i];
  }
  if (!(total > 0)) {
    return;
  }
  for (size_t i = 0; i < rates_.size(); ++i) {
    // Never quite nothing: a later contradiction must be possible.
    rates_[i].weight = std::max(rates_[i].weight * likelihoods[i] / total, 1e-6);
  }
}

Result<Boundary> FindBoundary(size_t count, std::vector<Tally>& seen, bool ends_are_known,
                              Noise& noise, Budget& budget, const RunAt& run) {
  seen.resize(count + 1);
  const bool trusts = noise.rates().size() == 1;
  for (;;) {
    std::vector<size_t> states;  // that can be judged; the ends always
    for (size_t position = 0; position <= count; ++position) {
      if (!seen[position].skipped || position == 0 || position == count) {
        states.push_back(position);
      }
    }
    const Posterior posterior = Weigh(states, seen, noise, ends_are_known);
    Boundary boundary;
    boundary.first = states[posterior.best] + 1;
    boundary.last = states[posterior.best + 1];
    boundary.probability = posterior.boundary[posterior.best];
    const Tally& none = seen.front();
    const Tally& all = seen.back();
    const bool ends_ran = none.runs() > 0 && all.runs() > 0;
    if (trusts && ends_ran && !none.says_good()) {
      boundary.end = Boundary::End::kAlwaysBad;
      return boundary;
    }
    if (trusts && ends_ran && !all.says_bad()) {
      boundary.end = Boundary::End::kNeverBad;
      return boundary;
    }
    if (ends_ran && posterior.never_bad >= kEnough) {
      boundary.end = Boundary::End::kNeverBad;
      return boundary;
    }
    if (ends_ran && posterior.always_bad >= kEnough) {
      boundary.end = Boundary::End::kAlwaysBad;
      return boundary;
    }
    if (ends_ran && boundary.probability >= kEnough && none.says_good() && all.says_bad()) {
      boundary.end = Boundary::End::kFound;
      noise.Learn(posterior.noise);
      return boundary;
    }
    const bool is_flaky =
        ends_ran && posterior.flat - posterior.never_bad - posterior.always_bad >= kEnough;
    const size_t next = NextState(states, seen, posterior);
    Tally& tally = seen[states[next]];
    const bool is_repeat = tally.runs() > 0;
    if (is_flaky || (is_repeat && budget.repeats <= 0)) {
      // Without repeats the runs are all there is to go by.
      boundary.end = trusts && !is_flaky ? Boundary::End::kFound : Boundary::End::kFlaky;
      return boundary;
    }
    budget.repeats -= is_repeat ? 1 : 0;
    MSP_ASSIGN_OR_RETURN(const Outcome outcome, run(states[next]));
    tally.Add(outcome);
    if (outcome == Outcome::kSkip && (next == 0 || states[next] == count)) {
      return MismatchError(next == 0 ? "the good side cannot be judged: its run was skipped"
                                     : "the bad side cannot be judged: its run was skipped")
          .WithHint("both sides must run to their ends, or fail as the fault does");
    }
  }
}

Result<State> Judge(Tally& seen, double prior, Noise& noise, Budget& budget,
                    const std::function<Result<Outcome>()>& run) {
  for (;;) {
    if (seen.skipped) {
      return State::kSkipped;
    }
    Sums sums;
    sums.Add(seen);
    double good = 0;
    double bad = 0;
    std::vector<double> likelihoods;
    for (const Noise::Rates& rates : noise.rates()) {
      const double if_good = std::exp(LogOfGoodState(sums, rates.false_bad));
      const double if_bad = std::exp(LogOfBadState(sums, rates.false_good));
      good += rates.weight * (1 - prior) * if_good;
      bad += rates.weight * prior * if_bad;
      likelihoods.push_back(if_good + if_bad);
    }
    if (seen.runs() > 0 && std::max(good, bad) >= kOdds * std::min(good, bad)) {
      noise.Learn(likelihoods);
      return bad > good ? State::kBad : State::kGood;
    }
    if (seen.runs() > 0 && budget.repeats <= 0) {
      return noise.rates().size() == 1 && seen.runs() > 0
                 ? (seen.says_bad() ? State::kBad : State::kGood)
                 : State::kUnknown;
    }
    budget.repeats -= seen.runs() > 0 ? 1 : 0;
    MSP_ASSIGN_OR_RETURN(const Outcome outcome, run());
    seen.Add(outcome);
  }
}

}  // namespace msprobe::analysis::bisect
