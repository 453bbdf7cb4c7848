#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/output_files.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::base {
namespace {

// One test, because what could not be looked at is remembered for the whole program.
TEST(CheckUnseenPaths, TellsOfWhatIsThereAndCannotBeReadButNotOfWhatIsMissing) {
  const test_support::TemporaryFolder folder;
  const Path file = folder.Write("file", "text");
  EXPECT_TRUE(IsRegularFile(file));
  EXPECT_FALSE(IsFolder(file));
  EXPECT_TRUE(IsFolder(folder.path()));
  EXPECT_FALSE(Exists(folder / "missing"));
  EXPECT_FALSE(Exists(file / "below"));
  EXPECT_THAT(NamesIn(folder.path()), ::testing::ElementsAre("file"));
  EXPECT_THAT(NamesIn(folder / "missing"), ::testing::IsEmpty());
  EXPECT_THAT(NamesIn(file), ::testing::IsEmpty());
  NoteUnseen(NotFoundError("nothing there"));
  NoteUnseen({});
  EXPECT_TRUE(CheckUnseenPaths().ok());

  NoteUnseen(IoError("cannot read the first"));
  NoteUnseen(IoError("cannot read the second"));
  EXPECT_EQ(CheckUnseenPaths().message(), "cannot read the first");
}

}  // namespace
}  // namespace msprobe::base
