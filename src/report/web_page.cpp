#include "src/report/web_page.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include "src/base/files.h"

namespace msprobe::report {
namespace {

// Level 6 against 1: a tenth fewer bytes, and columns are a small part of the time of a report.
constexpr int kPageLevel = 6;
constexpr int kPageWindow = -15;
constexpr int kPageMemoryLevel = 8;

constexpr size_t kHeadBytes = 4096;  // a shell has its title within them

bool Deflate(std::string_view plain, std::string& out) {
  z_stream stream{};
  if (plain.size() > std::numeric_limits<uInt>::max() / 2 ||
      deflateInit2(&stream, kPageLevel, Z_DEFLATED, kPageWindow, kPageMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return false;
  }
  out.resize(deflateBound(&stream, static_cast<uLong>(plain.size())));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return whole;
}

// The printable characters that mean nothing to HTML, and not '$', '-' and '`'.
constexpr std::string_view kDigits =
    "!#%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";
constexpr uint32_t kBase = 85;
static_assert(kDigits.size() == kBase);

// Four bytes, the highest first, are five digits; n bytes at the end are n + 1. A sixteenth less
// than base64.
void AppendBase85(std::string_view bytes, std::string& out) {
  out.reserve(out.size() + bytes.size() / 4 * 5 + 5);
  for (size_t i = 0; i < bytes.size(); i += 4) {
    const size_t count = std::min<size_t>(4, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 4; ++k) {
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    std::array<char, 5> digits{};
    for (size_t k = digits.size(); k-- > 0; group /= kBase) {
      digits[k] = kDigits[group % kBase];
    }
    // The digits left out are those of a larger group, so the reader fills up with the last one.
    out.append(digits.data(), count + 1);
  }
}

// The way back; what is no digit counts as the first one.
std::string FromBase85(std::string_view text) {
  std::array<uint32_t, 256> digit_of{};
  for (uint32_t i = 0; i < kBase; ++i) {
    digit_of[static_cast<unsigned char>(kDigits[i])] = i;
  }
  std::string bytes;
  bytes.reserve(text.size() / 5 * 4 + 4);
  for (size_t i = 0; i < text.size(); i += 5) {
    const size_t count = std::min<size_t>(5, text.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 5; ++k) {
      group = group * kBase +
              (k < count ? digit_of[static_cast<unsigned char>(text[i + k])] : kBase - 1);
    }
    for (size_t k = 0; k + 1 < count; ++k) {
      bytes += static_cast<char>(group >> (24U - 8U * k));
    }
  }
  return bytes;
}

bool Inflate(std::string_view packed, size_t most_bytes, std::string& plain) {
  z_stream stream{};
  if (packed.size() > std::numeric_limits<uInt>::max() ||
      inflateInit2(&stream, kPageWindow) != Z_OK) {
    return false;
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  int state = Z_OK;
  while (state == Z_OK && plain.size() < most_bytes) {
    const size_t before = plain.size();
    const size_t more = std::min(most_bytes - before, std::max<size_t>(before, kHeadBytes));
    plain.resize(before + more);
    stream.next_out = reinterpret_cast<Bytef*>(plain.data() + before);
    stream.avail_out = static_cast<uInt>(more);
    state = inflate(&stream, Z_NO_FLUSH);
    plain.resize(before + more - stream.avail_out);
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END;
}

bool IsPlainId(std::string_view id) {
  return !id.empty() && std::all_of(id.begin(), id.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

}  // namespace

std::string PackBlock(const PageBlock& block) {
  std::string plain;
  std::string packed;
  std::string text;
  block.write(plain);
  if (IsPlainId(block.id) && Deflate(plain, packed)) {
    text = fmt::format("<script type=\"text/plain\" id=\"{}\">", block.id);  // never executed
    AppendBase85(packed, text);
    text += "</script>\n";
  }
  return text;
}

std::vector<std::string> PackBlocks(std::span<const PageBlock> blocks, base::ThreadPool& pool) {
  std::vector<std::string> packed(blocks.size());
  pool.ParallelFor(blocks.size(),
                   [&](size_t item, size_t) { packed[item] = PackBlock(blocks[item]); });
  return packed;
}

Result<std::string> UnpackBlock(std::string_view page, std::string_view id, size_t most_bytes) {
  const std::string begin = fmt::format("<script type=\"text/plain\" id=\"{}\">", id);
  const size_t at = page.find(begin);
  const size_t end = at == std::string_view::npos ? at : page.find("</script>", at);
  if (end == std::string_view::npos) {
    return NotFoundError(fmt::format("the page has no whole part \"{}\"", id));
  }
  std::string plain;
  if (!Inflate(FromBase85(page.substr(at + begin.size(), end - at - begin.size())), most_bytes,
               plain)) {
    return BadFormatError(fmt::format("the page's part \"{}\" is damaged", id));
  }
  return plain;
}

Result<uint64_t> WriteWebPage(const std::filesystem::path& path, std::string_view shell,
                              std::span<const std::string> packed) {
  const size_t mark = shell.find(kPageDataMark);
  if (mark == std::string_view::npos) {
    return InternalError("the page's shell has no place for data");
  }
  if (std::any_of(packed.begin(), packed.end(), [](const auto& text) { return text.empty(); })) {
    return InternalError(
        fmt::format("cannot write {}: a part of the page could not be packed", path.string()));
  }
  MSP_ASSIGN_OR_RETURN(base::AtomicFile file, base::AtomicFile::Create(path));
  MSP_RETURN_IF_ERROR(file.Write(shell.substr(0, mark)));
  for (const std::string& text : packed) {
    MSP_RETURN_IF_ERROR(file.Write(text));
  }
  MSP_RETURN_IF_ERROR(file.Write(shell.substr(mark + kPageDataMark.size())));
  const uint64_t size_bytes = file.size_bytes();
  MSP_RETURN_IF_ERROR(file.Commit());
  return size_bytes;
}

std::string PageBeside(const std::filesystem::path& path, std::string_view title) {
  const std::filesystem::path folder = path.parent_path().empty() ? "." : path.parent_path();
  return PageBeside(AT_FDCWD, folder, path.filename().string(), title);
}

std::string PageBeside(int beneath, const std::filesystem::path& folder, std::string_view own_name,
                       std::string_view title) {
  const std::string wanted = fmt::format("<title>{}</title>", title);
  const base::Descriptor opened(
      ::openat(beneath, folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Result<std::vector<std::string>> names = base::ListFolderIn(opened.get(), ".", folder);
  std::pair<timespec, std::string> latest{};
  for (size_t i = 0; names.ok() && i < names->size(); ++i) {
    const std::string& name = (*names)[i];
    if (name == own_name || !name.ends_with(".html")) {
      continue;
    }
    // Files that cannot be read, and links, are skipped.
    const Result<base::InputFile> file =
        base::InputFile::OpenIn(opened.get(), name, folder / name, base::Links::kRefuse);
    const Result<std::string> head = file.ok() ? file->Head(kHeadBytes) : file.status();
    if (head.ok() && head->find(wanted) != std::string::npos) {
      const timespec time = file->about().st_mtim;
      const auto key = [](const timespec& at) { return std::pair(at.tv_sec, at.tv_nsec); };
      if (latest.second.empty() || key(time) >= key(latest.first)) {
        latest = {time, name};
      }
    }
  }
  return latest.second;
}

}  // namespace msprobe::report
