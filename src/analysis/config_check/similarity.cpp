#include "src/analysis/config_check/similarity.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "src/base/utf8.h"

namespace msprobe::analysis::config_check {
namespace {

constexpr size_t kLongText = 200;  // from here on frequent characters start no match

// A piece of a and the equal piece of b.
struct Match {
  size_t a = 0;
  size_t b = 0;
  size_t length = 0;
};

struct Region {
  size_t a_begin;
  size_t a_end;
  size_t b_begin;
  size_t b_end;
};

class Matcher {
 public:
  Matcher(std::u32string_view a, std::u32string_view b)
      : a_(a), b_(b), run_(b.size()), next_run_(b.size()) {
    for (size_t i = 0; i < b.size(); ++i) {
      places_[b[i]].push_back(i);
    }
    if (b.size() >= kLongText) {
      const size_t limit = b.size() / 100 + 1;
      std::erase_if(places_, [limit](const auto& entry) { return entry.second.size() > limit; });
    }
  }

  uint64_t steps() const { return steps_; }

  size_t MatchedCharacters() {
    size_t matched = 0;
    std::vector<Region> open = {{0, a_.size(), 0, b_.size()}};
    while (!open.empty()) {
      const Region region = open.back();
      open.pop_back();
      const Match match = Longest(region);
      if (match.length == 0) {
        continue;
      }
      matched += match.length;
      if (region.a_begin < match.a && region.b_begin < match.b) {
        open.push_back({region.a_begin, match.a, region.b_begin, match.b});
      }
      if (match.a + match.length < region.a_end && match.b + match.length < region.b_end) {
        open.push_back(
            {match.a + match.length, region.a_end, match.b + match.length, region.b_end});
      }
    }
    return matched;
  }

 private:
  Match Longest(const Region& region) {
    Match best = {region.a_begin, region.b_begin, 0};
    // run_[j]: how many characters up to b[j] equal those up to the previous character of a.
    steps_ += region.a_end - region.a_begin;
    for (size_t i = region.a_begin; i < region.a_end; ++i) {
      const auto places = places_.find(a_[i]);
      if (places != places_.end()) {
        for (const size_t j : places->second) {
          ++steps_;
          if (j < region.b_begin) {
            continue;
          }
          if (j >= region.b_end) {
            break;
          }
          const size_t length = (j > region.b_begin ? run_[j - 1] : 0) + 1;
          next_run_[j] = length;
          next_touched_.push_back(j);
          if (length > best.length) {
            best = {i + 1 - length, j + 1 - length, length};
          }
        }
      }
      for (const size_t j : touched_) {
        run_[j] = 0;
      }
      touched_.clear();
      run_.swap(next_run_);
      touched_.swap(next_touched_);
    }
    for (const size_t j : touched_) {
      run_[j] = 0;
    }
    touched_.clear();
    // Frequent characters start no match, but continue one.
    while (best.a > region.a_begin && best.b > region.b_begin && a_[best.a - 1] == b_[best.b - 1]) {
      --best.a;
      --best.b;
      ++best.length;
    }
    while (best.a + best.length < region.a_end && best.b + best.length < region.b_end &&
           a_[best.a + best.length] == b_[best.b + best.length]) {
      ++best.length;
    }
    return best;
  }

  const std::u32string_view a_;
  const std::u32string_view b_;
  std::unordered_map<char32_t, std::vector<size_t>> places_;  // in b
  std::vector<size_t> run_;
  std::vector<size_t> next_run_;
  std::vector<size_t> touched_;  // where run_ is not zero
  std::vector<size_t> next_touched_;
  uint64_t steps_ = 0;
};

double Ratio(size_t matched, size_t total) {
  return total == 0 ? 1.0 : 2.0 * static_cast<double>(matched) / static_cast<double>(total);
}

}  // namespace

SimilarityText::SimilarityText(std::string_view utf8, bool fold_case) {
  for (size_t at = 0; at < utf8.size() && characters.size() < kMaxCharacters;) {
    const base::Utf8Char character = base::DecodeUtf8(utf8.substr(at));
    at += character.bytes;
    char32_t code = character.code;
    if (fold_case && code >= U'A' && code <= U'Z') {
      code += U'a' - U'A';
    }
    characters.push_back(code);
    ++histogram[code % histogram.size()];
  }
}

double Similarity(const SimilarityText& a, const SimilarityText& b) {
  uint64_t steps = 0;
  return Similarity(a, b, steps);
}

double Similarity(const SimilarityText& a, const SimilarityText& b, uint64_t& steps) {
  Matcher matcher(a.characters, b.characters);
  const size_t matched = matcher.MatchedCharacters();
  // Making the matcher ready is work, too.
  steps += matcher.steps() + a.characters.size() + b.characters.size();
  return Ratio(matched, a.characters.size() + b.characters.size());
}

double SimilarityBound(const SimilarityText& a, const SimilarityText& b) {
  size_t common = 0;
  for (size_t i = 0; i < a.histogram.size(); ++i) {
    common += std::min(a.histogram[i], b.histogram[i]);
  }
  return Ratio(common, a.characters.size() + b.characters.size());
}

}  // namespace msprobe::analysis::config_check
