#include "src/analysis/response_anomaly/judge.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace msprobe::analysis::response_anomaly {
namespace {

// Lags of the autocorrelation that count as a period; up to a third of a window, so that twice and
// three times the lag lie inside.
constexpr size_t kShortestPeriod = 3;
// Pairs of tokens that are compared for each token of a response, because windows overlap: those of
// 1,024 tokens may begin at every token, those of 65,536 at every 4,096th.
constexpr size_t kMostPairsPerToken = size_t{1} << 20U;
constexpr double kLeastDeviation = 1e-12;
// The autocorrelation of a response that repeats itself goes up and down; that of a drift does not.
constexpr double kLeastRoughness = 0.9;

size_t Unsigned(int64_t value) { return static_cast<size_t>(value); }

// Largest first; NaN in front of everything, so that none is cut off.
bool ComesFirst(const Candidate& a, const Candidate& b) {
  if (std::isnan(a.logprob) || std::isnan(b.logprob)) {
    return std::isnan(a.logprob) && !std::isnan(b.logprob);
  }
  return a.logprob > b.logprob;
}

size_t PowerOfTwoFrom(size_t least) {
  size_t power = 1;
  while (power < least) {
    power *= 2;
  }
  return power;
}

}  // namespace

std::string_view IllnessName(Illness illness) {
  constexpr std::array<std::string_view, kIllnessCount> kNames = {
      "none", "rare_characters", "garbled", "repetition", "not_finite"};
  return kNames[static_cast<size_t>(illness)];
}

Status Judge::CheckWork(size_t tokens) const {
  // Sorting n-grams compares each with some others.
  constexpr size_t kComparisons = 16;
  const size_t stride = Unsigned(limits_.stride);
  if (tokens < stride) {
    return {};  // no window is searched for repetition
  }
  const size_t window = std::min(Unsigned(limits_.window_size), tokens);
  const size_t pairs =
      window * std::max(window, std::min(Unsigned(limits_.n), window) * kComparisons) / stride;
  if (pairs > kMostPairsPerToken) {
    return UnsupportedError(fmt::format(
        "{} tokens in windows of {} that begin {} apart: {} comparisons for each token, more than "
        "{}; choose a larger stride or a smaller window_size",
        tokens, limits_.window_size, stride, pairs, kMostPairsPerToken));
  }
  return {};
}

// What is left of a mixture of scripts: more categories than text in one language has.
bool Judge::IsMixture(std::span<const Candidate> candidates, const Categories& categories) {
  mixture_.clear();
  for (const Candidate& candidate : candidates) {
    const Categories::Category category = categories.Of(candidate.id);
    if (category != Categories::kUnknown) {
      mixture_.push_back(category);
    }
  }
  std::sort(mixture_.begin(), mixture_.end());
  mixture_.erase(std::unique(mixture_.begin(), mixture_.end()), mixture_.end());
  const auto has = [&](Categories::Category category) {
    return std::binary_search(mixture_.begin(), mixture_.end(), category);
  };
  int64_t count = static_cast<int64_t>(mixture_.size());
  count -= has(Categories::kLatin) && has(Categories::kLatinSpace) ? 1 : 0;
  count -= has(Categories::kPunctuation) ? 1 : 0;
  count -= has(Categories::kWhitespace) ? 1 : 0;
  return count > limits_.category_thresh;
}

void Judge::ReadTokens(Request& request, Judgement& judgement) {
  size_t kept = SIZE_MAX;
  for (size_t i = 0; i < request.candidate_lists(); ++i) {
    kept = std::min(kept, request.candidates(i).size());
  }
  judgement.candidates = kept;
  tokens_.resize(request.tokens.size());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::span<Candidate> all = request.candidates(i);
    std::stable_sort(all.begin(), all.end(), ComesFirst);
    const std::span<const Candidate> candidates = all.first(kept);
    Token token;
    const size_t before =
        judgement.nans + judgement.positive_infinities + judgement.negative_infinities;
    for (const Candidate& candidate : candidates) {
      judgement.nans += std::isnan(candidate.logprob) ? 1U : 0U;
      if (std::isinf(candidate.logprob)) {
        ++(candidate.logprob > 0 ? judgement.positive_infinities : judgement.negative_infinities);
      }
      token.probability += std::exp(candidate.logprob);
    }
    if (!judgement.first_token &&
        judgement.nans + judgement.positive_infinities + judgement.negative_infinities > before) {
      judgement.first_token = i;
    }
    token.top = candidates.empty() ? 0 : candidates.front().logprob;
    token.is_rare = categories_ != nullptr ? token.probability < limits_.explogp_sum_thresh &&
                                                 IsMixture(candidates, *categories_)
                                           : token.top < limits_.rare_top1_logp_thresh;
    tokens_[i] = token;
  }
}

