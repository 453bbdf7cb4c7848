// A page for browsers in one file: a shell (markup, style, script) that was made beforehand, and
// blocks of data in it. Opens from file:// and asks no network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "msprobe/status.h"

#include "src/base/threads.h"

namespace msprobe::report {

// Data that the shell's script finds as the text of element `id`: raw deflate in base 85. So
// nothing inside of it can end the element or become markup.
struct PageBlock {
  std::string id;                           // a-z, 0-9, '_'
  std::function<void(std::string&)> write;  // appends the plain bytes; called once, on any thread
};

// The element that holds a block; empty when its name is not plain or compressing failed, which
// WriteWebPage refuses.
std::string PackBlock(const PageBlock& block);
// Of each block, in order; the same for any number of threads.
std::vector<std::string> PackBlocks(std::span<const PageBlock> blocks, base::ThreadPool& pool);

// Where the blocks go; the shell has it once.
inline constexpr std::string_view kPageDataMark = "<!--msprobe:data-->";

// The plain bytes of block `id` in the text of a page, or of its beginning. kNotFound: no such
// block, or it is not whole; kBadFormat: damaged, or more than `most_bytes`.
Result<std::string> UnpackBlock(std::string_view page, std::string_view id, size_t most_bytes);

// Returns the size of the file.
Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed);

// The name of the page with this title that was written last into the folder of `path`, other than
// `path` itself, so that pages of one run lead to each other; empty: there is none.
std::string PageBeside(const std::filesystem::path& path, std::string_view title);
// The same of `folder` in an open folder.
std::string PageBeside(int beneath, const std::filesystem::path& folder, std::string_view own_name,
                       std::string_view title);

}  // namespace msprobe::report
