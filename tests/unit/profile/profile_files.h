// Files of profiles for one test, in a folder of its own.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace msprobe::profile {

class ProfileFiles {
 public:
  ProfileFiles() {
    const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              fmt::format("profile_{}_{}", test->test_suite_name(), test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~ProfileFiles() { std::filesystem::remove_all(folder_); }
  ProfileFiles(const ProfileFiles&) = delete;
  ProfileFiles& operator=(const ProfileFiles&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // Makes the folders above, too.
  std::filesystem::path Write(const std::filesystem::path& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::filesystem::path folder_;
};

// True when one of the warnings holds `text`.
inline bool Warns(const auto& profile, const std::string& text) {
  for (const std::string& warning : profile.warnings) {
    if (warning.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace msprobe::profile
