#include "src/analysis/perf/alignment.h"

#include <algorithm>
#include <array>
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
  // The places of the element of row `row` (counted from 1), from a word on.
  std::span<const Places> PlacesFrom(size_t row, size_t word) const;
  // Turns the rises of row `row - 1` into those of row `row`, for the words of [begin, end);
  // `rises` holds them. `places` are those of the row from `begin` on; used ones are taken away.
  // `carry` is what the words before hand on, and becomes what these hand on.
  void Step(size_t row, size_t begin, size_t end, std::span<const Places>& places, uint32_t& carry,
            Word* rises) const;

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  std::span<const Places> PlacesOf(size_t row) const {
    const uint32_t key = rows_[row - 1];
    return key == kAbsent
               ? std::span<const Places>()
               : std::span(places_).subspan(begins_[key], begins_[key + 1] - begins_[key]);
  }
  static void StepLegacy(size_t begin, size_t end, std::span<const Places>& places, uint32_t& carry,
                         Word* rises);
  static void StepLongest(size_t begin, size_t end, std::span<const Places>& places,
                          uint32_t& carry, Word* rises);

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
  // Mostly none or one, in no order that a processor could foresee: the first costs no branch.
  const uint64_t taken = static_cast<uint64_t>(surplus != 0) & static_cast<uint64_t>(closing != 0);
  closing &= closing - taken;
  surplus -= taken;
  while (surplus > 0 && closing != 0) {
    closing &= closing - 1;
    --surplus;
  }
}

// The openings and closings of one word while the openings take the next free closing above them.
struct Brackets {
  Word opening = 0;
  Word closing = 0;
  uint64_t left = 0;  // openings that no closing of the word is above of

  // One opening of every stretch between closing bits at once: over a stretch of ones an addition
  // of its opening bits clears the lowest of them and carries into the closing bit that ends it.
  void Match() {
    Word sum = 0;
    left += __builtin_add_overflow(~closing, opening, &sum) ? 1 : 0;
    opening &= sum;
    closing &= ~sum;
  }
};

void MatchBrackets(Brackets& brackets) {
  // Two rounds are mostly enough; whether one is, no processor could foresee.
  brackets.Match();
  brackets.Match();
  while (brackets.opening != 0) {
    if (brackets.closing == 0) {
      brackets.left += static_cast<uint64_t>(std::popcount(brackets.opening));
      break;
    }
    brackets.Match();
  }
}

// The element's bits in `word`, and on to the next place.
Word TakeBits(std::span<const Places>& places, size_t word) {
  if (places.empty() || places.front().word != word) {
    return 0;
  }
  const Word bits = places.front().bits;
  places = places.subspan(1);
  return bits;
}

void Table::StepLegacy(size_t begin, size_t end, std::span<const Places>& places, uint32_t& carry,
                       Word* rises) {
  uint64_t surplus = carry;
  for (size_t word = begin; word < end; ++word) {
    if (surplus == 0) {
      // Only words with the element change.
      if (places.empty() || places.front().word >= end) {
        break;
      }
      word = places.front().word;
    }
    const Word equal = TakeBits(places, word);
    Word& here = rises[word - begin];
    Brackets brackets{equal & ~here, here & ~equal};
    if (brackets.opening != 0) {
      MatchBrackets(brackets);
    }
    TakeLowest(brackets.closing, surplus);
    surplus += brackets.left;
    here = equal | brackets.closing;
  }
  carry = static_cast<uint32_t>(surplus);  // at most a column each
}

void Table::StepLongest(size_t begin, size_t end, std::span<const Places>& places, uint32_t& carry,
                        Word* rises) {
  for (size_t word = begin; word < end; ++word) {
    if (carry == 0) {
      if (places.empty() || places.front().word >= end) {
        return;
      }
      word = places.front().word;
    }
    const Word equal = TakeBits(places, word);
    Word& here = rises[word - begin];
    const Word flat = ~here;
    Word sum = 0;
    bool over = __builtin_add_overflow(flat, flat & equal, &sum);
    over = __builtin_add_overflow(sum, Word{carry}, &sum) || over;
    carry = over ? 1 : 0;
    here = ~(sum | (flat & ~equal));
  }
}

std::span<const Places> Table::PlacesFrom(size_t row, size_t word) const {
  const auto places = PlacesOf(row);
  const auto first =
      std::lower_bound(places.begin(), places.end(), word,
                       [](const Places& place, size_t wanted) { return place.word < wanted; });
  return places.subspan(static_cast<size_t>(first - places.begin()));
}

