// What is asked of a comparison of two reinforcement learning runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace msprobe::analysis::rl {

enum class Language : uint8_t { kChinese, kEnglish };
enum class FileFormat : uint8_t { kXlsx, kCsv, kJson };

struct TokenKey {
  std::string first;   // a key of the first run
  std::string second;  // the key of the second run it is compared with
};

struct TokenOptions {
  std::vector<TokenKey> keys;
  std::string mask;  // keys of the first run, empty for none: 0 where a token does not count, and
  std::string ids;   // what the token is
  size_t worst = 20;
};

struct Options {
  std::filesystem::path first;
  std::filesystem::path second;
  std::filesystem::path output = "./msprobe_compare_output";
  std::vector<FileFormat> formats = {FileFormat::kXlsx};
  Language language = Language::kChinese;
  bool compat = false;  // columns, rows and values of the Python tool
  TokenOptions tokens;  // no keys: no tokens are looked at
  size_t threads = 0;
  bool quiet = false;
};

}  // namespace msprobe::analysis::rl