bool Judge::IsGarbled(size_t begin, size_t end) const {
  const auto share = [&](auto counts) {
    const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = tokens_.begin() + static_cast<std::ptrdiff_t>(end);
    return static_cast<double>(std::count_if(first, last, counts)) /
           static_cast<double>(end - begin);
  };
  if (categories_ != nullptr) {
    return share([](const Token& token) { return token.is_rare; }) > limits_.window_ratio;
  }
  return share([&](const Token& token) { return token.probability < limits_.explogp_sum_thresh; }) >
             limits_.window_ratio &&
         share([&](const Token& token) { return token.top < limits_.garbled_top1_logp_thresh; }) >
             limits_.window_ratio;
}

// Whether few distinct n-grams make up the window, each said with confidence.
bool Judge::HasFewTrajectories(const std::vector<int64_t>& tokens, size_t begin, size_t end) {
  const size_t n = Unsigned(limits_.n);
  if (end - begin < n) {
    return false;
  }
  const size_t count = end - begin - n + 1;
  places_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    places_[i] = begin + i;
  }
  const auto gram = [&](size_t place) { return std::span(tokens).subspan(place, n); };
  std::sort(places_.begin(), places_.end(), [&](size_t a, size_t b) {
    return std::lexicographical_compare(gram(a).begin(), gram(a).end(), gram(b).begin(),
                                        gram(b).end());
  });
  size_t distinct = 1;
  for (size_t i = 1; i < count; ++i) {
    distinct += std::equal(gram(places_[i - 1]).begin(), gram(places_[i - 1]).end(),
                           gram(places_[i]).begin())
                    ? 0U
                    : 1U;
  }
  if (static_cast<double>(distinct) / static_cast<double>(count) >= limits_.distinct_n_thresh) {
    return false;
  }
  return std::all_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                     tokens_.begin() + static_cast<std::ptrdiff_t>(end), [&](const Token& token) {
                       return token.top > limits_.trajectory_logp_thresh;
                     });
}

// Whether the log-probabilities of the window go up and down in step. Their autocorrelation is what
// a Fourier transform of twice the window gives whose highest frequency is left out, as the Python
// tool does; the part of that frequency is subtracted from the plain sums.
bool Judge::IsPeriodic(size_t begin, size_t end) {
  const size_t length = end - begin;
  const size_t most_lag = Unsigned(limits_.window_size) / 3;
  if (most_lag < kShortestPeriod || length < 2) {
    return false;
  }
  double mean = 0;
  double least = tokens_[begin].top;
  for (size_t i = begin; i < end; ++i) {
    mean += tokens_[i].top;
    least = std::min(least, tokens_[i].top);
  }
  if (least <= limits_.acf_logp_thresh) {
    return false;
  }
  mean /= static_cast<double>(length);
  double squares = 0;
  centred_.resize(length);
  for (size_t i = 0; i < length; ++i) {
    centred_[i] = tokens_[begin + i].top - mean;
    squares += centred_[i] * centred_[i];
  }
  const double deviation = std::sqrt(squares / static_cast<double>(length));
  if (!(deviation >= kLeastDeviation)) {
    return false;
  }
  double alternating = 0;
  for (size_t i = 0; i < length; ++i) {
    centred_[i] /= deviation;
    alternating += i % 2 == 0 ? centred_[i] : -centred_[i];
  }
  const size_t points = 2 * PowerOfTwoFrom(Unsigned(limits_.window_size));
  const double highest = alternating * alternating / static_cast<double>(points);
  correlation_.assign(points / 2, 0);
  // Sums of all lags side by side: each has its terms in the order of the window, and none waits
  // for the one before it.
  for (size_t i = 0; i < length; ++i) {
    const size_t lags = std::min(i + 1, correlation_.size());
    for (size_t lag = 0; lag < lags; ++lag) {
      correlation_[lag] += centred_[i] * centred_[i - lag];
    }
  }
  for (size_t lag = 0; lag < correlation_.size(); ++lag) {
    correlation_[lag] -= lag % 2 == 0 ? highest : -highest;
  }
  const double whole = correlation_[0];
  if (!(whole > 0)) {
    return false;
  }
  double roughness = 0;
  for (size_t lag = 0; lag < correlation_.size(); ++lag) {
    correlation_[lag] /= whole;
    if (lag > 0) {
      const double step = correlation_[lag] - correlation_[lag - 1];
      roughness += step * step;
    }
  }
  const auto first = correlation_.begin() + static_cast<std::ptrdiff_t>(kShortestPeriod);
  const auto last = correlation_.begin() +
                    static_cast<std::ptrdiff_t>(std::min(most_lag + 1, correlation_.size()));
  const auto peak = std::max_element(first, last);
  if (*peak <= limits_.acf_threshold || std::sqrt(roughness) <= kLeastRoughness) {
    return false;
  }
  const auto lag = static_cast<size_t>(peak - correlation_.begin());
  for (const size_t times : {size_t{2}, size_t{3}}) {
    if (times * lag < std::min(length, correlation_.size()) &&
        correlation_[times * lag] > limits_.harmonic_thresh) {
      return true;
    }
  }
  return false;
}

