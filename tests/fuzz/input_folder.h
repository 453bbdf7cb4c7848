// A folder of this process for readers that take paths, in memory where the system has such a
// place: a fuzzer writes thousands of files a second.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace msprobe::fuzz {

class InputFolder {
 public:
  InputFolder() {
    std::error_code ignored;
    const std::filesystem::path memory = "/dev/shm";
    const bool in_memory =
        std::filesystem::is_directory(memory, ignored) && ::access(memory.c_str(), W_OK) == 0;
    std::string pattern =
        ((in_memory ? memory : std::filesystem::temp_directory_path()) / "msprobe_fuzz.XXXXXX")
            .string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      std::perror(pattern.c_str());
      std::abort();
    }
    path_ = pattern;
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;
  ~InputFolder() {
    for (const auto& [name, file] : files_) {
      ::close(file.descriptor);
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

  // The file with this content, in place of an older one; folders above it must be there. It stays
  // open, and is written again only where its content is another one.
  std::filesystem::path Write(const std::string& name, std::string_view content) const {
    const std::filesystem::path path = path_ / name;
    auto [entry, is_new] = files_.try_emplace(name);
    File& file = entry->second;
    if (is_new) {
      file.descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    } else if (file.content == content) {
      return path;
    }
    const auto size = static_cast<ssize_t>(content.size());
    if (file.descriptor < 0 ||
        ::pwrite(file.descriptor, content.data(), content.size(), 0) != size ||
        (content.size() < file.content.size() && ::ftruncate(file.descriptor, size) != 0)) {
      std::perror(path.c_str());
      std::abort();
    }
    file.content = content;
    return path;
  }
  void Remove(const std::string& name) const {
    if (const auto found = files_.find(name); found != files_.end()) {
      ::close(found->second.descriptor);
      files_.erase(found);
      std::filesystem::remove(path_ / name);
    }
  }
  std::filesystem::path MakeFolder(std::string_view name) const {
    std::filesystem::create_directories(path_ / name);
    return path_ / name;
  }

 private:
  struct File {
    int descriptor = -1;
    std::string content;
  };

  std::filesystem::path path_;
  mutable std::map<std::string, File> files_;
};

inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// The first byte chooses among `count` readers and is taken off the input.
inline size_t TakeChoice(std::string_view& input, size_t count) {
  if (input.empty()) {
    return 0;
  }
  const auto choice = static_cast<uint8_t>(input.front());
  input.remove_prefix(1);
  return choice % count;
}

}  // namespace msprobe::fuzz
