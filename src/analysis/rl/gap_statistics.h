// Figures of a gap between log-probabilities: spreads of groups of tokens, and what a temperature
// allows.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace msprobe::analysis::rl {

// ln x to a few thousandths, for positive finite x.
inline double QuickLog(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23U) - 127;
  const double m = std::bit_cast<float>((bits & 0x7FFFFFU) | 0x3F800000U);
  return (exponent + (-2.153620718 + m * (3.047884161 + m * (-1.051875031 + m * 0.158248714)))) *
         0.693147181;
}

// "3-5", "0, 4-6".
inline std::string StepsText(const std::set<int64_t>& steps) {
  std::string text;
  for (auto it = steps.begin(); it != steps.end();) {
    const int64_t first = *it;
    int64_t last = first;
    while (++it != steps.end() && *it == last + 1) {
      last = *it;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    text += last > first ? fmt::format("-{}", last) : "";
  }
  return text;
}

// A spread: the mean of |x| over tokens, and the mean logarithm over sequences.
struct Spread {
  double sum = 0;  // of |x|
  uint64_t tokens = 0;
  double cells = 0;
  double log_sum = 0;
  double log_squares = 0;

  void AddCell(double cell_sum, double cell_log_sum, uint64_t count) {
    if (count == 0) {
      return;
    }
    sum += cell_sum;
    tokens += count;
    const double mean = cell_log_sum / static_cast<double>(count);
    cells += 1;
    log_sum += mean;
    log_squares += mean * mean;
  }
  void Add(const Spread& other) {
    sum += other.sum;
    tokens += other.tokens;
    cells += other.cells;
    log_sum += other.log_sum;
    log_squares += other.log_squares;
  }
  double scale() const { return tokens == 0 ? 0 : sum / static_cast<double>(tokens); }
  double log_mean() const { return cells == 0 ? 0 : log_sum / cells; }
  // Squared standard error of log_mean().
  double log_error() const {
    if (cells < 2) {
      return 0.5;
    }
    const double mean = log_sum / cells;
    return std::max((log_squares / cells - mean * mean) / (cells - 1), 1e-4);
  }
};

// By how many standard errors `a` is larger than `b`; few cells weigh less than they seem to.
inline double ErrorsBetween(const Spread& a, const Spread& b) {
  if (a.cells < 2 || b.cells < 2) {
    return 0;
  }
  const double t = (a.log_mean() - b.log_mean()) / std::sqrt(a.log_error() + b.log_error());
  const double fewest = std::min(a.cells, b.cells);
  return t * std::min(1.0, 0.4 + 0.1 * fewest);
}

// Bounds of a - b as a function of b that a law allows, in small steps of b.
struct Envelope {
  static constexpr size_t kBins = 2048;
  static constexpr double kLeast = -24;
  std::vector<float> low, high;

  size_t Bin(float b) const {
    const double at = (static_cast<double>(b) - kLeast) * (kBins / -kLeast);
    return static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(kBins - 1)));
  }
};

// Bounds that a temperature sets: with a = log softmax(z / T), b = log softmax(z) and p = exp(b),
// the other tokens have 1 - p, all in one or evenly spread.
inline std::pair<double, double> TemperatureBounds(double b, double inverse, double vocabulary) {
  b = std::min(b, -1e-7);
  const double rest = std::log1p(-std::exp(b));
  const auto difference = [&](double others) {
    const double x = b * inverse;
    const double top = std::max(x, others);
    return x - b - top - std::log(std::exp(x - top) + std::exp(others - top));
  };
  const double in_one = difference(rest * inverse);
  const double spread =
      difference(rest * inverse + (1 - inverse) * std::log(std::max(vocabulary - 1, 1.0)));
  return {std::min(in_one, spread), std::max(in_one, spread)};
}

}  // namespace msprobe::analysis::rl
