#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/serve/http_server.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::serve {
namespace {

namespace fs = std::filesystem;

class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(base_ / "in/deep/er");
    for (const char* name : {"secret.html", "in/a.html", "in/b.txt", "in/deep/c.vis.db",
                             "in/deep/er/d.html", "in/.hidden.html"}) {
      std::ofstream(base_ / name) << name;
    }
    fs::create_symlink(base_ / "secret.html", base_ / "in/link.html");
    fs::create_symlink(base_, base_ / "in/up");
    fs::create_symlink("deep", base_ / "in/beside");
    ASSERT_EQ(::mkfifo((base_ / "in/pipe.html").c_str(), 0600), 0);
  }

  const test_support::TemporaryFolder temporary_;
  const fs::path base_ = temporary_.path();
};

TEST_F(FolderTest, ListsWhatItServesAndFollowsNoLink) {
  const Result<Folder> folder = Folder::Open(base_ / "in");
  ASSERT_TRUE(folder.ok());
  std::vector<std::string> paths;
  for (const Folder::Entry& entry : folder->List().entries) {
    paths.push_back(entry.path);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{".hidden.html", "a.html", "deep/c.vis.db",
                                             "deep/er/d.html"}));
  EXPECT_EQ(folder->List().entries.size(), 4U) << "a second look sees the same";
}

TEST_F(FolderTest, OpensFilesBelowItAndNothingElse) {
  const Result<Folder> folder = Folder::Open(base_ / "in");
  ASSERT_TRUE(folder.ok());
  const Result<base::InputFile> file = folder->OpenRegular("deep/er/d.html");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(*file->Head(100), "in/deep/er/d.html");
  EXPECT_EQ(*file->Head(2), "in");
  for (const std::string_view path :
       {"", ".", "..", "/", "../secret.html", "deep/../a.html", "deep/../../secret.html",
        "link.html", "up/secret.html", "beside/c.vis.db", "pipe.html", "deep", "deep/", "//a.html",
        "/a.html", "a.html/", "a.html/x", "none.html"}) {
    EXPECT_EQ(folder->OpenRegular(path).status().code(), StatusCode::kNotFound) << path;
  }
  EXPECT_FALSE(folder->OpenRegular(std::string_view("a.html\0.html", 12)).ok());
}

TEST_F(FolderTest, AContentHasAnIdentityOfItsOwn) {
  const Result<Folder> folder = Folder::Open(base_ / "in");
  ASSERT_TRUE(folder.ok());
  const std::string before = folder->OpenRegular("a.html")->identity();
  EXPECT_EQ(folder->OpenRegular("a.html")->identity(), before);
  std::ofstream(base_ / "in/a.html", std::ios::app) << "more";
  EXPECT_NE(folder->OpenRegular("a.html")->identity(), before);
}

TEST_F(FolderTest, WhatIsNoFolderIsTold) {
  EXPECT_EQ(Folder::Open(base_ / "none").status().code(), StatusCode::kNotFound);
  EXPECT_NE(Folder::Open(base_ / "secret.html").status().message().find("not a folder"),
            std::string::npos);
}

}  // namespace
}  // namespace msprobe::serve
