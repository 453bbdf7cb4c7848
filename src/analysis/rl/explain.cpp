// Causes of a gap between log-probabilities, found one after the other.
//
// 1. Alignment: does a sequence of one side fit the other side of an earlier step, or its
// neighbour, better? (stale_weights,
//    shifted_ids). The partner is exchanged; what remains is the residual r = a - b of every token.
// 2. Peeling, until nothing significant is left: of all laws the one that explains most of the
// residual is
//    applied. A law either bounds r token by token (truncated_mass, temperature, head_precision),
//    or says which tokens a cause reaches (all others), and compares their spread with that of the
//    rest.
// 3. Noise: errors of rounding in the logits move a token of probability p by about (1 - p) times
// their
//    size, so x = r / (1 - p) has one scale. What fits it is noise, what exceeds it is unexplained.
// 4. Shares: the Shapley value over the causes that were found, on a sample of the tokens.
//
// Spreads are compared by the mean logarithm of |x| per sequence, so that tokens of a sequence,
// which err together, count once; the limits are those of a chance far below one in a thousand.
#include "src/analysis/rl/explain.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "src/analysis/rl/gap_statistics.h"
#include "src/analysis/rl/rl.h"
#include "src/analysis/rl/token_numbers.h"
#include "src/base/strings.h"

namespace msprobe::analysis::rl {
namespace {

constexpr double kRatio = 1.8;        // of spreads, from which on one is larger
constexpr double kCertain = 5.0;      // standard errors
constexpr double kMostNoise = 0.15;   // rounding moves logits by no more: standard deviation
constexpr double kLeastShare = 0.02;  // of the gap: less is not worth a cause
constexpr size_t kMostLaws = 8;
constexpr size_t kSampledTokens = 100'000;

// What one law explains, and how.
struct Found {
  std::string name;
  std::set<int64_t> steps;
  uint64_t tokens = 0;
  std::string text;
};

class Explainer {
 public:
  Explainer(const TokenKey& key, const GapTokens& tokens) : tokens_(tokens) { out_.key = key; }

  Explanation Run() {
    FindSteps();
    Align();
    Flatten();
    if (out_.gap <= 0) {
      return std::move(out_);
    }
    for (size_t i = 0; i < kMostLaws && PeelOne(); ++i) {
    }
    Judge();
    Share();
    return std::move(out_);
  }

 private:
  struct RowState {
    size_t begin = 0;  // among the flat tokens
    size_t end = 0;
    const float* partner = nullptr;  // b, or that of another step
    const float* stale_a = nullptr;  // a of another step, where b is the stale side
    int shift = 0;
    size_t step_index = 0;
  };

  // Steps and places.

  void FindSteps() {
    std::set<int64_t> steps;
    for (const GapRow& row : tokens_.rows) {
      steps.insert(row.step);
    }
    steps_.assign(steps.begin(), steps.end());
    states_.resize(tokens_.rows.size());
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      states_[i].step_index = static_cast<size_t>(
          std::lower_bound(steps_.begin(), steps_.end(), tokens_.rows[i].step) - steps_.begin());
      states_[i].partner = tokens_.rows[i].b;
    }
  }

  static bool Counts(const GapRow& row, size_t i) {
    return (row.counts == nullptr || row.counts[i] != 0);
  }

  static bool IsUsable(float a, float b) {
    return std::isfinite(a) && std::isfinite(b) && a <= kMaxLogProbability &&
           b <= kMaxLogProbability;
  }

  struct Fit {
    double sum = 0;
    uint64_t tokens = 0;
    double mean() const { return tokens == 0 ? 0 : sum / static_cast<double>(tokens); }
    void Add(const Fit& other) {
      sum += other.sum;
      tokens += other.tokens;
    }
  };

  static Fit FitOf(const GapRow& row, const float* a, const float* b, int shift) {
    Fit fit;
    for (size_t i = 0; i < row.length; ++i) {
      const int64_t at = static_cast<int64_t>(i) + shift;
      if (at < 0 || at >= int64_t{row.length} || !Counts(row, i) || !IsUsable(a[i], b[at])) {
        continue;
      }
      fit.sum += std::fabs(a[i] - b[at]);
      ++fit.tokens;
    }
    return fit;
  }

  // stale_weights and shifted_ids.

  void Align() {
    AlignShifts();
    AlignSteps();
  }

  struct Votes {
    double here = 0;  // sums of |a - b|
    double there = 0;
    double rows = 0;
    double wins = 0;
    double sum = 0;  // of the gain per row, and of its square
    double squares = 0;
    uint64_t tokens = 0;

    void Add(const Fit& now, const Fit& other) {
      here += now.sum;
      there += other.sum * static_cast<double>(now.tokens) /
               static_cast<double>(std::max<uint64_t>(other.tokens, 1));
      rows += 1;
      wins += other.mean() < now.mean() ? 1 : 0;
      const double gain = (now.mean() - other.mean()) / std::max(now.mean(), 1e-12);
      sum += gain;
      squares += gain * gain;
      tokens += now.tokens;
    }
    double errors() const {
      if (rows < 2) {
        return 0;
      }
      const double mean = sum / rows;
      return mean / std::sqrt(std::max((squares / rows - mean * mean) / (rows - 1), 1e-6));
    }
  };

  using Cell = std::pair<size_t, int64_t>;  // step, rank

