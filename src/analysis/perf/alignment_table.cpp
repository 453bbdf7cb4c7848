#include "src/analysis/perf/alignment_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace msprobe::analysis::perf {
namespace {

using Word = uint64_t;
constexpr size_t kWordBits = 64;

// Where an element occurs in the base: the words that hold it, rising.
struct Places {
  uint32_t word = 0;
  Word bits = 0;
};

class Table {
 public:
  Table(std::span<const uint32_t> base, std::span<const uint32_t> comparison, Alignment method);

  size_t words() const { return words_; }
  // Turns the rises of row `row - 1` into those of row `row` (counted from 1), for the first
  // `words` words.
  void Step(size_t row, size_t words, Word* rises) const;

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  std::span<const Places> PlacesOf(size_t row) const {
    const uint32_t key = rows_[row - 1];
    return key == kAbsent
               ? std::span<const Places>()
               : std::span(places_).subspan(begins_[key], begins_[key + 1] - begins_[key]);
  }
  static void StepLegacy(std::span<const Places> places, size_t words, Word* rises);
  static void StepLongest(std::span<const Places> places, size_t words, Word* rises);

  Alignment method_;
  size_t words_;
  std::vector<uint32_t> rows_;  // the comparison's elements, numbered anew
  std::vector<uint32_t> begins_;
  std::vector<Places> places_;
};

Table::Table(std::span<const uint32_t> base, std::span<const uint32_t> comparison, Alignment method)
    : method_(method), words_((base.size() + kWordBits - 1) / kWordBits) {
  std::vector<uint32_t> keys(base.begin(), base.end());
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const auto number = [&keys](uint32_t key) {
    const auto found = std::lower_bound(keys.begin(), keys.end(), key);
    return found != keys.end() && *found == key ? static_cast<uint32_t>(found - keys.begin())
                                                : kAbsent;
  };
  // Two passes over the base: how many words each element needs, then the words.
  std::vector<uint32_t> numbers(base.size());
  std::vector<uint32_t> last_word(keys.size(), kAbsent);
  begins_.assign(keys.size() + 1, 0);
  for (size_t j = 0; j < base.size(); ++j) {
    numbers[j] = number(base[j]);
    const auto word = static_cast<uint32_t>(j / kWordBits);
    if (last_word[numbers[j]] != word) {
      last_word[numbers[j]] = word;
      ++begins_[numbers[j] + 1];
    }
  }
  for (size_t i = 1; i < begins_.size(); ++i) {
    begins_[i] += begins_[i - 1];
  }
  places_.resize(begins_.back());
  std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
  for (size_t j = 0; j < base.size(); ++j) {
    const auto word = static_cast<uint32_t>(j / kWordBits);
    uint32_t& end = next[numbers[j]];
    if (end == begins_[numbers[j]] || places_[end - 1].word != word) {
      places_[end++].word = word;
    }
    places_[end - 1].bits |= Word{1} << (j % kWordBits);
  }
  rows_.reserve(comparison.size());
  for (const uint32_t key : comparison) {
    rows_.push_back(number(key));
  }
}

// Lets a surplus of openings from below take closing bits, lowest first.
void TakeLowest(Word& closing, uint64_t& surplus) {
  if (surplus >= kWordBits) {
    surplus -= static_cast<uint64_t>(std::popcount(closing));
    closing = 0;
    return;
  }
  // Mostly a bit or two, and plain x86-64 counts bits by a call.
  while (surplus > 0 && closing != 0) {
    closing &= closing - 1;
    --surplus;
  }
}

struct Matched {
  Word closing = 0;       // that no opening of the same word took
  uint64_t openings = 0;  // left for the words above
};

// Lets every opening bit take the next free closing bit above it. All stretches between closing
// bits work at once: over a stretch of ones an addition of its opening bits clears the lowest of
// them and carries into the closing bit that ends it.
Matched MatchBrackets(Word opening, Word closing) {
  Matched result;
  while (opening != 0) {
    if (closing == 0) {
      result.openings += static_cast<uint64_t>(std::popcount(opening));
      break;
    }
    Word sum = 0;
    result.openings += __builtin_add_overflow(~closing, opening, &sum) ? 1 : 0;
    opening &= sum;
    closing &= ~sum;
  }
  result.closing = closing;
  return result;
}

void Table::StepLegacy(std::span<const Places> places, size_t words, Word* rises) {
  uint64_t surplus = 0;
  size_t next = 0;
  for (size_t word = 0; word < words; ++word) {
    if (surplus == 0) {
      // Only words with the element change.
      if (next == places.size() || places[next].word >= words) {
        return;
      }
      word = places[next].word;
    }
    Word equal = 0;
    if (next < places.size() && places[next].word == word) {
      equal = places[next++].bits;
    }
    const Word old = rises[word];
    const Word opening = equal & ~old;
    Word closing = old & ~equal;
    uint64_t left = 0;
    if (opening != 0) {
      const Matched matched = MatchBrackets(opening, closing);
      closing = matched.closing;
      left = matched.openings;
    }
    TakeLowest(closing, surplus);
    surplus += left;
    rises[word] = equal | closing;
  }
}

void Table::StepLongest(std::span<const Places> places, size_t words, Word* rises) {
  bool carry = false;
  size_t next = 0;
  for (size_t word = 0; word < words; ++word) {
    if (!carry) {
      if (next == places.size() || places[next].word >= words) {
        return;
      }
      word = places[next].word;
    }
    Word equal = 0;
    if (next < places.size() && places[next].word == word) {
      equal = places[next++].bits;
    }
    const Word flat = ~rises[word];
    Word sum = 0;
    bool over = __builtin_add_overflow(flat, flat & equal, &sum);
    over = __builtin_add_overflow(sum, Word{carry}, &sum) || over;
    carry = over;
    rises[word] = ~(sum | (flat & ~equal));
  }
}

void Table::Step(size_t row, size_t words, Word* rises) const {
  const auto places = PlacesOf(row);
  if (places.empty()) {
    return;
  }
  if (method_ == Alignment::kLongest) {
    StepLongest(places, words, rises);
  } else if (row == 1) {
    rises[places[0].word] = places[0].bits & (~places[0].bits + 1);
  } else {
    StepLegacy(places, words, rises);
  }
}

}  // namespace

