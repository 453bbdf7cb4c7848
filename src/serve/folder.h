// The folder that is served. Nothing outside of it is opened: every name of a path is opened in the
// folder in front of it, and none that is a symbolic link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"

namespace msprobe::serve {

enum class FileKind : uint8_t { kGraph, kPage };  // .vis.db, .html

// By the end of its name; none for all other files, which are not served.
std::optional<FileKind> KindOf(std::string_view name);

class Folder {
 public:
  static constexpr int kMostLevels = 6;
  static constexpr size_t kMostFiles = 2000;

  struct Entry {
    std::string path;  // from the folder, with '/'
    FileKind kind = FileKind::kGraph;
    int64_t changed = 0;  // seconds since 1970
  };
  struct Listing {
    std::vector<Entry> entries;  // by path
    bool is_whole = true;        // false: there are more than kMostFiles
    // What could not be looked at, and why: "sub/: Permission denied".
    std::vector<std::string> unread;
  };

  static Result<Folder> Open(const std::filesystem::path& path);
  const std::filesystem::path& path() const { return path_; }  // absolute, without links

  // kNotFound for what is not there, not regular, reached by a link, or no name of a file ("..");
  // kIo, with its path, where the system refuses.
  Result<base::InputFile> OpenRegular(std::string_view path) const;
  // The folder that this file is in, reached in the same way.
  Result<base::Descriptor> OpenFolderOf(std::string_view path) const;
  Listing List() const;

 private:
  Folder(std::filesystem::path path, base::Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  std::filesystem::path path_;
  base::Descriptor descriptor_;
};

}  // namespace msprobe::serve
