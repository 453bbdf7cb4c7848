// Finds the files of a folder that are dumps of a device, and their original names.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "msprobe/status.h"

#include "src/io/kernel_dump/format.h"

namespace msprobe::analysis::kernel_dump {

struct DumpPath {
  std::filesystem::path path;
  std::string name;    // of the file, or what mapping.csv beside it says the name was
  std::string folder;  // below the folder that was given, "" or "0/"
  std::optional<io::kernel_dump::DumpFileName> parsed;
};

// All regular files below `input`, or the file itself, whose names match `filter` (a shell pattern;
// empty: all), sorted by path. Symbolic links are not followed below the folder. Tables, arrays and
// mappings (.csv, .json, .txt, .npy, .pt) are counted in `left_out` only.
// With `statistics`, tables called {name of a dump}.csv go there, without the suffix in their
// names, and are not counted as left out.
Result<std::vector<DumpPath>> FindDumpFiles(const std::filesystem::path& input,
                                            const std::string& filter, uint64_t& left_out,
                                            std::vector<DumpPath>* statistics = nullptr);

// Lines "new,old" of a mapping.csv. Lines of another form are left out.
Result<std::map<std::string, std::string>> ReadNameMapping(const std::filesystem::path& file);

}  // namespace msprobe::analysis::kernel_dump
