#include "src/database/sqlite_file.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::database {
namespace {

constexpr size_t kPage = 512;

using test_support::TemporaryFolder;
using ::testing::HasSubstr;

void PutBigEndian(std::string& bytes, size_t at, uint32_t number, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    bytes[at + i] = static_cast<char>(number >> (8 * (width - 1 - i)));
  }
}

class SqliteFileTest : public ::testing::Test {
 protected:
  // The bytes of a database, and the first page of its table `t`.
  std::string Made(const std::string& statements) {
    const std::filesystem::path path = folder_ / "made.db";
    std::filesystem::remove(path);
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, ("PRAGMA page_size=512;" + statements).c_str(), nullptr,
                           nullptr, nullptr),
              SQLITE_OK)
        << sqlite3_errmsg(database);
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database, "SELECT rootpage FROM sqlite_master WHERE name = 't'", -1,
                       &statement, nullptr);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    root_ = static_cast<uint32_t>(sqlite3_column_int64(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(database);
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // Page `root` refers `cells` times to a page that refers as often to one more, and so on: the
  // last of `levels` is what `root` was.
  static std::string WithSharedChildren(std::string bytes, uint32_t root, int levels) {
    constexpr uint32_t kCells = 70;
    const std::string leaf = bytes.substr((root - 1) * kPage, kPage);
    const auto interior = [](uint32_t child) {
      std::string page(kPage, '\0');
      page[0] = 5;
      PutBigEndian(page, 3, kCells, 2);
      PutBigEndian(page, 5, kPage - kCells * 5, 2);
      PutBigEndian(page, 8, child, 4);
      for (uint32_t cell = 0; cell < kCells; ++cell) {
        const uint32_t at = kPage - (cell + 1) * 5;
        PutBigEndian(page, at, child, 4);
        page[at + 4] = 1;
        PutBigEndian(page, 12 + 2 * cell, at, 2);
      }
      return page;
    };
    auto pages = static_cast<uint32_t>(bytes.size() / kPage);
    bytes.replace((root - 1) * kPage, kPage, interior(pages + 1));
    for (int level = 1; level < levels; ++level) {
      bytes += interior(++pages + 1);
    }
    bytes += leaf;
    PutBigEndian(bytes, 28, pages + 1, 4);
    return bytes;
  }

  // A table `t` of 71^8 rows.
  std::string Endless() {
    const std::string made = Made("CREATE TABLE t(a); INSERT INTO t VALUES(1);");
    return WithSharedChildren(made, root_, 8);
  }

  SqliteFile Opened(const std::string& bytes) const {
    Result<SqliteFile> file = SqliteFile::Open(folder_.Write("read.db", bytes));
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *std::move(file);
  }

  TemporaryFolder folder_;
  uint32_t root_ = 0;
};

TEST_F(SqliteFileTest, ATableWhosePagesShareChildrenEndsWithTheRoomOfItsFile) {
  const std::string bytes = Endless();
  const SqliteFile file = Opened(bytes);
  size_t rows = 0;
  const Status status = file.ForEachRow("t", {"a"}, [&](const SqliteRow& /*row*/) { ++rows; });
  EXPECT_EQ(status.code(), StatusCode::kBadFormat);
  EXPECT_THAT(status.message(), HasSubstr("table t has more rows than its"));
  EXPECT_LE(rows, bytes.size() / 4);
  EXPECT_FALSE(file.Count("t", {}).ok());
}

TEST_F(SqliteFileTest, RowsThatAreOnlySearchedEndToo) {
  const SqliteFile file = Opened(Endless());
  const Result<int64_t> count = file.Count("t", {{"a", int64_t{2}}});
  ASSERT_FALSE(count.ok());
  EXPECT_THAT(count.status().message(), HasSubstr("takes more steps to read"));
  const Status sorted =
      file.ForEachMatch("t", {"a"}, {}, "a", [](const SqliteRow& /*row*/) { return Status(); });
  EXPECT_THAT(sorted.message(), HasSubstr("takes more steps to read"));
}

TEST_F(SqliteFileTest, RowsThatTakeTheLeastRoomAreAllThere) {
  const SqliteFile file = Opened(
      Made("CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
           "WHERE i < 20000) INSERT INTO t SELECT NULL, 1 FROM n;"));
  size_t rows = 0;
  EXPECT_TRUE(file.ForEachRow("t", {"a", "b", "?c", "?d", "?e"},
                              [&](const SqliteRow& row) { rows += row.IsNull(0) ? 1 : 0; })
                  .ok());
  EXPECT_EQ(rows, 20000U);
  EXPECT_EQ(*file.Count("t", {}), 20000);
  EXPECT_EQ(*file.Count("t", {{"b", int64_t{1}}}), 20000);
  EXPECT_TRUE(file.ForEachMatch("t", {"a", "b"}, {{"b", int64_t{1}}}, "a",
                                [](const SqliteRow& /*row*/) { return Status(); })
                  .ok());
}

TEST_F(SqliteFileTest, QueriesWithinAQueryHaveStepsOfTheirOwn) {
  const SqliteFile file = Opened(
      Made("CREATE TABLE t(a); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
           "WHERE i < 1000) INSERT INTO t SELECT i FROM n;"));
  size_t found = 0;
  EXPECT_TRUE(file.ForEachRow("t", {"a"},
                              [&](const SqliteRow& row) {
                                found += *file.Count("t", {{"a", row.Integer(0)}}) == 1 ? 1 : 0;
                              })
                  .ok());
  EXPECT_EQ(found, 1000U);
}

TEST_F(SqliteFileTest, RowsThatShareALongTextEndWithTheirLimit) {
  // One row of 4 MB; 40 rows refer to the pages that its text continues on.
  std::string bytes = Made("CREATE TABLE t(a); INSERT INTO t VALUES(printf('%.4000000c', 'x'));");
  std::string page = bytes.substr((root_ - 1) * kPage, kPage);
  const size_t at =
      (static_cast<unsigned char>(page[8]) << 8U) | static_cast<unsigned char>(page[9]);
  const std::string cell = page.substr(at);
  ASSERT_LT(cell.size() * 3, kPage - 20);
  PutBigEndian(page, 3, 3, 2);
  for (uint32_t copy = 1; copy < 3; ++copy) {
    const size_t place = at - copy * cell.size();
    page.replace(place, cell.size(), cell);
    PutBigEndian(page, 8 + 2 * copy, static_cast<uint32_t>(place), 2);
    PutBigEndian(page, 5, static_cast<uint32_t>(place), 2);
  }
  bytes.replace((root_ - 1) * kPage, kPage, page);
  // 213 rows of 4 MB, of which 8 times the file and 64 MiB are read.
  bytes = WithSharedChildren(bytes, root_, 1);
  const SqliteFile file = Opened(bytes);
  uint64_t read = 0;
  const Status status =
      file.ForEachRow("t", {"a"}, [&](const SqliteRow& row) { read += row.Text(0).size(); });
  EXPECT_THAT(status.message(), HasSubstr("table t has more text than its"));
  EXPECT_LE(read, 8 * bytes.size() + (size_t{64} << 20U));
  EXPECT_GE(read, 8 * bytes.size());
}

TEST_F(SqliteFileTest, ReadsTheFileThatWasLookedAtWhateverHasItsNameByThen) {
  const std::filesystem::path path =
      folder_.Write("own.db", Made("CREATE TABLE t(a); INSERT INTO t VALUES('own')"));
  Result<base::InputFile> looked_at = base::InputFile::Open(path);
  ASSERT_TRUE(looked_at.ok());
  const std::filesystem::path other =
      folder_.Write("other.db", Made("CREATE TABLE t(a); INSERT INTO t VALUES('other')"));
  std::filesystem::rename(other, path);
  const Result<SqliteFile> file = SqliteFile::Open(*std::move(looked_at));
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::string text;
  ASSERT_TRUE(file->ForEachRow("t", {"a"}, [&](const SqliteRow& row) { text = row.Text(0); }).ok());
  EXPECT_EQ(text, "own");
}

// What SQLite would look for beside a path: a journal that is to be played back, a log of changes.
TEST_F(SqliteFileTest, LooksAtNothingBesideTheFile) {
  const std::filesystem::path path = folder_.Write(
      "own.db", Made("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)"));
  for (const char* name : {"own.db-journal", "own.db-wal", "own.db-shm"}) {
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
  }
  const Result<SqliteFile> file = SqliteFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(*file->Count("t", {}), 1);
}

TEST_F(SqliteFileTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((folder_ / "fifo.db").c_str(), 0600), 0);
  EXPECT_THAT(SqliteFile::Open(folder_ / "fifo.db").status().message(), HasSubstr("a FIFO"));
  EXPECT_THAT(SqliteFile::Open("/dev/zero").status().message(), HasSubstr("a device"));
}

}  // namespace
}  // namespace msprobe::database