void Table::Step(size_t row, size_t begin, size_t end, std::span<const Places>& places,
                 uint32_t& carry, Word* rises) const {
  if (method_ == Alignment::kLongest) {
    StepLongest(begin, end, places, carry, rises);
  } else if (row > 1) {
    StepLegacy(begin, end, places, carry, rises);
  } else if (const auto all = PlacesOf(row);
             !all.empty() && all.front().word >= begin && all.front().word < end) {
    rises[all.front().word - begin] = all.front().bits & (~all.front().bits + 1);
  }
}

// The rises of all cells, of which a tile at a time is held: some rows of some words. A first pass
// over the table keeps every n-th row, and at the borders of tiles what each row hands on from word
// to word; with both any tile can be made from its own cells.
class Tiles {
 public:
  Tiles(const Table& table, size_t rows, size_t block_bytes);

  // Whether L rises at a cell, both counted from 0. Quick while the walk stays in one tile.
  bool Rises(size_t row, size_t column) {
    const size_t word = column / kWordBits;
    if (row < first_row_ || row > last_row_ || word < first_word_ || word > last_word_) {
      Make(row, word);
    }
    const Word bits = tile_[(row - first_row_) * width_ + word - first_word_];
    return (bits >> (column % kWordBits) & 1U) != 0;
  }

 private:
  // Narrower tiles would save nothing; more of them would need more memory per row.
  static constexpr size_t kLeastWords = 64;
  static constexpr size_t kMostStrips = 16;

  size_t StripBegin(size_t strip) const { return table_.words() * strip / strips_; }
  void FirstPass();
  // The tile with the cell, its rows down to the cell's and its words up to the cell's.
  void Make(size_t row, size_t word);

  const Table& table_;
  size_t rows_;
  size_t block_;                   // rows of a tile
  size_t strips_ = 1;              // tiles side by side
  std::vector<Word> before_;       // the row before each block
  std::vector<uint32_t> carries_;  // of each row, in front of each strip but the first

  std::vector<Word> tile_;
  size_t width_ = 0;  // words of a row of the tile
  size_t first_row_ = 1;
  size_t last_row_ = 0;  // none is made
  size_t first_word_ = 0;
  size_t last_word_ = 0;
};

Tiles::Tiles(const Table& table, size_t rows, size_t block_bytes)
    : table_(table),
      rows_(rows),
      block_(std::max({block_bytes / (table.words() * sizeof(Word)),
                       static_cast<size_t>(std::sqrt(static_cast<double>(rows))), size_t{1}})) {
  if (block_ < rows_) {
    strips_ = std::clamp(table_.words() / kLeastWords, size_t{1}, kMostStrips);
    FirstPass();
  }
}

void Tiles::FirstPass() {
  const size_t words = table_.words();
  before_.resize((rows_ + block_ - 1) / block_ * words);
  carries_.resize(rows_ * (strips_ - 1));
  std::vector<Word> current(words);
  auto carry_out = carries_.begin();
  for (size_t row = 0; row < rows_; ++row) {
    if (row % block_ == 0) {
      std::copy(current.begin(), current.end(),
                before_.begin() + static_cast<std::ptrdiff_t>(row / block_ * words));
    }
    auto places = table_.PlacesFrom(row + 1, 0);
    uint32_t carry = 0;
    for (size_t strip = 0; strip < strips_; ++strip) {
      const size_t begin = StripBegin(strip);
      table_.Step(row + 1, begin, StripBegin(strip + 1), places, carry, current.data() + begin);
      if (strip + 1 < strips_) {
        *carry_out++ = carry;
      }
    }
  }
}

