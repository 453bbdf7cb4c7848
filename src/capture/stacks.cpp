#include "src/capture/stacks.h"

#include <cstring>

namespace msprobe::capture {
namespace {

void AppendNumber(uint32_t number, std::string& out) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  out.append(bytes, sizeof number);
}

}  // namespace

uint32_t Stacks::Register(const std::vector<dump::LogFrame>& frames) {
  thread_local std::string key;
  key.clear();
  for (const dump::LogFrame& frame : frames) {
    AppendNumber(static_cast<uint32_t>(frame.line), key);
    for (const std::string_view text : {frame.file, frame.function}) {
      AppendNumber(static_cast<uint32_t>(text.size()), key);
      key += text;
    }
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = id_by_key_.find(key); found != id_by_key_.end()) {
    return found->second;
  }
  const auto id = static_cast<uint32_t>(stacks_.size());
  Stack& stack = stacks_.emplace_back();
  stack.key = key;
  stack.frames = frames;
  // From the caller's texts to ours.
  size_t at = 0;
  const auto own = [&](std::string_view text) {
    at += sizeof(uint32_t);
    const std::string_view result = std::string_view(stack.key).substr(at, text.size());
    at += text.size();
    return result;
  };
  for (dump::LogFrame& frame : stack.frames) {
    at += sizeof(uint32_t);
    frame.file = own(frame.file);
    frame.function = own(frame.function);
  }
  id_by_key_.emplace(stack.key, id);
  return id;
}

const std::vector<dump::LogFrame>* Stacks::Find(uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return id < stacks_.size() ? &stacks_[id].frames : nullptr;
}

}  // namespace msprobe::capture
