#include "src/report/web_page.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "src/base/files.h"

namespace msprobe::report {
namespace {

constexpr std::string_view kDigits =
    "!#%()*+,./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";

std::string FromBase85(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); i += 5) {
    uint64_t group = 0;
    for (size_t k = 0; k < 5; ++k) {
      group = group * 85 + (i + k < text.size() ? kDigits.find(text[i + k]) : 84);
    }
    const size_t count = std::min<size_t>(5, text.size() - i) - 1;
    for (size_t k = 0; k < count; ++k) {
      bytes += static_cast<char>(group >> (24 - 8 * k));
    }
  }
  return bytes;
}

std::string Inflate(const std::string& packed, size_t bytes) {
  std::string plain(bytes, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, -15), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  inflateEnd(&stream);
  return plain;
}

class WebPage : public testing::Test {
 protected:
  std::string Write(const std::vector<PageBlock>& blocks, size_t threads = 1) {
    std::filesystem::remove(path_);  // of an earlier one
    base::ThreadPool pool(threads);
    const Result<uint64_t> size =
        WriteWebPage(path_, "<p>a</p><!--msprobe:data--><p>b</p>", PackBlocks(blocks, pool));
    EXPECT_TRUE(size.ok()) << size.status().message();
    const Result<std::string> text = base::ReadTextFile(path_, uint64_t{1} << 30U);
    EXPECT_TRUE(text.ok());
    EXPECT_EQ(size.ok() ? *size : 0, text->size());
    return text.ok() ? *text : "";
  }
  static PageBlock Block(const std::string& id, const std::string& bytes) {
    return {id, [bytes](std::string& out) { out += bytes; }};
  }
  static std::string Content(const std::string& page, const std::string& id) {
    const std::string head = "<script type=\"text/plain\" id=\"" + id + "\">";
    const size_t begin = page.find(head) + head.size();
    return page.substr(begin, page.find("</script>", begin) - begin);
  }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("page_") + testing::UnitTest::GetInstance()->current_test_info()->name() +
       ".html");
};

TEST_F(WebPage, PutsBlocksWhereTheShellSays) {
  const std::string page = Write({Block("one", "abc"), Block("two", "")});
  EXPECT_TRUE(page.starts_with("<p>a</p><script type=\"text/plain\" id=\"one\">"));
  EXPECT_TRUE(page.ends_with("</script>\n<p>b</p>"));
  EXPECT_LT(page.find("id=\"one\""), page.find("id=\"two\""));
}

TEST_F(WebPage, GivesBackBytesOfEveryLength) {
  for (size_t length = 0; length < 40; ++length) {
    std::string bytes;
    for (size_t i = 0; i < length; ++i) {
      bytes += static_cast<char>(255 - i * 37);
    }
    const std::string page = Write({Block("x", bytes)});
    EXPECT_EQ(Inflate(FromBase85(Content(page, "x")), length), bytes);
  }
}

TEST_F(WebPage, LetsNoDataBecomeMarkup) {
  const std::string evil = "</script><script>alert(1)</script><!-- & \"";
  std::string all;
  for (int i = 0; i < 100000; ++i) {
    all += static_cast<char>((i * 7919) >> 3);  // hardly compressible: any digit occurs
  }
  const std::string page = Write({Block("x", evil), Block("y", all)});
  EXPECT_EQ(page.find("alert"), std::string::npos);
  for (const std::string& id : {std::string("x"), std::string("y")}) {
    EXPECT_EQ(Content(page, id).find_first_not_of(kDigits), std::string::npos);
  }
}

TEST_F(WebPage, GivesTheSameBytesForEveryNumberOfThreads) {
  std::vector<PageBlock> blocks;
  for (int i = 0; i < 20; ++i) {
    blocks.push_back(
        Block("b" + std::to_string(i), std::string(static_cast<size_t>(i) * 1000, 'a')));
  }
  const std::string item = Write(blocks, 1);
  EXPECT_EQ(Write(blocks, 3), item);
  EXPECT_EQ(Write(blocks, 8), item);
}

TEST_F(WebPage, KnowsTheLatestPageBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "page_beside";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(PageBeside(folder / "own.html", "a"), "");
  std::filesystem::create_directories(folder / "folder.html");
  const auto write = [&](const std::string& name, const std::string& title, int hours) {
    std::ofstream(folder / name) << "<title>" << title << "</title>";
    std::filesystem::last_write_time(
        folder / name, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  write("own.html", "a", 0);
  write("old.html", "a", 9);
  write("late.html", "a", 1);
  write("other.html", "a b", 0);
  write("late.txt", "a", 0);
  EXPECT_EQ(PageBeside(folder / "own.html", "a"), "late.html");
  EXPECT_EQ(PageBeside(folder / "own.html", "c"), "");
  // A page elsewhere and what is no file are not looked into.
  const std::filesystem::path outside = std::filesystem::path(testing::TempDir()) / "outside.html";
  std::ofstream(outside) << "<title>c</title>";
  std::filesystem::create_symlink(outside, folder / "link.html");
  std::filesystem::create_symlink("/dev/zero", folder / "endless.html");
  ASSERT_EQ(::mkfifo((folder / "fifo.html").c_str(), 0600), 0);
  EXPECT_EQ(PageBeside(folder / "own.html", "c"), "");
  EXPECT_EQ(PageBeside(folder / "own.html", "a"), "late.html");
  // In an open folder, whatever has its name by now.
  const base::Descriptor moved(::open(folder.c_str(), O_PATH | O_DIRECTORY));
  std::filesystem::rename(folder, folder.string() + ".moved");
  EXPECT_EQ(PageBeside(moved.get(), ".", "own.html", "a"), "late.html");
  std::filesystem::rename(folder.string() + ".moved", folder);
  std::filesystem::remove(outside);
  std::filesystem::remove_all(folder);
}

TEST_F(WebPage, RefusesNamesThatAreNotPlain) {
  const std::vector<std::string> packed = {PackBlock(Block("a\"b", ""))};
  EXPECT_EQ(WriteWebPage(path_, kPageDataMark, packed).status().code(), StatusCode::kInternal);
}

TEST_F(WebPage, NamesTheFileThatCannotBeWritten) {
  const Result<uint64_t> size = WriteWebPage("/proc/none/report.html", kPageDataMark, {});
  ASSERT_FALSE(size.ok());
  EXPECT_NE(size.status().message().find("/proc/none/report.html"), std::string::npos);
}

TEST_F(WebPage, ABlockIsReadBack) {
  std::string many;
  for (int i = 0; i < 100'000; ++i) {
    many += std::to_string(i * 7919 % 1009);
  }
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("\0\xff<", 3), many}) {
    const std::string page = Write({Block("one", "x"), Block("two", bytes)});
    const Result<std::string> read = UnpackBlock(page, "two", many.size());
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, bytes);
  }
  const std::string page = Write({Block("two", many)});
  EXPECT_EQ(UnpackBlock(page, "three", many.size()).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(UnpackBlock(page, "two", many.size() - 1).status().code(), StatusCode::kBadFormat);
  EXPECT_EQ(UnpackBlock(page.substr(0, page.size() / 2), "two", many.size()).status().code(),
            StatusCode::kNotFound);
  std::string damaged = page;
  damaged.replace(page.size() / 2, 40, 40, '!');
  EXPECT_EQ(UnpackBlock(damaged, "two", many.size()).status().code(), StatusCode::kBadFormat);
}

}  // namespace
}  // namespace msprobe::report
