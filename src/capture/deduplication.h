// Which tensors of a step have the same dtype, shape and bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "msprobe/tensor_view.h"

namespace msprobe::capture {

// 128 bits of the bytes, and the rest spelled out. Two different tensors share a key with a
// probability of about 1e-26 per billion tensors.
struct ContentKey {
  std::array<uint64_t, 2> hash{};
  DType dtype = DType::kFloat32;
  Shape shape;
  bool operator==(const ContentKey&) const = default;
};
ContentKey KeyOf(const TensorView& plain_view);

// Thread-safe. Nobody waits in here: whoever meets content that another thread is writing leaves
// the name with that thread.
class DuplicateTable {
 public:
  struct Original {
    std::string name;
    uint64_t ticket = 0;
  };
  struct Waiting {
    std::string name;
    uint64_t ticket = 0;
  };
  enum class Answer : uint8_t {
    kFirst,  // write it, then call Written or Forget
    kKnown,  // `original` has it
    kLeft    // the thread that writes it takes care of this name
  };

  Answer Find(const ContentKey& key, const std::string& name, uint64_t ticket, Original& original);
  // Returns the names that were left meanwhile.
  std::vector<Waiting> Written(const ContentKey& key);
  // The file does not exist, or holds other bytes by now; the same.
  std::vector<Waiting> Forget(const ContentKey& key);

 private:
  struct KeyHash {
    size_t operator()(const ContentKey& key) const { return static_cast<size_t>(key.hash[0]); }
  };
  struct State {
    Original original;
    bool is_written = false;
    std::vector<Waiting> waiting;
  };
  std::mutex mutex_;
  std::unordered_map<ContentKey, State, KeyHash> states_;
};

}  // namespace msprobe::capture
