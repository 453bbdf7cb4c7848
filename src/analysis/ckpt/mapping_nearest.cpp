#include "src/analysis/ckpt/mapping_nearest.h"

#include <algorithm>

namespace msprobe::analysis::ckpt {
namespace {

// About a tenth of a second.
constexpr size_t kComparisons = 4'000'000;

// Letters that two names have in common at their beginnings and ends.
size_t Resemblance(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t front = 0;
  while (front < limit && a[front] == b[front]) {
    ++front;
  }
  size_t back = 0;
  while (back < limit - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) {
    ++back;
  }
  return front + back;
}

}  // namespace

NearestName::NearestName(const MappedCheckpoint& other, size_t most_letters)
    : comparisons_left_(kComparisons), letters_left_(most_letters) {
  for (const Item& item : other.items) {
    if (!item.used) {
      candidates_.push_back(item.name);
    }
  }
}

std::string NearestName::Find(std::string_view name) {
  if (candidates_.size() > comparisons_left_) {
    return {};
  }
  comparisons_left_ -= candidates_.size();
  // At least half of the name: ".weight" alone says nothing.
  size_t best = std::max<size_t>(name.size() / 2, 1);
  std::string_view nearest;
  for (const std::string_view candidate : candidates_) {
    if (name.size() + 1 > letters_left_) {
      return {};
    }
    const size_t alike = Resemblance(name, candidate);
    letters_left_ -= alike + 1;
    if (alike > best) {
      best = alike;
      nearest = candidate;
    }
  }
  return std::string(nearest);
}

}  // namespace msprobe::analysis::ckpt
