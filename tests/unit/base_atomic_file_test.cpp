// Every failure must leave the folder as it was: no temporary, no half-written target.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include "base/atomic_file.h"
#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/read_file.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("kvcal atomic " + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.insert(entry.path().filename());
    return all;
  }
  static std::string content(const fs::path& path) { return read_file(path, 1 << 20); }

  fs::path folder_;
};

// A process that is killed at once, while it writes.
template <class Write>
void run_killed(Write write) {
  const pid_t child = ::fork();
  if (child == 0) {
    write();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST_F(AtomicFileTest, WhatAKilledProcessLeftIsRemovedByTheNext) {
  run_killed([&] { (new AtomicFile(folder_ / "out.json", Existing::Refuse))->write("half"); });
  run_killed([&] {
    auto* folder = new AtomicFolder(folder_ / "out", Existing::Refuse);
    fs::create_directories(folder->path() / "a" / "b");
  });
  EXPECT_EQ(names().size(), 1u);  // the second has removed what the first left
  write_file_atomically(folder_ / "out.json", "whole", Existing::Refuse);
  EXPECT_EQ(names(), std::set<std::string>{"out.json"});
}

TEST_F(AtomicFileTest, OfOneThatLivesItStays) {
  AtomicFile file(folder_ / "a.json", Existing::Refuse);
  AtomicFolder folder(folder_ / "a", Existing::Refuse);
  run_killed([&] { write_file_atomically(folder_ / "b.json", "b", Existing::Refuse); });
  write_file_atomically(folder_ / "c.json", "c", Existing::Refuse);
  EXPECT_EQ(names().size(), 4u);
  file.write("a");
  file.commit();
  folder.commit();
  EXPECT_EQ(names(), (std::set<std::string>{"a", "a.json", "b.json", "c.json"}));
}

// Locks need not reach to another machine, whose temporaries have another beginning, and files of others have other
// names.
TEST_F(AtomicFileTest, OfAnotherMachineItStays) {
  const std::set<std::string> others = {".kvcal-0123456789abcdef.tmp", ".kvcal-.tmp", ".other.tmp"};
  for (const std::string& name : others) std::ofstream(folder_ / name) << "x";
  write_file_atomically(folder_ / "out", "x", Existing::Refuse);
  std::set<std::string> expected = others;
  expected.insert("out");
  EXPECT_EQ(names(), expected);
}

TEST_F(AtomicFileTest, AppearsOnlyWithCommit) {
  {
    AtomicFile file(folder_ / "out.json", Existing::Refuse);
    file.write("one ");
    file.write("two");
    EXPECT_FALSE(fs::exists(folder_ / "out.json"));
    EXPECT_EQ(names().size(), 1u);
    file.commit();
    EXPECT_EQ(content(folder_ / "out.json"), "one two");
  }
  EXPECT_EQ(names(), std::set<std::string>{"out.json"});
}

TEST_F(AtomicFileTest, WithoutCommitNothingRemains) {
  {
    AtomicFile file(folder_ / "out.json", Existing::Refuse);
    file.write("half");
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(AtomicFileTest, RefusesOrReplacesAnExistingFile) {
  const fs::path out = folder_ / "out.json";
  write_file_atomically(out, "old", Existing::Refuse);
  ::chmod(out.c_str(), 0640);
  EXPECT_EQ(message_of([&] { write_file_atomically(out, "new", Existing::Refuse); }),
            "cannot write " + quoted(out.string()) + ": it exists; use --force to replace it");
  EXPECT_EQ(content(out), "old");
  write_file_atomically(out, "new", Existing::Replace);
  EXPECT_EQ(content(out), "new");
  EXPECT_EQ(static_cast<int>(fs::status(out).permissions()), 0640) << "a replaced file keeps its permissions";
  EXPECT_EQ(names(), std::set<std::string>{"out.json"});
}

TEST_F(AtomicFileTest, RefusesATargetThatAppearedMeanwhile) {
  const fs::path out = folder_ / "out.json";
  {
    AtomicFile file(out, Existing::Refuse);
    file.write("mine");
    write_file_atomically(out, "theirs", Existing::Refuse);
    EXPECT_NE(message_of([&] { file.commit(); }).find("it appeared meanwhile"), std::string::npos);
  }
  EXPECT_EQ(content(out), "theirs");
  EXPECT_EQ(names(), std::set<std::string>{"out.json"});
}

TEST_F(AtomicFileTest, TargetsThatAreNoFiles) {
  fs::create_directory(folder_ / "sub");
  for (const Existing existing : {Existing::Refuse, Existing::Replace}) {
    EXPECT_NE(message_of([&] { AtomicFile(folder_ / "sub", existing); }).find("it is a folder"), std::string::npos);
    EXPECT_NE(message_of([&] { AtomicFile(folder_ / "sub/", existing); }).find("it names a folder"), std::string::npos);
    EXPECT_NE(message_of([&] { AtomicFile("/dev/null", existing); }).find("not a regular file"), std::string::npos);
    EXPECT_NE(message_of([&] { AtomicFile(folder_ / "none" / "x", existing); }).find("does the folder exist?"),
              std::string::npos);
  }
  EXPECT_EQ(names(), std::set<std::string>{"sub"});
}

TEST_F(AtomicFileTest, WritesThroughALink) {
  fs::create_directory(folder_ / "data");
  write_file_atomically(folder_ / "data/real.json", "old", Existing::Refuse);
  fs::create_symlink("data/real.json", folder_ / "link.json");
  fs::create_symlink("nowhere", folder_ / "dangling.json");
  write_file_atomically(folder_ / "link.json", "new", Existing::Replace);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(content(folder_ / "data/real.json"), "new");
  EXPECT_NE(message_of([&] { AtomicFile(folder_ / "dangling.json", Existing::Refuse); }).find("it exists"),
            std::string::npos);
}

TEST_F(AtomicFileTest, LongNamesNeedNoLongerTemporary) {
  const std::string name(255, 'n');
  write_file_atomically(folder_ / name, "x", Existing::Refuse);
  EXPECT_EQ(content(folder_ / name), "x");
}

TEST_F(AtomicFileTest, RelativeTargetInTheWorkingFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_atomically("plain.json", "x", Existing::Refuse);
  fs::current_path(before);
  EXPECT_EQ(content(folder_ / "plain.json"), "x");
}

TEST_F(AtomicFileTest, ReadOnlyFolder) {
  constexpr uid_t kNobody = 65534;  // root may write to read-only folders, so it becomes somebody else
  const uid_t before = ::geteuid();
  ::chmod(folder_.c_str(), 0555);
  if (before == 0 && ::seteuid(kNobody) != 0) GTEST_SKIP() << "root here may not become another user";
  const std::string text = message_of([&] { check_writable(folder_ / "x", Existing::Refuse); });
  ASSERT_EQ(::seteuid(before), 0);
  ::chmod(folder_.c_str(), 0755);
  EXPECT_NE(text.find("permission denied"), std::string::npos) << text;
}

TEST_F(AtomicFileTest, CheckLeavesNothing) {
  check_writable(folder_ / "x", Existing::Refuse);
  EXPECT_TRUE(names().empty());
}

TEST_F(AtomicFileTest, FullDisk) {
  const fs::path small = folder_ / "small";
  fs::create_directory(small);
  if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "may not mount a small file system";
  const std::string text =
      message_of([&] { write_file_atomically(small / "x", std::string(1 << 20, 'x'), Existing::Refuse); });
  EXPECT_TRUE(fs::is_empty(small));
  ::umount(small.c_str());
  EXPECT_NE(text.find("no space left on device; is the disk full?"), std::string::npos) << text;
}

// The same path as a full disk, but needs no mount: writes beyond the limit fail with EFBIG.
TEST_F(AtomicFileTest, FileSizeLimit) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text =
      message_of([&] { write_file_atomically(folder_ / "x", std::string(10000, 'x'), Existing::Refuse); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(text.find("cannot write"), std::string::npos) << text;
  EXPECT_NE(text.find("file too large"), std::string::npos) << text;
  EXPECT_TRUE(names().empty());
}

TEST_F(AtomicFileTest, SignalHandlerRemovesTemporaries) {
  AtomicFile a(folder_ / "a", Existing::Refuse), b(folder_ / "b", Existing::Refuse);
  write_file_atomically(folder_ / "done", "x", Existing::Refuse);
  EXPECT_EQ(names().size(), 3u);
  unlink_temporaries_in_signal_handler();
  EXPECT_EQ(names(), std::set<std::string>{"done"});
  EXPECT_NE(message_of([&] { a.commit(); }), "no error");
}

TEST_F(AtomicFileTest, MoreFilesThanRegistrySlots) {
  {
    std::vector<std::unique_ptr<AtomicFile>> files;
    for (int i = 0; i < 40; ++i)
      files.push_back(std::make_unique<AtomicFile>(folder_ / std::to_string(i), Existing::Refuse));
    for (auto& file : files) file->commit();
  }
  EXPECT_EQ(names().size(), 40u);
}

}  // namespace
}  // namespace kvcal
