// Finds entries by keys that are held elsewhere (in an arena, in the rows of a table): open
// addressing over the numbers of the entries, one block of eight bytes each, without a node or a
// text per key.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace msprobe::base {

class HashIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Room for that many entries; it grows where there are more.
  explicit HashIndex(size_t entries = 0) { Resize(entries); }

  // The entry whose key has this hash and for which is_same(entry) holds; kNone if there is none.
  template <typename IsSame>
  uint32_t Find(uint64_t hash, const IsSame& is_same) const {
    return slots_[Place(Tag(hash), is_same)].entry;
  }

  // The same, but where there is none `entry` is added: then that is what is returned.
  template <typename IsSame>
  uint32_t FindOrAdd(uint64_t hash, uint32_t entry, const IsSame& is_same) {
    const uint32_t tag = Tag(hash);
    size_t place = Place(tag, is_same);
    if (slots_[place].entry != kNone) {
      return slots_[place].entry;
    }
    if ((used_ + 1) * 3 > slots_.size() * 2) {
      Resize(used_ * 2);
      place = Place(tag, [](uint32_t) { return false; });
    }
    slots_[place] = {entry, tag};
    ++used_;
    return entry;
  }

  // Before a Find or FindOrAdd some steps later: fetching a slot from memory costs more than the
  // rest.
  void Prefetch(uint64_t hash) const {
    __builtin_prefetch(&slots_[Tag(hash) & (slots_.size() - 1)], 1);
  }

 private:
  struct Slot {
    uint32_t entry = kNone;
    uint32_t tag = 0;
  };

  static uint32_t Tag(uint64_t hash) {
    return static_cast<uint32_t>((hash * 0x9E3779B97F4A7C15ULL) >> 32U);
  }

  // The slot of an equal key, or the free one where it would stand.
  template <typename IsSame>
  size_t Place(uint32_t tag, const IsSame& is_same) const {
    const size_t mask = slots_.size() - 1;
    size_t place = tag & mask;
    while (slots_[place].entry != kNone &&
           (slots_[place].tag != tag || !is_same(slots_[place].entry))) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void Resize(size_t entries) {
    std::vector<Slot> old(std::bit_ceil(std::max<size_t>(entries + entries / 2, 8) + 1));
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.entry != kNone) {
        slots_[Place(slot.tag, [](uint32_t) { return false; })] = slot;
      }
    }
  }

  std::vector<Slot> slots_;  // a power of two
  size_t used_ = 0;
};

}  // namespace msprobe::base