  void AlignShifts() {
    std::map<std::pair<Cell, int>, Votes> votes;
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      if (row.length < 6) {
        continue;
      }
      const Fit now = FitOf(row, row.a, row.b, 0);
      for (const int shift : {-1, 1}) {
        const Fit other = FitOf(row, row.a, row.b, shift);
        if (now.tokens >= 5 && other.tokens >= 5) {
          votes[{{states_[i].step_index, row.rank}, shift}].Add(now, other);
        }
      }
    }
    std::map<Cell, int> shift_of;
    for (const auto& [at, vote] : votes) {
      const bool wins =
          vote.here > 0.02 * static_cast<double>(vote.tokens) &&
          ((vote.there < 0.6 * vote.here && vote.wins > 0.8 * vote.rows) ||
           (vote.there < 0.85 * vote.here && vote.wins > 0.8 * vote.rows && vote.errors() > 3));
      if (wins) {
        const auto [known, is_new] = shift_of.try_emplace(at.first, at.second);
        if (!is_new && votes[{at.first, known->second}].there > vote.there) {
          known->second = at.second;
        }
      }
    }
    Found found;
    found.name = "shifted_ids";
    uint64_t marked = 0;
    int shift = 0;
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      const auto cell = shift_of.find({states_[i].step_index, row.rank});
      marked += (row.mark & kShiftedIds) != 0 ? 1 : 0;
      if (cell == shift_of.end()) {
        continue;
      }
      const Fit now = FitOf(row, row.a, row.b, 0);
      const Fit other = FitOf(row, row.a, row.b, cell->second);
      if (row.length >= 6 && other.mean() > now.mean()) {
        continue;
      }
      shift = states_[i].shift = cell->second;
      found.tokens += now.tokens;
      found.steps.insert(row.step);
      shift_before_ += now.sum;
      shift_after_ += other.sum;
    }
    if (shift != 0) {
      found.text = fmt::format(
          "a[t] = b[t{}1]: the same token is compared with its neighbour; shifted, the mean "
          "difference falls to {:.2g} of itself",
          shift > 0 ? "+" : "-", shift_after_ / std::max(shift_before_, 1e-12));
      shift_law_ = AddLaw(std::move(found));
    }
  }

  // Versions of the weights that agree leave nothing to be stale.
  static bool MayBeStale(const GapRow& row) {
    return (row.mark & kOtherVersion) != 0 ||
           std::any_of(row.marks.begin(), row.marks.end(),
                       [](uint16_t mark) { return (mark & kOtherVersion) != 0; });
  }

  // Rows of another step that show the same tokens.
  void AlignSteps() {
    if (steps_.size() < 2) {
      return;
    }
    // place and tokens -> row, per step; all rows of the same ids come next
    std::vector<std::map<std::pair<uint64_t, uint64_t>, size_t>> at_place(steps_.size());
    std::vector<std::map<uint64_t, size_t>> by_ids(steps_.size());
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      at_place[states_[i].step_index][{row.place, row.ids_hash}] = i;
      if (row.ids_hash != 0) {
        by_ids[states_[i].step_index][row.ids_hash] = i;
      }
    }
    const auto partner_of = [&](size_t i, int64_t step) -> const GapRow* {
      if (step < 0 || step >= static_cast<int64_t>(steps_.size())) {
        return nullptr;
      }
      const GapRow& row = tokens_.rows[i];
      const auto& places = at_place[static_cast<size_t>(step)];
      const auto same = places.find({row.place, row.ids_hash});
      if (same != places.end()) {
        const GapRow& other = tokens_.rows[same->second];
        return other.length == row.length ? &other : nullptr;
      }
      const auto& all = by_ids[static_cast<size_t>(step)];
      const auto found = row.ids_hash == 0 ? all.end() : all.find(row.ids_hash);
      return found != all.end() && tokens_.rows[found->second].length == row.length
                 ? &tokens_.rows[found->second]
                 : nullptr;
    };
    // By how much the side that may be stale has itself changed since then: where that is what
    // remains, the other side is wrong in step k, and nothing is stale.
    std::map<std::pair<Cell, int>, std::pair<Fit, Fit>> changes;
    std::map<std::pair<Cell, int>, Votes> votes;  // > 0: a is so many steps old; < 0: b is
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      const Fit now = FitOf(row, row.a, row.b, states_[i].shift);
      for (const int lag : {1, 2, 3, -1, -2, -3}) {
        const auto step = static_cast<int64_t>(states_[i].step_index) - std::abs(lag);
        const GapRow* other = partner_of(i, step);
        if (other != nullptr && now.tokens > 0 && !(tokens_.has_versions && !MayBeStale(row))) {
          const Fit of_a = FitOf(row, row.a, other->a, 0);
          const Fit of_b = FitOf(row, row.b, other->b, 0);
          auto& [own, opposite] = changes[{{states_[i].step_index, row.rank}, lag}];
          own.Add(lag > 0 ? of_a : of_b);
          opposite.Add(lag > 0 ? of_b : of_a);
          votes[{{states_[i].step_index, row.rank}, lag}].Add(
              now, lag > 0 ? FitOf(row, row.a, other->b, states_[i].shift)
                           : FitOf(row, other->a, row.b, states_[i].shift));
        }
      }
    }
    std::map<Cell, int> lag_of;
    for (const auto& [at, vote] : votes) {
      const bool wins =
          (vote.there < 0.5 * vote.here && vote.rows >= 2) ||
          (vote.there < 0.9 * vote.here && vote.errors() > kCertain && vote.rows >= 4);
      const double left = vote.there / std::max<double>(static_cast<double>(vote.tokens), 1);
      const double change = changes[at].first.mean();
      const bool other_is_wrong =
          change > 0.6 * left && change < 1.5 * left && changes[at].second.mean() > 1.5 * change;
      if (!wins || other_is_wrong) {
        continue;
      }
      const auto [known, is_new] = lag_of.try_emplace(at.first, at.second);
      if (!is_new &&
          votes[{at.first, known->second}].there / votes[{at.first, known->second}].here >
              vote.there / vote.here) {
        known->second = at.second;
      }
    }
    Found found;
    found.name = "stale_weights";
    double before = 0;
    double after = 0;
    int last_lag = 0;
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      const auto cell = lag_of.find({states_[i].step_index, row.rank});
      if (cell == lag_of.end()) {
        continue;
      }
      const GapRow* other =
          partner_of(i, static_cast<int64_t>(states_[i].step_index) - std::abs(cell->second));
      if (other == nullptr) {
        continue;
      }
      last_lag = cell->second;
      const Fit now = FitOf(row, row.a, row.b, states_[i].shift);
      if (last_lag > 0) {
        states_[i].partner = other->b;
      } else {
        states_[i].stale_a = other->a;
      }
      before += now.sum;
      after += (last_lag > 0 ? FitOf(row, row.a, other->b, states_[i].shift)
                             : FitOf(row, other->a, row.b, states_[i].shift))
                   .sum;
      found.tokens += now.tokens;
      found.steps.insert(row.step);
    }
    if (last_lag != 0) {
      found.text = fmt::format(
          "the {} of step k fits the {} of step k-{}: the difference falls to {:.2g} of itself",
          last_lag > 0 ? "test" : "reference", last_lag > 0 ? "reference" : "test",
          std::abs(last_lag), after / std::max(before, 1e-12));
      // What is as old in the first steps would fit a step that was not recorded.
      first_steps_ = found.steps.count(steps_[static_cast<size_t>(std::abs(last_lag))]) != 0
                         ? static_cast<size_t>(std::abs(last_lag))
                         : 0;
      stale_law_ = AddLaw(std::move(found));
    }
  }

  // All tokens that count, one after the other.

  void Flatten() {
    size_t count = 0;
    for (const GapRow& row : tokens_.rows) {
      count += row.length;
    }
    r_.reserve(count);
    b_.reserve(count);
    marks_.reserve(count);
    position_.reserve(count);
    double gap = 0;
    std::vector<float> shift_pieces;
    std::vector<float> stale_pieces;
    for (size_t i = 0; i < tokens_.rows.size(); ++i) {
      const GapRow& row = tokens_.rows[i];
      RowState& state = states_[i];
      state.begin = r_.size();
      const float* const a = state.stale_a != nullptr ? state.stale_a : row.a;
      for (size_t t = 0; t < row.length; ++t) {
        if (!Counts(row, t) || !IsUsable(row.a[t], row.b[t])) {
          continue;
        }
        gap += std::fabs(row.a[t] - row.b[t]);
        const int64_t at = static_cast<int64_t>(t) + state.shift;
        const bool inside =
            at >= 0 && at < int64_t{row.length} && IsUsable(a[t], state.partner[at]);
        // The end of a shifted row has no partner: nothing is left of it.
        const float b = inside ? state.partner[at] : row.b[t];
        const float r = inside ? a[t] - b : 0.0F;
        const float raw = row.a[t] - row.b[t];
        float unshifted = raw;
        if (state.shift != 0) {
          const bool has_neighbour =
              at >= 0 && at < int64_t{row.length} && IsUsable(row.a[t], row.b[at]);
          unshifted = has_neighbour ? row.a[t] - row.b[at] : 0.0F;
          shift_pieces.resize(r_.size(), 0);
          shift_pieces.push_back(raw - unshifted);
        }
        if (state.partner != row.b || state.stale_a != nullptr) {
          stale_pieces.resize(r_.size(), 0);
          stale_pieces.push_back(unshifted - r);
        }
        r_.push_back(r);
        b_.push_back(b);
        const uint16_t first = state.step_index < first_steps_ ? kOtherVersion : 0;
        marks_.push_back(
            static_cast<uint16_t>(first | row.mark | (row.marks.empty() ? 0 : row.marks[t])));
        position_.push_back(static_cast<int32_t>(
            std::clamp<int64_t>(row.position + static_cast<int64_t>(t), 0, INT32_MAX)));
      }
      state.end = r_.size();
    }
    if (shift_law_) {
      shift_pieces.resize(r_.size(), 0);
      pieces_[*shift_law_] = std::move(shift_pieces);
    }
    if (stale_law_) {
      stale_pieces.resize(r_.size(), 0);
      pieces_[*stale_law_] = std::move(stale_pieces);
    }
    out_.tokens = r_.size();
    out_.gap = r_.empty() ? 0 : gap / static_cast<double>(r_.size());
    weight_.resize(r_.size());
    for (size_t i = 0; i < r_.size(); ++i) {
      const float p = std::exp(std::min(b_[i] + 0.5F * r_[i], -1e-6F));
      weight_[i] = 1.0F / (1.0F - p + 0.002F);
    }
    UpdateLogs();
  }

  void UpdateLogs() {
    logs_.resize(r_.size());
    for (size_t i = 0; i < r_.size(); ++i) {
      logs_[i] = static_cast<float>(QuickLog(std::fabs(r_[i]) * weight_[i] + 1e-6F));
    }
  }

  double AbsX(size_t i) const { return std::fabs(r_[i]) * weight_[i]; }

  // Steps whose spread is larger than that of the quietest.
  void FindHotSteps() {
    std::vector<Spread> spreads(steps_.size());
    for (const RowState& row : states_) {
      double sum = 0;
      double log_sum = 0;
      uint64_t count = 0;
      for (size_t i = row.begin; i < row.end; ++i) {
        if (r_[i] != 0) {  // else a law explains it all
          sum += AbsX(i);
          log_sum += logs_[i];
          ++count;
        }
      }
      spreads[row.step_index].AddCell(sum, log_sum, count);
    }
    double quietest = std::numeric_limits<double>::infinity();
    for (const Spread& spread : spreads) {
      quietest = spread.tokens > 0 ? std::min(quietest, spread.scale()) : quietest;
    }
    hot_.assign(steps_.size(), false);
    cold_ = Spread();
    for (size_t step = 0; step < steps_.size(); ++step) {
      hot_[step] = spreads[step].scale() > kRatio * quietest;
      if (!hot_[step]) {
        cold_.Add(spreads[step]);
      }
    }
    if (std::none_of(hot_.begin(), hot_.end(), [](bool hot) { return hot; })) {
      hot_.assign(steps_.size(), true);
      cold_ = Spread();
    }
  }

  // Laws that say which tokens a cause reaches.

  struct Contrast {
    const char* name = nullptr;
    std::function<bool(size_t row, size_t token)> reaches;
    std::string text;
    bool may_be_all = false;  // where it reaches every token, quieter steps are the measure
  };

  struct Split {
    Spread in, out;
    std::vector<Spread> in_step, out_step;
  };

  Split SplitBy(const Contrast& contrast) const {
    Split split;
    split.in_step.resize(steps_.size());
    split.out_step.resize(steps_.size());
    for (size_t r = 0; r < states_.size(); ++r) {
      const RowState& row = states_[r];
      if (!hot_[row.step_index] || row.begin == row.end) {
        continue;
      }
      std::array<double, 2> sum{};
      std::array<double, 2> log_sum{};
      std::array<uint64_t, 2> count{};
      for (size_t i = row.begin; i < row.end; ++i) {
        const size_t side = contrast.reaches(r, i) ? 1 : 0;
        sum[side] += AbsX(i);
        log_sum[side] += logs_[i];
        ++count[side];
      }
      split.in.AddCell(sum[1], log_sum[1], count[1]);
      split.in_step[row.step_index].AddCell(sum[1], log_sum[1], count[1]);
      split.out.AddCell(sum[0], log_sum[0], count[0]);
      split.out_step[row.step_index].AddCell(sum[0], log_sum[0], count[0]);
    }
    return split;
  }

  struct Candidate {
    double gain = 0;  // by how much sum |r| falls
    std::function<void()> apply;
  };

  // The spread that tokens out of reach have, or tokens of quieter steps.
  std::optional<Spread> RestOf(const Split& split, bool may_be_all) const {
    constexpr double kFewCells = 5;
    if (split.out.cells >= 1 && split.out.cells < kFewCells && split.out.tokens >= 8 &&
        cold_.cells >= kFewCells && split.out.scale() < 1.5 * cold_.scale()) {
      Spread both = split.out;
      both.Add(cold_);
      return both;
    }
    if (split.out.tokens >= 20 && split.out.cells >= 2) {
      return split.out;
    }
    if (may_be_all && cold_.tokens >= 20) {
      return cold_;
    }
    return std::nullopt;
  }

  void Consider(const Contrast& contrast, double certain, Candidate& best) {
    const Split all = SplitBy(contrast);
    ConsiderSplit(contrast, all, certain, best);
    // The same in the steps alone where it shows: other causes have other steps.
    Split some;
    some.in_step.resize(steps_.size());
    some.out_step.resize(steps_.size());
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (all.in_step[step].scale() > 1.4 * all.out_step[step].scale()) {
        some.in_step[step] = all.in_step[step];
        some.in.Add(all.in_step[step]);
        some.out.Add(all.out_step[step]);
      }
    }
    ConsiderSplit(contrast, some, certain, best);
  }

  void ConsiderSplit(const Contrast& contrast, const Split& split, double certain,
                     Candidate& best) {
    const std::optional<Spread> rest = RestOf(split, contrast.may_be_all);
    if (!rest || split.in.tokens < 4) {
      return;
    }
    const double ratio = split.in.scale() / std::max(rest->scale(), 1e-9);
    const double typical = std::exp(split.in.log_mean() - rest->log_mean());
    if (ratio < kRatio || typical < 1.4 || ErrorsBetween(split.in, *rest) < certain) {
      return;
    }
    Take(contrast, split, rest->scale(), ErrorsBetween(split.in, *rest), best);
  }

  void Take(const Contrast& contrast, const Split& split, double rest, double errors,
            Candidate& best) {
    std::vector<float> factor(steps_.size(), 1);
    Found found;
    found.name = contrast.name;
    Spread kept;
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (split.in_step[step].tokens > 0 && split.in_step[step].scale() > 1.4 * rest) {
        kept.Add(split.in_step[step]);
        found.steps.insert(steps_[step]);
      }
    }
    if (kept.tokens == 0) {
      return;
    }
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (found.steps.count(steps_[step]) != 0) {
        factor[step] = static_cast<float>(std::min(1.0, rest / split.in_step[step].scale()));
      }
    }
    double gain = 0;
    for (size_t r = 0; r < states_.size(); ++r) {
      const float f = factor[states_[r].step_index];
      if (f < 1) {
        for (size_t i = states_[r].begin; i < states_[r].end; ++i) {
          gain += contrast.reaches(r, i) ? (1 - f) * std::fabs(r_[i]) : 0;
        }
      }
    }
    found.tokens = kept.tokens;
    found.text = fmt::format(
        "{}: {} such tokens differ {:.3g} times as much as others, {:.1f} standard errors from "
        "chance",
        contrast.text, base::FormatCount(kept.tokens), kept.scale() / std::max(rest, 1e-9), errors);
    if (gain > best.gain) {
      best.gain = gain;
      best.apply = [this, contrast, found = std::move(found), factor]() mutable {
        const size_t law = AddLaw(std::move(found));
        for (size_t r = 0; r < states_.size(); ++r) {
          const float f = factor[states_[r].step_index];
          if (f >= 1) {
            continue;
          }
          for (size_t i = states_[r].begin; i < states_[r].end; ++i) {
            if (contrast.reaches(r, i)) {
              Scale(i, law, f);
            }
          }
        }
      };
    }
  }

  // Laws that bound the difference of every token.

  struct Signs {
    double positive = 0;  // sums of r above and below 0
    double negative = 0;
    uint64_t tokens = 0;
    void Add(double r) {
      (r > 0 ? positive : negative) += std::fabs(r);
      ++tokens;
    }
    void Add(const Signs& other) {
      positive += other.positive;
      negative += other.negative;
      tokens += other.tokens;
    }
    double balance() const {  // 1: all above 0
      return positive + negative <= 0 ? 0 : (positive - negative) / (positive + negative);
    }
  };

  struct StepSigns {
    Signs all, likely, unlikely;
    double lost = 0;  // mean of 1 - exp(-r), summed: the mass that b has outside of a's support
    double lost_squares = 0;
    double gained = 0;  // of 1 - exp(r)
    double gained_squares = 0;
    // of r against (a + b) / 2
    double x = 0, xx = 0, xr = 0, r = 0, rr = 0, n = 0;

    void Add(const StepSigns& o) {
      all.Add(o.all);
      likely.Add(o.likely);
      unlikely.Add(o.unlikely);
      lost += o.lost;
      lost_squares += o.lost_squares;
      gained += o.gained;
      gained_squares += o.gained_squares;
      x += o.x, xx += o.xx, xr += o.xr, r += o.r, rr += o.rr, n += o.n;
    }
    double slope() const {
      const double v = xx - x * x / n;
      return n < 3 || v <= 0 ? 0 : (xr - x * r / n) / v;
    }
    double correlation() const {
      const double v = xx - x * x / n;
      const double w = rr - r * r / n;
      return n < 3 || v <= 0 || w <= 0 ? 0 : (xr - x * r / n) / std::sqrt(v * w);
    }
    // Mean lost mass of the side that `sign` says, against the mean difference; and its standard
    // errors.
    std::pair<double, double> Lost(int sign) const {
      const double sum = sign > 0 ? lost : gained;
      const double squares = sign > 0 ? lost_squares : gained_squares;
      const double mean = sum / std::max(n, 1.0);
      const double deviation = std::sqrt(std::max(squares / std::max(n, 1.0) - mean * mean, 1e-12));
      return {mean / std::max((all.positive + all.negative) / std::max(n, 1.0), 1e-12),
              mean / (deviation / std::sqrt(std::max(n, 1.0)))};
    }
  };

  std::vector<StepSigns> SignsOfSteps() const {
    std::vector<StepSigns> signs(steps_.size());
    for (const RowState& row : states_) {
      StepSigns& step = signs[row.step_index];
      for (size_t i = row.begin; i < row.end; ++i) {
        const double r = r_[i];
        const double b = b_[i];
        step.all.Add(r);
        const double middle = b + r / 2;
        if (middle > -0.69) {
          step.likely.Add(r);
        } else if (middle < -2.5) {
          step.unlikely.Add(r);
        }
        const double capped = std::clamp(r, -4.0, 4.0);
        const double lost = -std::expm1(-capped);
        const double gained = -std::expm1(capped);
        step.lost += lost;
        step.lost_squares += lost * lost;
        step.gained += gained;
        step.gained_squares += gained * gained;
        const double x = std::max(middle, -12.0);
        step.x += x;
        step.xx += x * x;
        step.xr += x * capped;
        step.r += capped;
        step.rr += capped * capped;
        step.n += 1;
      }
    }
    return signs;
  }

  static bool LooksTruncated(const StepSigns& step, int sign, double balance) {
    return sign * step.all.balance() > balance && step.Lost(sign).first > 0.4 &&
           (step.likely.tokens < 10 || sign * step.likely.balance() > 0) &&
           (step.unlikely.tokens < 8 || sign * step.unlikely.balance() > 0.3);
  }

  void ConsiderTruncation(const std::vector<StepSigns>& signs, Candidate& best) {
    for (const int sign : {1, -1}) {
      StepSigns pooled;
      Found found;
      found.name = "truncated_mass";
      std::vector<bool> in(steps_.size());
      for (size_t step = 0; step < steps_.size(); ++step) {
        if (signs[step].n >= 15 && LooksTruncated(signs[step], sign, 0.45)) {
          in[step] = true;
          pooled.Add(signs[step]);
          found.steps.insert(steps_[step]);
        }
      }
      if (pooled.n < 40 || !LooksTruncated(pooled, sign, 0.6) ||
          pooled.Lost(sign).second < kCertain) {
        continue;
      }
      for (size_t step = 0; step < steps_.size(); ++step) {
        if (!in[step] && signs[step].n >= 15 && sign * signs[step].all.balance() > 0.1 &&
            signs[step].Lost(sign).second > 2.5) {
          in[step] = true;
          found.steps.insert(steps_[step]);
        }
      }
      // Noise is what the other sign shows, in the step where it shows least: other causes may have
      // both signs in some.
      std::vector<std::vector<float>> opposite(steps_.size());
      std::vector<float> sizes;
      for (const RowState& row : states_) {
        for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
          if (static_cast<float>(sign) * r_[i] < 0) {
            opposite[row.step_index].push_back(static_cast<float>(AbsX(i)));
          } else {
            sizes.push_back(std::fabs(r_[i]));
          }
        }
      }
      double noise = std::numeric_limits<double>::infinity();
      for (size_t step = 0; step < steps_.size(); ++step) {
        std::vector<float>& of = opposite[step];
        if (in[step]) {
          std::sort(of.begin(), of.end());
          noise = std::min(noise, of.size() < 5 ? 0.0 : double{of[of.size() / 2]} / 0.6745);
        }
      }
      double gain = 0;
      for (const RowState& row : states_) {
        for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
          if (static_cast<float>(sign) * r_[i] > 0 && AbsX(i) > 2 * noise) {
            gain += std::fabs(r_[i]);
            ++found.tokens;
          }
        }
      }
      const size_t nth = sizes.size() - 1 - sizes.size() / 50;
      std::nth_element(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(nth), sizes.end());
      found.text = fmt::format(
          "the {} is larger by the log of a kept mass: {:.1f} % of the difference has this sign, "
          "{:.2g} of the mass is lost, down to {:.2g} kept at a token",
          sign > 0 ? "test" : "reference", 50 * (1 + sign * pooled.all.balance()),
          (sign > 0 ? pooled.lost : pooled.gained) / pooled.n, std::exp(-sizes[nth]));
      if (gain > best.gain) {
        best.gain = gain;
        best.apply = [this, found = std::move(found), in, sign, noise]() mutable {
          const size_t law = AddLaw(std::move(found));
          for (const RowState& row : states_) {
            for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
              if (static_cast<float>(sign) * r_[i] > 0 && AbsX(i) > 2 * noise) {
                Scale(i, law, 0);
              }
            }
          }
        };
      }
    }
  }

  // How far the differences of a sample lie outside the bounds of a temperature, in the mean.
  double Outside(const std::vector<size_t>& sample, double inverse, double sign) const {
    double sum = 0;
    for (const size_t i : sample) {
      const auto [low, high] = TemperatureBounds(b_[i], inverse, Vocabulary());
      const double r = sign * r_[i];
      sum += r < low ? low - r : r > high ? r - high : 0;
    }
    return sum / static_cast<double>(std::max<size_t>(sample.size(), 1));
  }

  double Vocabulary() const {
    return tokens_.vocabulary > 1 ? static_cast<double>(tokens_.vocabulary) : 262144.0;
  }

  void ConsiderTemperature(const std::vector<StepSigns>& signs, Candidate& best) {
    for (const int sign : {1, -1}) {  // 1: the test is colder
      StepSigns pooled;
      Found found;
      found.name = "temperature";
      std::vector<bool> in(steps_.size());
      for (size_t step = 0; step < steps_.size(); ++step) {
        const StepSigns& of = signs[step];
        const bool fits = of.n >= 15 && sign * of.correlation() > 0.2 &&
                          (of.likely.tokens < 10 || sign * of.likely.balance() > 0.4);
        if (fits) {
          in[step] = true;
          pooled.Add(of);
          found.steps.insert(steps_[step]);
        }
      }
      if (pooled.n < 40 || sign * pooled.correlation() < 0.3 ||
          sign * pooled.correlation() * std::sqrt(pooled.n) < 2 * kCertain ||
          (pooled.likely.tokens >= 20 && sign * pooled.likely.balance() < 0.6)) {
        continue;
      }
      std::vector<size_t> sample;
      const auto every = std::max<size_t>(1, static_cast<size_t>(pooled.n) / 3000);
      size_t seen = 0;
      double mean = 0;
      for (const RowState& row : states_) {
        for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
          if (seen++ % every == 0) {
            sample.push_back(i);
            mean += std::fabs(r_[i]);
          }
        }
      }
      mean /= static_cast<double>(sample.size());
      std::vector<std::pair<double, double>> costs;  // inverse, outside
      for (int g = 1; g <= 60; ++g) {
        const double inverse = std::exp(sign * 0.02 * g);
        costs.emplace_back(inverse, Outside(sample, inverse, 1));
      }
      const double least =
          std::min_element(costs.begin(), costs.end(), [](const auto& x, const auto& y) {
            return x.second < y.second;
          })->second;
      const auto chosen = std::find_if(costs.begin(), costs.end(), [&](const auto& cost) {
        return cost.second <= least + 0.06 * mean;
      });
      const double mirrored = Outside(sample, chosen->first, -1);
      if (chosen->second > 0.35 * mean || chosen->second > 0.5 * mirrored) {
        continue;
      }
      Envelope envelope;
      for (size_t bin = 0; bin < Envelope::kBins; ++bin) {
        const double b =
            Envelope::kLeast * (1 - (static_cast<double>(bin) + 0.5) / Envelope::kBins);
        const auto [low, high] = TemperatureBounds(b, chosen->first, Vocabulary());
        envelope.low.push_back(static_cast<float>(low));
        envelope.high.push_back(static_cast<float>(high));
      }
      double gain = 0;
      for (const RowState& row : states_) {
        for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
          gain += std::fabs(r_[i]) - std::fabs(OutsideOf(envelope, i));
          ++found.tokens;
        }
      }
      found.text = fmt::format(
          "a = log softmax(z/T) with T of about {:.2g} if b has T 1: likely tokens {}, unlikely "
          "ones {}; {:.0f} % of the difference is within what T allows (mirrored: {:.0f} %)",
          1 / chosen->first, sign > 0 ? "rise" : "fall", sign > 0 ? "fall" : "rise",
          100 * (1 - chosen->second / mean), 100 * (1 - std::min(1.0, mirrored / mean)));
      if (gain > best.gain) {
        best.gain = gain;
        best.apply = [this, found = std::move(found), in, envelope]() mutable {
          const size_t law = AddLaw(std::move(found));
          for (const RowState& row : states_) {
            for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
              const float outside = OutsideOf(envelope, i);
              Scale(i, law, r_[i] == 0 ? 1 : std::clamp(outside / r_[i], 0.0F, 1.0F));
            }
          }
        };
      }
    }
  }

  float OutsideOf(const Envelope& envelope, size_t i) const {
    const size_t bin = envelope.Bin(b_[i]);
    const float r = r_[i];
    return r < envelope.low[bin]    ? r - std::min(envelope.low[bin], 0.0F)
           : r > envelope.high[bin] ? r - std::max(envelope.high[bin], 0.0F)
                                    : 0;
  }

  // head_precision: values on the grid of a short format.
  void ConsiderGrid(Candidate& best) {
    struct Grid {
      const char* name;
      uint32_t low_bits;
      double half_step;  // relative
    };
    constexpr Grid kGrids[] = {{"bfloat16", 0xFFFFU, 1.0 / 256}, {"float16", 0x1FFFU, 1.0 / 2048}};
    for (const Grid& grid : kGrids) {
      std::vector<std::array<std::pair<uint64_t, uint64_t>, 2>> on(steps_.size());
      for (size_t r = 0; r < states_.size(); ++r) {
        const GapRow& row = tokens_.rows[r];
        for (size_t t = 0; t < row.length; ++t) {
          if (!Counts(row, t) || !IsUsable(row.a[t], row.b[t])) {
            continue;
          }
          size_t side = 0;
          for (const float value : {row.a[t], row.b[t]}) {
            // Close to 0 nothing is coarse.
            if (value < -1e-3F) {
              auto& [hits, all] = on[states_[r].step_index][side];
              hits += (std::bit_cast<uint32_t>(value) & grid.low_bits) == 0 ? 1 : 0;
              ++all;
            }
            ++side;
          }
        }
      }
      for (size_t side = 0; side < 2; ++side) {
        Found found;
        found.name = "head_precision";
        std::vector<bool> in(steps_.size());
        for (size_t step = 0; step < steps_.size(); ++step) {
          const auto [hits, all] = on[step][side];
          const auto [other_hits, other_all] = on[step][1 - side];
          in[step] = all >= 8 && hits >= all - all / 100 && other_hits * 2 < other_all;
          if (in[step]) {
            found.steps.insert(steps_[step]);
            found.tokens += all;
          }
        }
        if (found.tokens < 30) {
          continue;
        }
        // Rounding to a grid of step h has the variance h^2 / 12; where it is all, nothing is left.
        double squares = 0;
        double rounding = 0;
        double obey = 0;
        double tokens = 0;
        double sum = 0;
        for (const RowState& row : states_) {
          for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
            const double value = side == 0 ? b_[i] + r_[i] : b_[i];
            const double half =
                std::exp2(std::floor(std::log2(std::max(-value, 1e-9)))) * grid.half_step;
            obey += std::fabs(r_[i]) <= 1.02 * half + 1e-6 ? 1 : 0;
            tokens += 1;
            squares += double{r_[i]} * r_[i];
            rounding += half * half / 3;
            sum += std::fabs(r_[i]);
          }
        }
        const double factor =
            obey >= 0.99 * tokens
                ? 0
                : std::sqrt(std::max(0.0, 1 - rounding / std::max(squares, 1e-18)));
        const double gain = sum * (1 - factor);
        found.text = fmt::format(
            "{} of {} tokens of the {} lie on the grid of {}, which chance does once in {}",
            base::FormatCount(found.tokens), base::FormatCount(found.tokens),
            side == 0 ? "test" : "reference", grid.name, base::FormatCount(grid.low_bits + 1));
        if (gain > best.gain && !HasLaw("head_precision")) {
          best.gain = gain;
          best.apply = [this, found = std::move(found), in,
                        factor = static_cast<float>(factor)]() mutable {
            const size_t law = AddLaw(std::move(found));
            for (const RowState& row : states_) {
              for (size_t i = row.begin; in[row.step_index] && i < row.end; ++i) {
                Scale(i, law, factor);
              }
            }
          };
        }
      }
    }
  }

  // Places within blocks of a cache.
  void ConsiderBlocks(Candidate& best) {
    constexpr int32_t kSizes[] = {8, 16, 32, 64, 128, 256};
    struct Class {
      double sum = 0, squares = 0, n = 0;
    };
    Class all;
    std::array<std::vector<Class>, std::size(kSizes)> classes;
    for (size_t s = 0; s < std::size(kSizes); ++s) {
      classes[s].resize(static_cast<size_t>(kSizes[s]));
    }
    for (const RowState& row : states_) {
      for (size_t i = row.begin; hot_[row.step_index] && i < row.end; ++i) {
        const double x = logs_[i];
        all.sum += x;
        all.squares += x * x;
        all.n += 1;
        for (size_t s = 0; s < std::size(kSizes); ++s) {
          Class& of = classes[s][static_cast<size_t>(position_[i] & (kSizes[s] - 1))];
          of.sum += x;
          of.n += 1;
        }
      }
    }
    if (all.n < 60) {
      return;
    }
    const double mean = all.sum / all.n;
    const double deviation = std::sqrt(std::max(all.squares / all.n - mean * mean, 1e-9));
    double top = 6;
    std::optional<std::pair<int32_t, int32_t>> where;
    for (size_t s = 0; s < std::size(kSizes); ++s) {
      for (size_t c = 0; c < classes[s].size(); ++c) {
        const Class& of = classes[s][c];
        if (of.n < 6) {
          continue;
        }
        const double z = (of.sum / of.n - mean) / (deviation / std::sqrt(of.n));
        // A larger block has to be clearly better than the smaller one.
        if (z > top * (where ? 1.05 : 1)) {
          top = z;
          where = {kSizes[s], static_cast<int32_t>(c)};
        }
      }
    }
    if (where) {
      // What follows sees the same wrong keys, less and less: the quietest classes are the measure.
      const auto [size, residue] = *where;
      const std::vector<Class>& of = classes[static_cast<size_t>(
          std::find(std::begin(kSizes), std::end(kSizes), size) - std::begin(kSizes))];
      std::vector<double> means;
      for (const Class& one : of) {
        if (one.n >= 6) {
          means.push_back(one.sum / one.n);
        }
      }
      std::sort(means.begin(), means.end());
      const double quiet = means[means.size() / 8];
      std::vector<bool> reached(of.size());
      for (size_t c = 0; c < of.size(); ++c) {
        reached[c] = of[c].n >= 6 && of[c].sum / of[c].n > quiet + 0.35 &&
                     (of[c].sum / of[c].n - quiet) * std::sqrt(of[c].n) > 3 * deviation;
      }
      reached[static_cast<size_t>(residue)] = true;
      const double before = best.gain;
      Consider({"length_block",
                [this, size = size, reached](size_t, size_t i) {
                  return reached[static_cast<size_t>(position_[i] & (size - 1))];
                },
                fmt::format("at positions {} modulo {}, and behind", residue, size)},
               kCertain, best);
      if (best.gain > before) {
        best.apply =
            [this,
             loud = std::exp(
                 of[static_cast<size_t>(residue)].sum / of[static_cast<size_t>(residue)].n - quiet),
             apply = std::move(best.apply)] {
              apply();
              blocks_spoil_keys_ = loud > 4;
            };
      }
    }
  }

  // Batches that stand out among those of their steps.
  void ConsiderBatches(Candidate& best) {
    for (const bool first : {true, false}) {
      std::map<uint32_t, Spread> of;
      std::map<uint32_t, size_t> step_of;
      for (size_t r = 0; r < states_.size(); ++r) {
        const RowState& row = states_[r];
        if (!hot_[row.step_index] || row.begin == row.end) {
          continue;
        }
        double sum = 0;
        double log_sum = 0;
        for (size_t i = row.begin; i < row.end; ++i) {
          sum += AbsX(i);
          log_sum += logs_[i];
        }
        const uint32_t batch = first ? tokens_.rows[r].a_array : tokens_.rows[r].b_array;
        of[batch].AddCell(sum, log_sum, row.end - row.begin);
        step_of[batch] = row.step_index;
      }
      // Against the quiet ones of the same step.
      std::map<size_t, std::vector<double>> means;
      for (const auto& [batch, spread] : of) {
        means[step_of[batch]].push_back(spread.log_mean());
      }
      std::set<uint32_t> large;
      for (auto& [step, list] : means) {
        std::sort(list.begin(), list.end());
      }
      for (const auto& [batch, spread] : of) {
        const std::vector<double>& list = means[step_of[batch]];
        if (list.size() > 1 && spread.log_mean() > list[(list.size() - 1) / 4] + 0.5) {
          large.insert(batch);
        }
      }
      if (large.empty()) {
        continue;
      }
      Consider({"batch_composition",
                [this, large, first](size_t r, size_t) {
                  return large.count(first ? tokens_.rows[r].a_array : tokens_.rows[r].b_array) !=
                         0;
                },
                fmt::format("in some batches of the {} ({} of {})", first ? "test" : "reference",
                            large.size(), of.size())},
               kCertain + 1, best);
    }
  }

  bool HasMark(uint16_t mark) const {
    return std::any_of(marks_.begin(), marks_.end(),
                       [mark](uint16_t m) { return (m & mark) != 0; });
  }

  bool PeelOne() {
    FindHotSteps();
    Candidate best;
    const std::vector<StepSigns> signs = SignsOfSteps();
    ConsiderTruncation(signs, best);
    ConsiderTemperature(signs, best);
    ConsiderGrid(best);
    struct MarkLaw {
      const char* name;
      uint16_t marks;
      const char* text;
      bool may_be_all;
      double certain;
    };
    static constexpr MarkLaw kLaws[] = {
        {"shifted_ids", kShiftedIds, "where the ids of one side are those of the other, shifted",
         true, 3},
        {"retokenised", kOtherIds, "from the first id that differs on", true, 3},
        {"stale_weights", kOtherVersion, "where weight_version differs", true, 4},
        {"padding", kBeyondEnd, "behind the end of the response", false, kCertain},
        {"padding", kLeftPads, "in rows that begin with pads", false, kCertain},
        {"padding", kOtherPosition, "where position_ids differ", true, kCertain},
        {"packing", kLaterInPack, "behind a border within a pack", true, kCertain},
        {"routing", kOtherRoute, "where routed_experts differ", false, kCertain},
        {"routing", kOtherRoute | kBehindRoute, "where routed_experts differ, and behind", false,
         kCertain},
        {"batch_composition", kOtherBatch, "where the sequence was among others", true, kCertain},
    };
    const auto consider = [&](bool weak, Candidate& candidate) {
      for (const MarkLaw& law : kLaws) {
        const std::string_view name = law.name;
        const bool routing = name == "routing";
        if (HasMark(law.marks) && weak == (routing || name == "batch_composition") &&
            (!routing || RoutesBeyondNoise())) {
          Consider(
              {law.name,
               [this, marks = law.marks](size_t, size_t i) { return (marks_[i] & marks) != 0; },
               law.text, law.may_be_all},
              law.certain, candidate);
        }
      }
    };
    consider(false, best);
    ConsiderBlocks(best);
    // Other tokens, positions or weights turn routers, too, and differ between batches: these two
    // are asked for where nothing else explains as much.
    Candidate weak;
    consider(true, weak);
    if (followed_.count("routing") == 0 && ManyRoutesDiffer() &&
        (HasLaw("routing") || RoutesMatter())) {
      ConsiderFollowers("routing", "in sequences whose routes differ", weak);
    }
    if (blocks_spoil_keys_ && followed_.count("length_block") == 0) {
      ConsiderFollowers("length_block", "behind such a position", weak);
    }
    if (tokens_.has_batches) {
      ConsiderBatches(weak);
    }
    if (weak.apply && best.gain < 0.7 * weak.gain) {
      best = std::move(weak);
    }
    double whole = 0;
    for (const float r : r_) {
      whole += std::fabs(r);
    }
    if (!best.apply || best.gain < kLeastShare * whole ||
        best.gain < kLeastShare * out_.gap * static_cast<double>(r_.size())) {
      return false;
    }
    best.apply();
    UpdateLogs();
    return true;
  }

  // What a wrong token leaves in the cache reaches all tokens behind it: where routes differ
  // everywhere, also in prompts, or a block spoils keys. The measure is the noise of quieter steps,
  // else the least that bf16 does.
  void ConsiderFollowers(const char* name, const char* text, Candidate& best) {
    constexpr double kLeastNoise = 0.03;
    std::set<int64_t> steps;
    for (const Found& law : laws_) {
      if (law.name == name) {
        steps = law.steps;
      }
    }
    if (steps.empty()) {
      steps.insert(steps_.begin(), steps_.end());
    }
    const Contrast contrast{
        name, [this, steps](size_t r, size_t) { return steps.count(tokens_.rows[r].step) != 0; },
        text, true};
    const Split split = SplitBy(contrast);
    const double rest = cold_.tokens >= 20 ? cold_.scale() : kLeastNoise;
    if (split.in.scale() > (cold_.tokens >= 20 ? 1.3 : kRatio) * rest) {
      const double before = best.gain;
      Take(contrast, split, rest, ErrorsBetween(split.in, cold_), best);
      if (best.gain > before) {
        best.apply = [this, name, apply = std::move(best.apply)] {
          apply();
          followed_.insert(name);
        };
      }
    }
  }

  // Tokens whose own routes differ are worse off than those that only attend to such.
  bool RoutesMatter() const {
    const Split split =
        SplitBy({"routing", [this](size_t, size_t i) { return (marks_[i] & kOtherRoute) != 0; }, "",
                 false});
    return split.in.scale() > 1.2 * split.out.scale() && ErrorsBetween(split.in, split.out) > 3;
  }

  // At least a tenth of the tokens go elsewhere in some layer.
  bool ManyRoutesDiffer() const {
    return std::any_of(tokens_.layers.begin(), tokens_.layers.end(),
                       [](const RouteCounts& layer) { return layer.differ * 10 >= layer.tokens; });
  }

  // Rounding turns the router, too, where two experts are close: a few tokens in a hundred.
  bool RoutesBeyondNoise() const {
    for (const RouteCounts& layer : tokens_.layers) {
      if (layer.differ > layer.tokens / 20) {
        return true;
      }
    }
    return false;
  }

  // Laws and what they do to a token.

  bool HasLaw(std::string_view name) const {
    return std::any_of(laws_.begin(), laws_.end(),
                       [&](const Found& law) { return law.name == name; });
  }

  size_t AddLaw(Found found) {
    for (size_t i = 0; i < laws_.size(); ++i) {
      if (laws_[i].name == found.name) {  // the same cause in other steps, or seen another way
        laws_[i].steps.insert(found.steps.begin(), found.steps.end());
        laws_[i].tokens = std::max(laws_[i].tokens, found.tokens);
        return i;
      }
    }
    laws_.push_back(std::move(found));
    pieces_.emplace_back();
    return laws_.size() - 1;
  }

  // What a law takes from the residual of a token.
  void Scale(size_t i, size_t law, float factor) {
    if (factor < 1) {
      TakeFrom(i, law, (1 - factor) * r_[i]);
      r_[i] *= factor;
    }
  }

  void TakeFrom(size_t i, size_t law, float piece) {
    std::vector<float>& pieces = pieces_[law];
    if (pieces.empty()) {
      pieces.assign(r_.size(), 0);
    }
    pieces[i] += piece;
  }

  // Noise and what is not explained.
  void Judge() {
    FindHotSteps();
    const bool all_hot = std::all_of(hot_.begin(), hot_.end(), [](bool hot) { return hot; });
    std::vector<float> sizes;
    for (const RowState& row : states_) {
      for (size_t i = row.begin; (all_hot || !hot_[row.step_index]) && i < row.end; ++i) {
        if (r_[i] != 0) {
          sizes.push_back(static_cast<float>(AbsX(i)));
        }
      }
    }
    double scale = 0;
    if (!sizes.empty()) {
      std::nth_element(sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(sizes.size() / 2),
                       sizes.end());
      double mean = 0;
      for (const float size : sizes) {
        mean += std::min(size, 8 * sizes[sizes.size() / 2]);
      }
      scale = std::max(double{sizes[sizes.size() / 2]} / 0.6745,
                       mean / static_cast<double>(sizes.size()) / 0.8);
    }
    noise_ = std::min(scale, kMostNoise);
    for (size_t i = 0; i < r_.size(); ++i) {
      const double most = scale > 2 * kMostNoise ? 0 : 8 * noise_;
      const double size = std::fabs(r_[i]);
      noise_sum_ += std::min(size, most / weight_[i]);
      rest_sum_ += size - std::min(size, most / weight_[i]);
    }
    for (const RowState& row : states_) {
      if (row.begin < row.end) {
        noise_steps_.insert(steps_[row.step_index]);
      }
    }
  }

  // Shapley values over the laws, on a sample.
  void Share() {
    const size_t count = laws_.size();
    const size_t every = std::max<size_t>(1, r_.size() / kSampledTokens);
    std::vector<double> sums(size_t{1} << count, 0);
    for (size_t i = 0; i < r_.size(); i += every) {
      for (size_t set = 0; set < sums.size(); ++set) {
        float r = r_[i];
        for (size_t law = 0; law < count; ++law) {
          r += (set >> law & 1U) != 0 || pieces_[law].empty() ? 0 : pieces_[law][i];
        }
        sums[set] += std::fabs(r);
      }
    }
    const double whole = sums[0];
    std::vector<double> shares(count, 0);
    std::vector<double> factorial(count + 1, 1);
    for (size_t i = 1; i <= count; ++i) {
      factorial[i] = factorial[i - 1] * static_cast<double>(i);
    }
    for (size_t set = 0; set < sums.size(); ++set) {
      const auto size = static_cast<size_t>(std::popcount(set));
      for (size_t law = 0; law < count; ++law) {
        if ((set >> law & 1U) == 0) {
          shares[law] += factorial[size] * factorial[count - size - 1] / factorial[count] *
                         (sums[set] - sums[set | (size_t{1} << law)]) / whole;
        }
      }
    }
    double total = 0;
    for (double& share : shares) {
      share = std::max(share, 0.0);
      total += share;
    }
    const double left = std::max(1 - total, 0.0);
    const double rest = noise_sum_ + rest_sum_;
    const double noise = rest <= 0 ? 0 : left * noise_sum_ / rest;
    const double norm = total + left;
    for (size_t law = 0; law < count; ++law) {
      if (shares[law] / norm < kLeastShare / 2) {
        continue;
      }
      Found& found = laws_[law];
      out_.causes.push_back({found.name, shares[law] / norm, found.tokens, StepsText(found.steps),
                             std::move(found.text)});
    }
    double named = 0;
    for (const Cause& cause : out_.causes) {
      named += cause.share;
    }
    out_.causes.push_back(
        {"noise", noise / norm, out_.tokens, StepsText(noise_steps_),
         fmt::format("errors of rounding: logits differ by about {:.2g} (standard deviation)",
                     noise_)});
    out_.causes.push_back({"unexplained", std::max(0.0, 1 - named - noise / norm), out_.tokens,
                           StepsText(noise_steps_), "more than rounding does, and no law fits"});
    std::stable_sort(out_.causes.begin(), out_.causes.end(),
                     [](const Cause& x, const Cause& y) { return x.share > y.share; });
  }

  const GapTokens& tokens_;
  Explanation out_;
  std::vector<int64_t> steps_;
  std::vector<RowState> states_;
  double shift_before_ = 0;
  double shift_after_ = 0;
  std::optional<size_t> shift_law_;
  std::optional<size_t> stale_law_;
  size_t first_steps_ = 0;  // that may be stale without a step to compare with

  std::vector<float> r_;  // residuals
  std::vector<float> b_;
  std::vector<float> weight_;  // 1 / (1 - p)
  std::vector<float> logs_;    // of |x|
  std::vector<uint16_t> marks_;
  std::vector<int32_t> position_;
  std::vector<bool> hot_;
  Spread cold_;
  std::set<std::string> followed_;  // laws whose tokens behind were looked at
  bool blocks_spoil_keys_ = false;
  std::vector<Found> laws_;
  std::vector<std::vector<float>> pieces_;  // per law: what it took of a token; empty: nothing
  double noise_ = 0;
  double noise_sum_ = 0;
  double rest_sum_ = 0;
  std::set<int64_t> noise_steps_;
};

}  // namespace

Explanation ExplainGap(const TokenKey& key, const GapTokens& tokens) {
  return Explainer(key, tokens).Run();
}

}  // namespace msprobe::analysis::rl
