#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "src/base/files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

using test_support::Spill;
using test_support::TemporaryFolder;
using testing::HasSubstr;

// A folder with one of everything that can have a name.
class InputFiles : public testing::Test {
 protected:
  void SetUp() override {
    Spill(folder_ / "file", "text");
    ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
    ASSERT_EQ(::mkdir((folder_ / "folder").c_str(), 0700), 0);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name = (folder_ / "socket").string();
    ASSERT_LT(name.size(), sizeof(address.sun_path));
    name.copy(address.sun_path, name.size());
    ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ::close(socket);
    for (const auto& [link, target] :
         {std::pair{"to_file", "file"}, {"to_fifo", "fifo"}, {"to_nothing", "nothing"}}) {
      ASSERT_EQ(::symlink(target, (folder_ / link).c_str()), 0);
    }
  }

  const TemporaryFolder folder_;
};

TEST_F(InputFiles, OpensRegularFilesAndLinksToThem) {
  for (const char* name : {"file", "to_file"}) {
    const Result<InputFile> file = InputFile::Open(folder_ / name);
    ASSERT_TRUE(file.ok()) << name;
    EXPECT_EQ(file->size_bytes(), 4U);
    EXPECT_EQ(*file->Head(3), "tex");
    EXPECT_EQ(*file->Head(10), "text");
  }
}

TEST_F(InputFiles, NamesWhatIsNoFile) {
  for (const auto& [name, kind] : {std::pair{"fifo", "a FIFO"},
                                   {"to_fifo", "a FIFO"},
                                   {"folder", "a folder"},
                                   {"socket", "a socket"}}) {
    const Result<InputFile> file = InputFile::Open(folder_ / name);
    ASSERT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.status().code(), StatusCode::kIo);
    EXPECT_THAT(file.status().message(), HasSubstr(fmt::format("it is {}, not a regular", kind)));
    EXPECT_THAT(file.status().message(), HasSubstr((folder_ / name).string()));
  }
  for (const char* device : {"/dev/zero", "/dev/null", "/dev/full"}) {
    const Result<InputFile> file = InputFile::Open(device);
    ASSERT_FALSE(file.ok()) << device;
    EXPECT_THAT(file.status().message(), HasSubstr("it is a device"));
  }
  EXPECT_EQ(InputFile::Open(folder_ / "to_nothing").status().code(), StatusCode::kNotFound);
}

TEST_F(InputFiles, RefusesALinkWhereNoneIsWanted) {
  EXPECT_FALSE(InputFile::Open(folder_ / "to_file", Links::kRefuse).ok());
  EXPECT_EQ(HeadOf(folder_ / "to_file", 4, Links::kRefuse), "");
  EXPECT_EQ(HeadOf(folder_ / "file", 4, Links::kRefuse), "text");
}

TEST_F(InputFiles, WakesNobodyUpWhoWaitsToWriteIntoAFifo) {
  EXPECT_EQ(HeadOf(folder_ / "fifo", 4), "");
  // A writer that does not wait finds no reader, now as before.
  EXPECT_LT(::open((folder_ / "fifo").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC), 0);
}

TEST_F(InputFiles, ReadsAtAnyPlace) {
  const Result<InputFile> file = InputFile::Open(folder_ / "file");
  ASSERT_TRUE(file.ok());
  std::string two(2, '\0');
  EXPECT_EQ(*file->ReadAt(1, two), 2U);
  EXPECT_EQ(two, "ex");
  EXPECT_EQ(*file->ReadAt(3, two), 1U);
  EXPECT_EQ(*file->ReadAt(9, two), 0U);
}

TEST_F(InputFiles, StreamsAreOnlyWhatThisProcessWasGiven) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Result<Descriptor> given = OpenStream(fmt::format("/dev/fd/{}", ends[0]));
  EXPECT_TRUE(given.ok());
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_FALSE(OpenStream("/dev/fd/9999").ok());
  EXPECT_FALSE(OpenStream("/dev/fd/x").ok());
  EXPECT_FALSE(OpenStream(folder_ / "fifo").ok());
  EXPECT_FALSE(OpenStream("/dev/zero").ok());
  EXPECT_TRUE(OpenStream(folder_ / "file").ok());
}

}  // namespace
}  // namespace msprobe::base
