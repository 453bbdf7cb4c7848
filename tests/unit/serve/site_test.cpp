#include "src/serve/site.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::serve {
namespace {

using ::testing::HasSubstr;

std::string ListOf(Site& site) {
  Request request;
  request.path = "/token/";
  request.headers.host = "127.0.0.1:1";
  const Response response = site.Answer(request);
  EXPECT_EQ(response.status, 200);
  return std::get<std::string>(response.body);
}

TEST(Site, WhatAFileIsIsReadOncePerContent) {
  const test_support::TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.vis.db";
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(database, "CREATE TABLE t(a)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(database);
  std::string whole;
  {
    std::ifstream file(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(file), {});
  }
  Result<Folder> opened = Folder::Open(folder.path());
  ASSERT_TRUE(opened.ok());
  Site site(*std::move(opened), "token", "127.0.0.1");

  folder.Write("a.vis.db", std::string(whole.size(), 'x'));
  const auto time = std::filesystem::last_write_time(path);
  EXPECT_THAT(ListOf(site), HasSubstr("file is not a database"));

  // Another content that the system's times do not tell: it is not looked at again.
  folder.Write("a.vis.db", whole);
  std::filesystem::last_write_time(path, time);
  EXPECT_THAT(ListOf(site), HasSubstr("file is not a database"));

  std::filesystem::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_THAT(ListOf(site), HasSubstr("has no table tb_config"));
}

}  // namespace
}  // namespace msprobe::serve
