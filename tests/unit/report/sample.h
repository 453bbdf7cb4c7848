// Files for tests, in a folder of their own.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "src/base/files.h"

namespace msprobe::report {

inline std::filesystem::path TestFile(std::string_view name) {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / fmt::format("report_{}_{}", test->name(), name);
  std::filesystem::remove(path);  // of an earlier run
  return path;
}

inline std::string FileText(const std::filesystem::path& path) {
  const Result<std::string> text = base::ReadTextFile(path, uint64_t{1} << 30U);
  return text.ok() ? *text : text.status().message();
}

}  // namespace msprobe::report