Judgement Judge::Examine(Request& request) {
  Judgement judgement;
  const size_t count = request.tokens.size();
  judgement.tokens = count;
  if (count == 0) {
    return judgement;
  }
  const Model* model = models_.Find(request.model);
  const bool ended = model != nullptr && std::find(model->end_ids.begin(), model->end_ids.end(),
                                                   request.tokens.back()) != model->end_ids.end();
  categories_ = ended ? model->categories : nullptr;
  judgement.by_categories = categories_ != nullptr;
  ReadTokens(request, judgement);
  if (judgement.first_token) {
    judgement.illness = Illness::kNotFinite;
    return judgement;
  }
  if (judgement.candidates == 0) {
    return judgement;  // nothing is known of a token: there is nothing to judge
  }
  std::optional<size_t> first_rare;
  for (size_t i = 0; i < count; ++i) {
    if (tokens_[i].is_rare) {
      first_rare = first_rare.value_or(i);
      ++judgement.rare_tokens;
    }
  }
  const size_t stride = Unsigned(limits_.stride);
  const auto decide = [&](Illness illness, size_t token) {
    if (judgement.illness == Illness::kNone) {
      judgement.illness = illness;
      judgement.first_token = token;
    }
  };
  const auto exceeds = [](size_t windows, int64_t limit) {
    return static_cast<int64_t>(windows) > limit;
  };
  for (size_t begin = 0; begin < count && count >= stride; begin += stride) {
    const size_t end = std::min(count, begin + Unsigned(limits_.window_size));
    ++judgement.windows;
    if (IsGarbled(begin, end) && exceeds(++judgement.garbled_windows, limits_.window_thresh)) {
      decide(Illness::kGarbled, begin);
    }
    if (end - begin < stride) {
      continue;
    }
    const bool trajectory = HasFewTrajectories(request.tokens, begin, end);
    const bool period = IsPeriodic(begin, end);
    judgement.repeats_both += trajectory && period ? 1U : 0U;
    judgement.repeats_trajectory += trajectory && !period ? 1U : 0U;
    judgement.repeats_period += !trajectory && period ? 1U : 0U;
    if (exceeds(judgement.repeats_both, limits_.multi_window_thresh) ||
        exceeds(judgement.repeats_trajectory, limits_.single_window_thresh) ||
        exceeds(judgement.repeats_period, limits_.single_window_thresh)) {
      decide(Illness::kRepetition, begin);
    }
  }
  if (first_rare) {
    decide(Illness::kRareCharacters, *first_rare);
  }
  return judgement;
}

}  // namespace msprobe::analysis::response_anomaly
