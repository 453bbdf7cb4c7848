// Files that a thread writes beside the training, in the order in which they were given, within a
// bound of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::grad_probe {

struct NewFile {
  base::Path path;
  std::string head;  // bytes in front of `data`
  std::vector<std::byte> data;
  // Not empty: a .npz with `head` and `data` as its member bits.npy, and this as shape.npy.
  std::string shape_member = {};

  uint64_t bytes() const { return head.size() + data.size() + shape_member.size(); }
};

class FileQueue {
 public:
  // `most_waiting_bytes`: of what waits; whoever adds beyond it waits for the disk.
  explicit FileQueue(uint64_t most_waiting_bytes);
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;
  ~FileQueue();  // writes all that was added

  // The file appears when complete, in place of an earlier one. Where no thread can be had it is
  // written at once.
  void Add(NewFile file);

  // Waits until everything is written; the first error since the last call.
  Status Flush();
  // The first error since the last call to either, without waiting.
  Status TakeError();

  // In a forked child: the thread is not there, and what waits is the parent's.
  void Abandon();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msprobe::grad_probe
