// Where in an entry's tree the facts of one leaf stand.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "src/analysis/compare/side.h"
#include "src/dump/entry_tree.h"
#include "src/dump/key_is.h"
#include "src/dump/statistic_keys.h"

namespace msprobe::analysis::compare {

// The members of a leaf that a row is made of; of equal keys the last one, as EntryTree::Find.
struct LeafMembers {
  uint32_t data_name = dump::EntryTree::kNone;
  uint32_t requires_grad = dump::EntryTree::kNone;
  uint32_t dtype = dump::EntryTree::kNone;
  uint32_t shape = dump::EntryTree::kNone;
  uint32_t value = dump::EntryTree::kNone;
  uint32_t md5 = dump::EntryTree::kNone;
  std::array<uint32_t, kStatCount> stats = {dump::EntryTree::kNone, dump::EntryTree::kNone,
                                            dump::EntryTree::kNone, dump::EntryTree::kNone};

  LeafMembers(const dump::EntryTree& tree, uint32_t index) {
    tree.ForEachChild(index, [&](uint32_t child) {
      const std::string_view key = tree[child].key;
      uint32_t* const member = dump::KeyIs(key, "dtype")           ? &dtype
                               : dump::KeyIs(key, "shape")         ? &shape
                               : dump::KeyIs(key, "requires_grad") ? &requires_grad
                               : dump::KeyIs(key, "data_name")     ? &data_name
                               : dump::KeyIs(key, "value")         ? &value
                               : dump::KeyIs(key, "md5")           ? &md5
                               : dump::KeyIs(key, "type")          ? nullptr
                                                                   : Statistic(key);
      if (member != nullptr) {
        *member = child;
      }
    });
  }

 private:
  uint32_t* Statistic(std::string_view key) {
    for (size_t i = 0; i < kStatCount; ++i) {
      if (key == dump::kStatisticKeys[i]) {
        return &stats[i];
      }
    }
    return nullptr;
  }
};

}  // namespace msprobe::analysis::compare
