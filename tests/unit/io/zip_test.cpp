#include "src/io/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/io/test_bytes.h"

namespace msprobe::io {
namespace {

using test_support::Bytes;
using test_support::MakeZip;
using ::testing::HasSubstr;

constexpr uint64_t kLimit = 1 << 20;

// The content of one member, or the error of whatever step failed.
Result<std::string> ReadMember(const std::string& zip, const std::string& name,
                               uint64_t limit = kLimit, bool verify = true) {
  MSP_ASSIGN_OR_RETURN(const ZipArchive archive, ZipArchive::Open(Bytes(zip)));
  const ZipEntry* entry = archive.Find(name);
  if (entry == nullptr) {
    return NotFoundError(name);
  }
  MSP_ASSIGN_OR_RETURN(const ZipBytes content, archive.Read(*entry, limit, verify));
  return std::string(content.text());
}

TEST(ZipArchive, StoredMembersAreBorrowedInPlace) {
  const std::string zip = MakeZip({{.name = "a", .content = "hello"}});
  const Result<ZipArchive> archive = ZipArchive::Open(Bytes(zip));
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  const Result<ZipBytes> content = archive->Read(archive->entries()[0], kLimit, true);
  ASSERT_TRUE(content.ok()) << content.status().message();
  EXPECT_EQ(content->text(), "hello");
  EXPECT_EQ(content->owned, nullptr);
  EXPECT_EQ(content->text().data(), zip.data() + zip.find("hello"));
}

TEST(ZipArchive, DeflatedMembersAreInflated) {
  const std::string text(5000, 'x');
  const Result<std::string> content =
      ReadMember(MakeZip({{.name = "a", .content = text, .deflate = true}}), "a");
  ASSERT_TRUE(content.ok()) << content.status().message();
  EXPECT_EQ(*content, text);
}

TEST(ZipArchive, TheFrontOfADeflatedMemberIsEnoughForItsHeader) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + ",";
  const std::string zip = MakeZip({{.name = "a", .content = text, .deflate = true}});
  const Result<ZipArchive> archive = ZipArchive::Open(Bytes(zip));
  ASSERT_TRUE(archive.ok());
  const ZipEntry& entry = archive->entries()[0];
  for (const uint64_t front : {uint64_t{0}, uint64_t{1}, uint64_t{1000}, text.size() + 5}) {
    const Result<ZipBytes> content = archive->ReadFront(entry, kLimit, front);
    ASSERT_TRUE(content.ok()) << content.status().message();
    ASSERT_EQ(content->bytes.size(), text.size());
    const size_t known = std::min<size_t>(front, text.size());
    EXPECT_EQ(content->text().substr(0, known), text.substr(0, known));
  }
  EXPECT_THAT(archive->ReadFront(entry, text.size() - 1, 10).status().message(),
              HasSubstr("more than the limit"));
  std::string damaged = zip;
  const std::span<const std::byte> raw = *archive->RawBytes(entry);
  damaged[static_cast<size_t>(raw.data() - Bytes(zip).data())] = '\x07';  // no type of block
  const Result<ZipArchive> other = ZipArchive::Open(Bytes(damaged));
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(other->ReadFront(other->entries()[0], kLimit, 10).status().message(),
              HasSubstr("do not inflate"));
}

TEST(ZipArchive, Zip64FieldsAndEndRecordsAreUnderstood) {
  const std::string zip = MakeZip(
      {{.name = "a", .content = "first", .zip64 = true}, {.name = "b", .content = "second"}}, true);
  EXPECT_EQ(*ReadMember(zip, "a"), "first");
  EXPECT_EQ(*ReadMember(zip, "b"), "second");
}

TEST(ZipArchive, ACommentAfterTheEndRecordDoesNotHideIt) {
  EXPECT_EQ(
      *ReadMember(MakeZip({{.name = "a", .content = "x"}}, false, "PK\x05\x06 a comment"), "a"),
      "x");
}

TEST(ZipArchive, TheLastOfSeveralMembersOfOneNameCounts) {
  EXPECT_EQ(
      *ReadMember(MakeZip({{.name = "a", .content = "1"}, {.name = "a", .content = "2"}}), "a"),
      "2");
}

TEST(ZipArchive, ManyMembersAreFoundByTheIndexToo) {
  std::vector<test_support::TestMember> members;
  for (int i = 0; i < 100; ++i) {
    members.push_back({.name = std::to_string(i), .content = std::to_string(i)});
  }
  const std::string zip = MakeZip(members);
  EXPECT_EQ(*ReadMember(zip, "42"), "42");
  EXPECT_EQ(ReadMember(zip, "100").status().code(), StatusCode::kNotFound);
}

TEST(ZipArchive, AWrongChecksumIsAnErrorOnlyWhenAskedFor) {
  for (bool deflate : {false, true}) {
    const std::string zip =
        MakeZip({{.name = "a", .content = "hello", .deflate = deflate, .wrong_crc = true}});
    EXPECT_THAT(ReadMember(zip, "a").status().message(), HasSubstr("damaged"));
    EXPECT_TRUE(ReadMember(zip, "a", kLimit, false).ok());
  }
}

TEST(ZipArchive, AChecksumOfZeroMeansNotRecorded) {
  EXPECT_TRUE(ReadMember(MakeZip({{.name = "a", .content = "hello", .no_crc = true}}), "a").ok());
}

TEST(ZipArchive, MembersAboveTheLimitAreRefusedBeforeAnyMemoryIsTaken) {
  const std::string zip =
      MakeZip({{.name = "a", .content = std::string(1000, 'x'), .deflate = true}});
  EXPECT_EQ(ReadMember(zip, "a", 999).status().code(), StatusCode::kUnsupported);
  EXPECT_TRUE(ReadMember(zip, "a", 1000).ok());
}

TEST(ZipArchive, AMemberThatInflatesToAnotherSizeIsDamaged) {
  for (uint64_t claimed : {99U, 101U}) {
    const std::string zip = MakeZip({{.name = "a",
                                      .content = std::string(100, 'x'),
                                      .deflate = true,
                                      .claimed_bytes = claimed}});
    EXPECT_THAT(ReadMember(zip, "a").status().message(), HasSubstr("do not inflate to"));
  }
}

TEST(ZipArchive, AnImpossibleCompressionRatioIsRefused) {
  const std::string zip =
      MakeZip({{.name = "a", .content = "xx", .deflate = true, .claimed_bytes = 1000000}});
  EXPECT_THAT(ReadMember(zip, "a").status().message(), HasSubstr("claims to inflate"));
}

TEST(ZipArchive, EncryptedMembersAreUnsupported) {
  const std::string zip = MakeZip({{.name = "a", .content = "x", .flags = 1}});
  EXPECT_EQ(ReadMember(zip, "a").status().code(), StatusCode::kUnsupported);
}

TEST(ZipArchive, AHeaderOfAnotherNameIsDamage) {
  const std::string zip = MakeZip({{.name = "a", .content = "x", .local_name = "b"}});
  EXPECT_THAT(ReadMember(zip, "a").status().message(), HasSubstr("another name"));
}

TEST(ZipArchive, EndRecordsThatDisagreeAreDamage) {
  std::string zip = MakeZip({{.name = "a", .content = "x"}}, true);
  zip[zip.size() - 12] = 2;  // number of members in the plain end record
  EXPECT_THAT(ReadMember(zip, "a").status().message(), HasSubstr("disagree"));
}

TEST(ZipArchive, EveryTruncationIsAnErrorAndNoCrash) {
  const std::string zip = MakeZip(
      {{.name = "a", .content = "hello", .zip64 = true}, {.name = "b", .content = "x"}}, true);
  for (size_t size = 0; size < zip.size(); ++size) {
    EXPECT_FALSE(ZipArchive::Open(Bytes(zip).first(size)).ok()) << size;
  }
}

TEST(ZipArchive, EveryFlippedByteIsHandled) {
  const std::string zip = MakeZip(
      {{.name = "a", .content = "hello", .deflate = true}, {.name = "b", .content = "x"}}, true);
  for (size_t at = 0; at < zip.size(); ++at) {
    std::string damaged = zip;
    damaged[at] = static_cast<char>(damaged[at] ^ 0xFF);
    const Result<std::string> content = ReadMember(damaged, "a");
    EXPECT_TRUE(!content.ok() || *content == "hello") << at;
  }
}

TEST(ZipEntryNames, OnlyPlainRelativeNamesOfRegularFilesAreSafe) {
  const auto safe = [](std::string_view name, uint32_t mode = 0) {
    ZipEntry entry;
    entry.name = name;
    entry.host_system = 3;
    entry.external_attributes = mode << 16U;
    return entry.IsSafeToExtract();
  };
  EXPECT_TRUE(safe("a/b.txt"));
  EXPECT_TRUE(safe("..a/b..", 0100644));
  EXPECT_TRUE(safe("folder/", 0040755));
  EXPECT_FALSE(safe(""));
  EXPECT_FALSE(safe("/etc/passwd"));
  EXPECT_FALSE(safe("a/../../b"));
  EXPECT_FALSE(safe(".."));
  EXPECT_FALSE(safe("a\\b"));
  EXPECT_FALSE(safe("C:/x"));
  EXPECT_FALSE(safe(std::string_view("a\0b", 3)));
  EXPECT_FALSE(safe("link", 0120777));
  EXPECT_FALSE(safe("device", 0020644));
}

}  // namespace
}  // namespace msprobe::io
