#include <filesystem>

#include "src/device/streamed_runtime.h"
#include "tests/unit/device/fake_fixture.h"
#include "tests/unit/support/temporary_folder.h"

namespace msprobe::device {
namespace {

using test_support::Variable;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kVariable = "MSPROBE_TEST_LIBRARY";
const std::string kAbsent = "libmsprobe_absent.so.7";

Result<Library> Open(const std::string& name, Loading loading) {
  return Library::Open({kVariable, {name}, "such devices", "install one"}, loading);
}

TEST(Library, IsFoundWhereTheProcessHasIt) {
  const Result<Library> library = Open("libc.so.6", Loading::kOnlyIfLoaded);
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_THAT(library->path(), HasSubstr("libc.so.6"));
  EXPECT_NE(library->Find<int(const char*)>("puts"), nullptr);
  EXPECT_EQ(library->Find<int()>("msprobe_no_such_function"), nullptr);
}

TEST(Library, IsNotLoadedIntoTheProcessOfAFramework) {
  const test_support::TemporaryFolder folder;
  std::filesystem::copy_file(FAKE_ACL, folder / "libown.so");
  const std::string own = folder / "libown.so";
  const Status status = Open(own, Loading::kOnlyIfLoaded).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("not loaded in this process: it uses no such devices"));
  EXPECT_TRUE(Open(own, Loading::kMayLoad).ok());
}

TEST(Library, ThatIsAbsentIsNamed) {
  const Status status = Open(kAbsent, Loading::kMayLoad).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(kAbsent + " is not installed"));
  EXPECT_EQ(status.hint(), "install one");
}

TEST(Library, ThatIsThereButBrokenSaysWhy) {
  const test_support::TemporaryFolder folder;
  const std::string broken = folder / "libbroken.so";
  test_support::Spill(broken, "no library");
  const Status status =
      Library::Open({kVariable, {kAbsent, broken}, "such devices", ""}, Loading::kMayLoad).status();
  EXPECT_THAT(status.message(), HasSubstr("cannot be loaded: " + broken));
}

TEST(Library, ChosenByTheEnvironmentWinsWhateverIsAllowed) {
  const Variable chosen(kVariable, FAKE_CUDA);
  const Result<Library> library = Open("libc.so.6", Loading::kOnlyIfLoaded);
  ASSERT_TRUE(library.ok());
  EXPECT_EQ(library->path(), FAKE_CUDA);
}

TEST(Library, ChosenWronglyIsAnErrorThatNamesTheVariable) {
  const Variable chosen(kVariable, "/nowhere/" + kAbsent);
  EXPECT_THAT(Open("libc.so.6", Loading::kMayLoad).status().message(),
              ::testing::AllOf(HasSubstr(kVariable), HasSubstr(kAbsent)));
}

TEST(FeatureTable, TakesAwayOnlyTheFeaturesWhoseFunctionsAreMissing) {
  const Result<Library> library = Open("libc.so.6", Loading::kOnlyIfLoaded);
  ASSERT_TRUE(library.ok());
  FeatureTable features({"printing", "flying"});
  std::add_pointer_t<int(const char*)> print = nullptr;
  std::add_pointer_t<void()> fly = nullptr;
  features.Load(*library, 0, "puts", print);
  features.Load(*library, 1, "msprobe_take_off", fly);
  features.Load(*library, 1, "msprobe_land", fly);
  EXPECT_TRUE(features.Require(*library, 0).ok());
  const Status status = features.Require(*library, 1);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("msprobe_take_off, msprobe_land: no flying"));
  EXPECT_THAT(features.Limitations(),
              ElementsAre("no flying: the library lacks msprobe_take_off, msprobe_land"));
}

}  // namespace
}  // namespace msprobe::device
