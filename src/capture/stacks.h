// Call stacks, each distinct one once.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/dump/record_log.h"

namespace msprobe::capture {

// Thread-safe. Ids are valid for the life of the table, and so are the frames behind them.
class Stacks {
 public:
  // Innermost frame first. Equal stacks get equal ids.
  uint32_t Register(const std::vector<dump::LogFrame>& frames);
  // Null for an id that was never given out.
  const std::vector<dump::LogFrame>* Find(uint32_t id) const;

 private:
  struct Stack {
    std::string key;  // all texts of the frames, which view into it
    std::vector<dump::LogFrame> frames;
  };
  mutable std::mutex mutex_;
  std::deque<Stack> stacks_;  // elements stay where they are
  std::unordered_map<std::string_view, uint32_t> id_by_key_;
};

}  // namespace msprobe::capture
