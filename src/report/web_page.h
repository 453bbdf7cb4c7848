// A page for browsers in one file: a shell (markup, style, script) that was made beforehand, and
// blocks of data in it. Opens from file:// and asks no network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "msprobe/status.h"

#include "src/base/thread_pool.h"

namespace msprobe::report {

// Data that the shell's script finds as the text of element `id`: raw deflate in base 85. So
// nothing inside of it can end the element or become markup.
struct PageBlock {
  std::string id;                           // a-z, 0-9, '_'
  std::function<void(std::string&)> write;  // appends the plain bytes; called once, on any thread
};

// The element that holds a block, ready for WriteWebPage; empty when compressing failed. For those
// who must know how large it is before they choose what goes into a page.
std::string PackBlock(const PageBlock& block);

// Where the blocks go; the shell has it once.
inline constexpr std::string_view kPageDataMark = "<!--msprobe:data-->";

// Returns the size of the file. Its bytes do not depend on the number of threads.
Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const PageBlock> blocks, base::ThreadPool& pool);
// The same for blocks that PackBlock made.
Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed);

}  // namespace msprobe::report
