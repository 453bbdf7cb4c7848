// A folder for results that are written by path: under a name that no reader looks for, inside the
// folder that they are moved into when all of them are whole. A single file is an AtomicFile
// (files.h).
#pragma once

#include <filesystem>

#include "msprobe/status.h"

namespace msprobe::base {

class StagingFolder {
 public:
  // Inside of `output`, which Create() makes if it is not there.
  explicit StagingFolder(const std::filesystem::path& output);
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  // Removes it with what is left in it, and `output` if it was made and is empty; an interrupt
  // (interrupt.h) removes it, too.
  ~StagingFolder();

  // Makes it, marked as one that somebody works in (unfinished.h).
  Status Create();
  const std::filesystem::path& path() const { return path_; }

  // Moves its files into `output`, none of them if one has no right to its name there by the rule
  // of this process for files that exist (output_rule.h).
  Status MoveFiles();

 private:
  const bool created_output_;
  const std::filesystem::path output_;
  const std::filesystem::path path_;
  const int cleanup_slot_;
  int descriptor_ = -1;  // for its lock
};

}  // namespace msprobe::base
