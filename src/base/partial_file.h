// A file that a library writes by its path: under a name that no reader looks for until it is
// whole. What we write ourselves is an AtomicFile (files.h).
#pragma once

#include <filesystem>

#include "msprobe/status.h"

namespace msprobe::base {

class PartialFile {
 public:
  // A file of that name from an earlier run is removed. The destructor removes it, and so does an
  // interrupt (interrupt.h), unless it was renamed.
  explicit PartialFile(std::filesystem::path path);
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;
  ~PartialFile();

  // Makes the file, empty: never through a link that somebody else has put there meanwhile.
  Status Create();
  const std::filesystem::path& path() const { return path_; }
  // By the rule of this process for files that exist (output_rule.h).
  Status RenameTo(const std::filesystem::path& target);

 private:
  const std::filesystem::path path_;
  int slot_ = -1;
  int descriptor_ = -1;  // for its lock (unfinished.h)
};

}  // namespace msprobe::base
