// A folder appears whole, replaces in one step, and leaves nothing behind when anything goes wrong.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/atomic_folder.h"
#include "base/read_file.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class AtomicFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("kvcal atomic folder " + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      all.insert(entry.path().lexically_relative(folder_).string());
    return all;
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  using Names = std::set<std::string>;
  fs::path folder_;
};

TEST_F(AtomicFolderTest, AppearsOnlyWithCommit) {
  AtomicFolder made(folder_ / "out", Existing::Refuse);
  write(made.path() / "sub" / "file", "x");
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  made.commit();
  EXPECT_EQ(names(), (Names{"out", "out/sub", "out/sub/file"}));
}

TEST_F(AtomicFolderTest, IsGoneWithoutCommit) {
  {
    AtomicFolder made(folder_ / "out", Existing::Refuse);
    write(made.path() / "sub" / "file", "x");
  }
  EXPECT_EQ(names(), Names{});
}

TEST_F(AtomicFolderTest, AnEmptyFolderIsNoObstacle) {
  fs::create_directories(folder_ / "out");
  AtomicFolder made(folder_ / "out" / "", Existing::Refuse);
  write(made.path() / "file", "x");
  made.commit();
  EXPECT_EQ(names(), (Names{"out", "out/file"}));
}

TEST_F(AtomicFolderTest, RefusesWhatIsThere) {
  write(folder_ / "out" / "mine", "kept");
  write(folder_ / "file", "kept");
  EXPECT_NE(message_of([&] { AtomicFolder(folder_ / "out", Existing::Refuse); }).find("use --force"),
            std::string::npos);
  EXPECT_NE(message_of([&] { AtomicFolder(folder_ / "file", Existing::Replace); }).find("expected a folder"),
            std::string::npos);
  EXPECT_NE(message_of([&] { AtomicFolder(folder_ / "no" / "out", Existing::Refuse); }).find("does the folder exist?"),
            std::string::npos);
  EXPECT_EQ(names(), (Names{"file", "out", "out/mine"}));
}

TEST_F(AtomicFolderTest, RefusesALinkToNothing) {
  fs::create_symlink("nowhere", folder_ / "out");
  EXPECT_NE(
      message_of([&] { AtomicFolder(folder_ / "out", Existing::Replace); }).find("a symlink to what is not there"),
      std::string::npos);
  EXPECT_EQ(names(), Names{"out"});
}

TEST_F(AtomicFolderTest, ReplacesInOneStep) {
  write(folder_ / "out" / "deep" / "old", "old");
  fs::create_directory_symlink("out", folder_ / "link");
  AtomicFolder made(folder_ / "link", Existing::Replace);
  write(made.path() / "new", "new");
  EXPECT_TRUE(fs::exists(folder_ / "out" / "deep" / "old"));
  made.commit();
  EXPECT_EQ(names(), (Names{"link", "out", "out/new"}));
}

TEST_F(AtomicFolderTest, SomethingThatAppearsMeanwhileStays) {
  AtomicFolder made(folder_ / "out", Existing::Refuse);
  write(folder_ / "out" / "other", "theirs");
  EXPECT_NE(message_of([&] { made.commit(); }).find("appeared meanwhile"), std::string::npos);
  EXPECT_TRUE(fs::exists(folder_ / "out" / "other"));
}

TEST_F(AtomicFolderTest, ASignalRemovesAllOfIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto* made = new AtomicFolder(folder_ / "out", Existing::Refuse);
    for (int i = 0; i < 200; ++i)
      write(made->path() / "a" / "b" / ("a file with a rather long name " + std::to_string(i)), "x");
    write(made->path() / "top", "x");
    unlink_temporaries_in_signal_handler();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(names(), Names{});
}

}  // namespace
}  // namespace kvcal
