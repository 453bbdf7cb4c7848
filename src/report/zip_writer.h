// Writes a zip archive member by member. A member is compressed in blocks on all threads; the
// blocks are joined into one deflate stream whose bytes do not depend on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/files.h"
#include "src/base/thread_pool.h"

namespace msprobe::report {

class ZipWriter {
 public:
  static Result<ZipWriter> Create(const std::filesystem::path& path);

  // A small member, as it is.
  Status AddMember(std::string_view name, std::string_view content);

  // A large one: `make_block(i, out)` appends block i's bytes to the empty `out`; blocks [0, count)
  // are made and compressed in parallel, a few at a time.
  Status AddMemberInBlocks(std::string_view name, size_t count,
                           const std::function<void(size_t block, std::string& out)>& make_block,
                           base::ThreadPool& pool);

  // Writes the directory and renames the archive into place.
  Status Commit();

 private:
  struct Member {
    std::string name;
    uint64_t offset = 0;
    uint64_t compressed_bytes = 0;
    uint64_t plain_bytes = 0;
    uint32_t crc = 0;
    bool deflated = false;
  };

  explicit ZipWriter(base::AtomicFile file) : file_(std::move(file)) {}
  Status BeginMember(std::string_view name, bool deflated);
  Status EndMember();

  base::AtomicFile file_;
  std::vector<Member> members_;
};

}  // namespace msprobe::report