void Tiles::Make(size_t row, size_t word) {
  size_t strip = word * strips_ / table_.words();
  while (StripBegin(strip + 1) <= word) {
    ++strip;
  }
  first_row_ = row - row % block_;
  last_row_ = row;
  first_word_ = StripBegin(strip);
  last_word_ = word;
  width_ = word + 1 - first_word_;
  tile_.resize((last_row_ - first_row_ + 1) * width_);
  const auto first = tile_.begin();
  if (before_.empty()) {
    std::fill_n(first, width_, Word{0});
  } else {
    std::copy_n(before_.begin() +
                    static_cast<std::ptrdiff_t>(first_row_ / block_ * table_.words() + first_word_),
                width_, first);
  }
  for (size_t i = first_row_; i <= last_row_; ++i) {
    Word* const current = tile_.data() + (i - first_row_) * width_;
    if (i > first_row_) {
      std::copy_n(current - width_, width_, current);
    }
    auto places = table_.PlacesFrom(i + 1, first_word_);
    uint32_t carry = strip == 0 ? 0 : carries_[i * (strips_ - 1) + strip - 1];
    table_.Step(i + 1, first_word_, last_word_ + 1, places, carry, current);
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
    Tiles tiles(table, row, block_bytes);
    while (row > 0 && column > 0) {
      if (base[column - 1] == comparison[row - 1]) {
        --column;
        --row;
        pairs.push_back({base_offset + static_cast<uint32_t>(column),
                         comparison_offset + static_cast<uint32_t>(row)});
      } else if (tiles.Rises(row - 1, column - 1)) {
        add_comparison();
      } else {
        add_base();
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

namespace {

constexpr size_t kBlockBytes = size_t{32} << 20U;

// Runs of this many elements serve as landmarks, longer ones first: they are rarer and surer.
constexpr std::array<size_t, 3> kRunLengths = {32, 8, 1};

// Between landmarks a part is aligned exactly where its cells are within this many times its
// elements, which keeps the whole linear.
constexpr uint64_t kCellsPerElement = 16384;

struct Part {
  size_t base_begin = 0;
  size_t base_end = 0;
  size_t comparison_begin = 0;
  size_t comparison_end = 0;

  size_t base_size() const { return base_end - base_begin; }
  size_t comparison_size() const { return comparison_end - comparison_begin; }
  uint64_t cells() const { return uint64_t{base_size()} * comparison_size(); }
};

struct Run {
  uint64_t hash = 0;
  uint32_t place = 0;
  bool operator<(const Run& other) const {
    return hash != other.hash ? hash < other.hash : place < other.place;
  }
};

// Every run of `length` elements of keys[begin, end), sorted.
std::vector<Run> RunsOf(std::span<const uint32_t> keys, size_t begin, size_t end, size_t length) {
  constexpr uint64_t kFactor = 0x9E3779B97F4A7C15U;
  std::vector<Run> runs;
  if (end - begin < length) {
    return runs;
  }
  runs.reserve(end - begin);
  uint64_t leaving = 1;  // the factor of the element that leaves the window
  for (size_t i = 1; i < length; ++i) {
    leaving *= kFactor;
  }
  uint64_t hash = 0;
  for (size_t i = begin; i < end; ++i) {
    if (i >= begin + length) {
      hash -= (uint64_t{keys[i - length]} + 1) * leaving;
    }
    hash = hash * kFactor + keys[i] + 1;
    if (i + 1 >= begin + length) {
      runs.push_back({hash, static_cast<uint32_t>(i + 1 - length)});
    }
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

// The longest chain of pairs (sorted by base) whose comparison places rise, too.
std::vector<AlignedPair> LongestRising(const std::vector<AlignedPair>& pairs) {
  std::vector<size_t> ends;  // ends[k]: the pair with the smallest place that ends a chain of k + 1
  std::vector<size_t> previous(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto at = std::lower_bound(
        ends.begin(), ends.end(), pairs[i].comparison,
        [&pairs](size_t end, uint32_t place) { return pairs[end].comparison < place; });
    previous[i] = at == ends.begin() ? i : *(at - 1);
    if (at == ends.end()) {
      ends.push_back(i);
    } else {
      *at = i;
    }
  }
  std::vector<AlignedPair> chain(ends.size());
  size_t current = ends.empty() ? 0 : ends.back();
  for (size_t k = ends.size(); k-- > 0; current = previous[current]) {
    chain[k] = pairs[current];
  }
  return chain;
}

class Landmarks {
 public:
  Landmarks(std::span<const uint32_t> base, std::span<const uint32_t> comparison, Alignment method)
      : base_(base), comparison_(comparison), method_(method) {}

  std::vector<AlignedPair> Align() {
    // Parts still to do, the first on top; with how many run lengths were tried on each.
    struct Task {
      Part part;
      size_t level;
    };
    std::vector<Task> tasks{{{0, base_.size(), 0, comparison_.size()}, 0}};
    while (!tasks.empty()) {
      const Task task = tasks.back();
      tasks.pop_back();
      const Part& part = task.part;
      const uint64_t elements = part.base_size() + part.comparison_size();
      if (part.cells() <= elements * kCellsPerElement) {
        Exactly(part);
        continue;
      }
      if (task.level == kRunLengths.size()) {
        InPieces(part);
        continue;
      }
      const auto marks = MarksIn(part, kRunLengths[task.level]);
      // Pushed last to first. A mark itself is a part of one pair.
      Part rest = part;
      for (size_t i = marks.size(); i-- > 0;) {
        const Part after{marks[i].base + size_t{1}, rest.base_end, marks[i].comparison + size_t{1},
                         rest.comparison_end};
        if (after.base_size() > 0 || after.comparison_size() > 0) {
          tasks.push_back({after, task.level + 1});
        }
        rest.base_end = marks[i].base;
        rest.comparison_end = marks[i].comparison;
        tasks.push_back({{marks[i].base, marks[i].base + size_t{1}, marks[i].comparison,
                          marks[i].comparison + size_t{1}},
                         task.level + 1});
      }
      if (rest.base_size() > 0 || rest.comparison_size() > 0) {
        tasks.push_back({rest, task.level + 1});
      }
    }
    return std::move(pairs_);
  }

 private:
  void Exactly(const Part& part) {
    AlignInTable(base_.subspan(part.base_begin, part.base_size()),
                 comparison_.subspan(part.comparison_begin, part.comparison_size()), method_,
                 static_cast<uint32_t>(part.base_begin),
                 static_cast<uint32_t>(part.comparison_begin), kBlockBytes, pairs_);
  }

  // Without landmarks equal shares of both sides are aligned with each other.
  void InPieces(const Part& part) {
    constexpr size_t kPiece = 4096;
    const size_t pieces = std::max(part.base_size(), part.comparison_size()) / kPiece + 1;
    const auto share = [pieces](size_t begin, size_t size, size_t piece) {
      return begin + size / pieces * piece + std::min(size % pieces, piece);
    };
    for (size_t i = 0; i < pieces; ++i) {
      Exactly({share(part.base_begin, part.base_size(), i),
               share(part.base_begin, part.base_size(), i + 1),
               share(part.comparison_begin, part.comparison_size(), i),
               share(part.comparison_begin, part.comparison_size(), i + 1)});
    }
  }

  // Runs that occur equally often on both sides, the n-th with the n-th: the steps of a training
  // repeat themselves, so hardly any run is unique. Only the first element of each is paired.
  std::vector<AlignedPair> MarksIn(const Part& part, size_t length) const {
    const auto base = RunsOf(base_, part.base_begin, part.base_end, length);
    const auto comparison = RunsOf(comparison_, part.comparison_begin, part.comparison_end, length);
    std::vector<AlignedPair> pairs;
    for (size_t b = 0, c = 0; b < base.size() && c < comparison.size();) {
      if (base[b].hash != comparison[c].hash) {
        ++(base[b].hash < comparison[c].hash ? b : c);
        continue;
      }
      const uint64_t hash = base[b].hash;
      size_t base_end = b;
      size_t comparison_end = c;
      while (base_end < base.size() && base[base_end].hash == hash) {
        ++base_end;
      }
      while (comparison_end < comparison.size() && comparison[comparison_end].hash == hash) {
        ++comparison_end;
      }
      if (base_end - b == comparison_end - c) {
        for (size_t i = 0; i < base_end - b; ++i) {
          const AlignedPair pair{base[b + i].place, comparison[c + i].place};
          if (base_[pair.base] == comparison_[pair.comparison]) {
            pairs.push_back(pair);
          }
        }
      }
      b = base_end;
      c = comparison_end;
    }
    std::sort(pairs.begin(), pairs.end(),
              [](const AlignedPair& x, const AlignedPair& y) { return x.base < y.base; });
    return LongestRising(pairs);
  }

  std::span<const uint32_t> base_;
  std::span<const uint32_t> comparison_;
  Alignment method_;
  std::vector<AlignedPair> pairs_;
};

}  // namespace

Aligned Align(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
              Alignment method, uint64_t max_cells) {
  Aligned result;
  if (comparison.empty() || base.size() <= max_cells / comparison.size()) {
    result.pairs.reserve(std::max(base.size(), comparison.size()));
    AlignInTable(base, comparison, method, 0, 0, kBlockBytes, result.pairs);
    return result;
  }
  result.is_exact = false;
  result.pairs = Landmarks(base, comparison, method).Align();
  return result;
}

void AppendUnmatched(std::span<const uint32_t> base, std::span<const uint32_t> comparison,
                     std::vector<AlignedPair>& pairs) {
  for (const uint32_t node : base) {
    pairs.push_back({node, kUnmatched});
  }
  for (const uint32_t node : comparison) {
    pairs.push_back({kUnmatched, node});
  }
}

}  // namespace msprobe::analysis::perf
