// How alike two texts are: the share of characters in their longest common pieces (the method of
// Ratcliff and Obershelp, with the shortcut for frequent characters of long texts that Python's
// standard library takes, so that ratios agree to the last digit).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace msprobe::analysis::config_check {

// A text made ready: code points, and how often each of 64 groups of them occurs.
struct SimilarityText {
  // Only so many characters count: the work grows with their third power.
  static constexpr size_t kMaxCharacters = 1024;

  // `fold_case` lowers ASCII letters.
  SimilarityText(std::string_view utf8, bool fold_case);

  std::u32string characters;
  std::array<uint16_t, 64> histogram{};
};

// Between 0 and 1; 1 for two empty texts. Not symmetric.
double Similarity(const SimilarityText& a, const SimilarityText& b);
// The same; counts the pairs of characters that were looked at.
double Similarity(const SimilarityText& a, const SimilarityText& b, uint64_t& steps);

// Of one check: some seconds. Two texts of kMaxCharacters may take a million each time, names and
// lines of code that people write some hundred.
inline constexpr uint64_t kMostSimilaritySteps = 500'000'000;

// Never below Similarity(a, b), and quick.
double SimilarityBound(const SimilarityText& a, const SimilarityText& b);

}  // namespace msprobe::analysis::config_check