void AlignInTable(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                  Alignment method, uint32_t base_offset, uint32_t comparison_offset,
                  size_t block_bytes, std::vector<AlignedPair>& pairs) {
  const size_t first_pair = pairs.size();
  size_t column = base.size();
  size_t row = comparison.size();
  const auto add_base = [&] {
    --column;
    pairs.push_back({base_offset + static_cast<uint32_t>(column), kUnmatched});
  };
  const auto add_comparison = [&] {
    --row;
    pairs.push_back({kUnmatched, comparison_offset + static_cast<uint32_t>(row)});
  };
  if (column > 0 && row > 0) {
    const Table table(base, comparison, method);
    const size_t words = table.words();
    // Rows of a block; the row before each block is kept.
    const size_t block =
        std::max({block_bytes / (words * sizeof(Word)),
                  static_cast<size_t>(std::sqrt(static_cast<double>(row))), size_t{1}});
    const size_t blocks = (row + block - 1) / block;
    std::vector<Word> before(blocks * words);
    std::vector<Word> rises(std::min(block, row) * words);
    {
      std::vector<Word> current(words);
      for (size_t i = 1; i <= (blocks - 1) * block; ++i) {
        table.Step(i, words, current.data());
        if (i % block == 0) {
          std::copy(current.begin(), current.end(),
                    before.begin() + static_cast<std::ptrdiff_t>(i / block * words));
        }
      }
    }
    for (size_t b = blocks; b-- > 0 && column > 0;) {
      const size_t first = b * block;  // rows first + 1 ... lie in this block
      const size_t used = (column + kWordBits - 1) / kWordBits;
      const Word* last = before.data() + b * words;
      for (size_t i = first + 1; i <= row; ++i) {
        Word* current = rises.data() + (i - first - 1) * words;
        std::copy(last, last + used, current);
        table.Step(i, used, current);
        last = current;
      }
      while (row > first && column > 0) {
        const size_t j = column - 1;
        if (base[j] == comparison[row - 1]) {
          --column;
          --row;
          pairs.push_back({base_offset + static_cast<uint32_t>(column),
                           comparison_offset + static_cast<uint32_t>(row)});
          continue;
        }
        const Word bits = rises[(row - first - 1) * words + j / kWordBits];
        if ((bits >> (j % kWordBits) & 1U) != 0) {
          add_comparison();
        } else {
          add_base();
        }
      }
    }
  }
  // In the reversed list the rest of the comparison comes first, then the base's.
  while (row > 0) {
    add_comparison();
  }
  while (column > 0) {
    add_base();
  }
  std::reverse(pairs.begin() + static_cast<std::ptrdiff_t>(first_pair), pairs.end());
}

}  // namespace msprobe::analysis::perf
