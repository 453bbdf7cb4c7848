#include "src/dump/dump_writer.h"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.h"

namespace msprobe::dump {
namespace {

using testing::Slurp;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

// Reads `from` and writes it again as `to`.
Status Rewrite(const fs::path& from, const fs::path& to) {
  MSP_ASSIGN_OR_RETURN(const DumpHeader header, ReadDumpHeader(from));
  MSP_ASSIGN_OR_RETURN(DumpWriter writer, DumpWriter::Create(to, header));
  MSP_ASSIGN_OR_RETURN(
      const DumpHeader whole,
      ReadDumpFile(from, {}, [&writer](std::string_view name, const EntryTree& entry) {
        return writer.Add(name, entry);
      }));
  EXPECT_TRUE(whole.has_data) << from;
  return writer.Commit();
}

std::vector<fs::path> DumpFilesBelow(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry->is_regular_file() && (name == "dump.json" || name == "debug.json")) {
      files.push_back(entry->path());
    }
  }
  return files;
}

void ExpectSameBytesAfterRewriting(const std::vector<fs::path>& files) {
  const TemporaryFolder folder;
  for (const fs::path& file : files) {
    const fs::path copy = folder.path() / "copy.json";
    fs::remove(copy);
    const Status status = Rewrite(file, copy);
    ASSERT_TRUE(status.ok()) << file << ": " << status.message();
    EXPECT_TRUE(Slurp(copy) == Slurp(file)) << file;
  }
}

TEST(DumpWriter, RewritesEveryCapturedDumpByteForByte) {
  const std::vector<fs::path> files = DumpFilesBelow(MSPROBE_TEST_DATA "/dump");
  EXPECT_GE(files.size(), 20U);
  ExpectSameBytesAfterRewriting(files);
}

TEST(DumpWriter, RewritesTheWholeGoldenSetByteForByte) {
  const char* golden = std::getenv("MSPROBE_GOLDEN");
  const fs::path root =
      golden != nullptr ? fs::path(golden) : fs::path(MSPROBE_TEST_DATA "/../../../shared/golden");
  const std::vector<fs::path> files = DumpFilesBelow(root / "dump");
  if (files.empty()) {
    GTEST_SKIP() << "no golden dumps in " << root << " (set MSPROBE_GOLDEN)";
  }
  ExpectSameBytesAfterRewriting(files);
  ExpectSameBytesAfterRewriting(DumpFilesBelow(root / "dump_torch2"));
}

TEST(DumpWriter, WritesHeaderKeysInTheirFixedOrder) {
  const TemporaryFolder folder;
  DumpHeader header;
  header.framework = "mindspore";
  header.task = "tensor";
  header.level = "L0";
  header.dump_data_dir = "a/b";
  auto writer = DumpWriter::Create(folder.path() / "dump.json", header);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Commit().ok());
  EXPECT_EQ(Slurp(folder.path() / "dump.json"),
            "{\n \"task\": \"tensor\",\n \"level\": \"L0\",\n \"framework\": \"mindspore\",\n"
            " \"dump_data_dir\": \"a/b\",\n \"data\": {}\n}");
}

TEST(DumpWriter, KeepsUnknownKeysOddKeysAndUnusualNumbers) {
  const TemporaryFolder folder;
  const std::string text =
      "{\n \"task\": \"tensor\",\n \"dump_data_dir\": null,\n \"is_merged\": true,\n \"notes\": "
      "[\n  1,\n  {}\n ],\n"
      " \"data\": {\n  \"\": {\n   \"\": null,\n   \"big\": 123456789012345678901234567890,\n   "
      "\"e\": 1e-07,\n"
      "   \"z\": -0.0,\n   \"n\": NaN,\n   \"t\": \"\\u4e2d \\\"x\\\" \\n \\ud83d\\ude00\"\n  },\n "
      " \"a\": []\n }\n}";
  const fs::path file = folder.Write("dump.json", text);
  ExpectSameBytesAfterRewriting({file});
}

TEST(DumpWriter, LeavesNoFileUnlessCommitted) {
  const TemporaryFolder folder;
  {
    auto writer = DumpWriter::Create(folder.path() / "dump.json", DumpHeader{});
    ASSERT_TRUE(writer.ok());
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(DumpWriter, WritesMoreThanOneBufferOfEntries) {
  const TemporaryFolder folder;
  std::string text = "{\n \"dump_data_dir\": null,\n \"data\": {";
  for (int i = 0; i < 40000; ++i) {
    text += (i == 0 ? "\n  \"" : ",\n  \"") + std::string("Torch.add.") + std::to_string(i) +
            ".forward\": {\n   \"output\": [\n    " + std::to_string(i) + ".5\n   ]\n  }";
  }
  text += "\n }\n}";
  ASSERT_GT(text.size(), size_t{2} << 20U);
  ExpectSameBytesAfterRewriting({folder.Write("dump.json", text)});
}

}  // namespace
}  // namespace msprobe::dump
