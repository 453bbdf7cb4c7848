// The calls of one rank of a dump, each with its place in the file: an entry is read when it is
// looked at, so that memory does not grow with the dump.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/dump/entry_scan.h"
#include "src/dump/names.h"
#include "src/reference/call.h"

namespace msprobe::analysis::recheck {

// "Module.net.fc.Linear" for every call of that module; empty if the entry is not a module call.
std::string ModuleOf(const dump::EntryName& name);

class DumpEntries {
 public:
  // `json_path` is the dump.json, whose calls so many ranks read. Entries that are not calls
  // (debug, parameters_grad) are known by their names, but not listed.
  static Result<DumpEntries> Open(const std::filesystem::path& json_path, size_t readers = 1);

  const std::vector<std::string>& calls() const { return calls_; }  // in file order
  const std::string& task() const { return task_; }
  const std::string& framework() const { return framework_; }  // may be empty
  bool truncated() const { return truncated_; }
  std::filesystem::path tensor_folder() const;
  // Its files; how often each was read is counted for all calls together.
  reference::TensorSource tensors() const { return reference::TensorsOf(tensor_folder(), loads_); }
  uint64_t size_bytes() const { return size_bytes_; }
  // Of the module of a call; empty for other calls, and where no capture of msprobe made the dump.
  reference::Remarks RemarksOf(std::string_view call) const;

  bool Has(std::string_view name) const { return places_.find(name) != places_.end(); }
  // kNotFound where there is no entry of this name.
  Result<dump::EntryTree> Read(std::string_view name) const;

 private:
  struct Place {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  void ReadRemarks();

  std::filesystem::path json_path_;
  std::vector<std::string> calls_;
  std::map<std::string, Place, std::less<>> places_;
  std::map<std::string, std::string, std::less<>> altered_modules_;
  std::set<std::string, std::less<>> own_gradients_;
  std::string task_;
  std::string framework_;
  bool truncated_ = false;
  uint64_t size_bytes_ = 0;
  std::shared_ptr<reference::TensorLoads> loads_;
  std::optional<dump::EntryAccess> access_;
};

}  // namespace msprobe::analysis::recheck
