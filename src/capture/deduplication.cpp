#include "src/capture/deduplication.h"

#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace msprobe::capture {

ContentKey KeyOf(const TensorView& plain_view) {
  const auto bytes = plain_view.bytes();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {{hash.low64, hash.high64}, plain_view.dtype, plain_view.shape};
}

DuplicateTable::Answer DuplicateTable::Find(const ContentKey& key, const std::string& name,
                                            uint64_t ticket, Original& original) {
  Original own = {name, ticket};  // before the table: an entry without its name is of no use
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = states_.try_emplace(key);
  State& state = found->second;
  if (is_new) {
    state.original = std::move(own);
    return Answer::kFirst;
  }
  if (!state.is_written) {
    state.waiting.push_back({name, ticket});
    return Answer::kLeft;
  }
  original = state.original;
  return Answer::kKnown;
}

std::vector<DuplicateTable::Waiting> DuplicateTable::Written(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(key);
  if (found == states_.end()) {
    return {};
  }
  found->second.is_written = true;
  return std::exchange(found->second.waiting, {});
}

std::vector<DuplicateTable::Waiting> DuplicateTable::Forget(const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto found = states_.find(key);
  if (found == states_.end()) {
    return {};
  }
  std::vector<Waiting> waiting = std::move(found->second.waiting);
  states_.erase(found);
  return waiting;
}

}  // namespace msprobe::capture
