// What a run captured, told by the manifests it left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

#include "src/report/document.h"

namespace msprobe::commands {

class DumpSummary {
 public:
  // Remembers what is in the dump folder now, so that Answer tells of what came later only.
  explicit DumpSummary(std::filesystem::path dump_path);

  // What came since then.
  report::Document Answer() const;

 private:
  // Tells a file from its later replacement; 0: none.
  struct Stamp {
    uint64_t inode = 0;
    int64_t modified_nanoseconds = 0;
    bool operator==(const Stamp& other) const = default;
  };
  struct Folder {
    Stamp manifest;
    Stamp log;  // records.log: stays behind when a process is killed
  };

  static Stamp StampOf(const std::filesystem::path& file);
  // By rank folder.
  std::map<std::filesystem::path, Folder> Look() const;

  std::filesystem::path dump_path_;
  std::map<std::filesystem::path, Folder> before_;
};

}  // namespace msprobe::commands
