// Outputs never replace what was read, and nothing is made of files that changed.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/atomic_file.h"
#include "base/atomic_folder.h"
#include "base/input_files.h"
#include "base/read_file.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class InputFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("kvcal inputs " + std::to_string(::getpid()));
    fs::create_directories(folder_ / "model");
    put("model/config.json", "{}");
    put("prompts.jsonl", "one");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string read(const std::string& name) const { return read_file(folder_ / name, 1 << 20); }
  void write(const std::string& name) const { write_file_atomically(folder_ / name, "output", Existing::Replace); }

  static bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

  fs::path folder_;
};

TEST_F(InputFilesTest, OutputsDoNotReplaceThemUnderAnyName) {
  const InputFiles inputs;
  read("prompts.jsonl");
  fs::create_symlink("prompts.jsonl", folder_ / "symbolic");
  fs::create_hard_link(folder_ / "prompts.jsonl", folder_ / "hard");
  fs::create_directory_symlink(folder_, folder_ / "loop");
  for (const char* name : {"prompts.jsonl", "./prompts.jsonl", "symbolic", "hard", "loop/prompts.jsonl"}) {
    EXPECT_TRUE(has(message_of([&] { write(name); }), "it is a file that this command reads")) << name;
    EXPECT_TRUE(has(message_of([&] { check_writable(folder_ / name, Existing::Replace); }), "reads")) << name;
  }
  EXPECT_EQ(read("prompts.jsonl"), "one");
  write("other");
  EXPECT_EQ(read("other"), "output");
}

TEST_F(InputFilesTest, AreForgottenWhereTheyAreReadToBeReplaced) {
  const InputFiles inputs;
  read("prompts.jsonl");
  forget_input(folder_ / "prompts.jsonl");
  write("prompts.jsonl");
  EXPECT_EQ(read("prompts.jsonl"), "output");
}

// The next result is of another checkpoint, and of the same prompts.
TEST_F(InputFilesTest, OfACheckpointAreForgottenTogether) {
  const InputFiles inputs;
  note_input_folder(folder_ / "model/");
  read("model/config.json");
  read("prompts.jsonl");
  put("model/config.json", "longer");
  put("prompts.jsonl", "longer");
  forget_inputs();
  check_inputs_unchanged();
  EXPECT_EQ(read("model/config.json"), "longer");
  EXPECT_TRUE(has(message_of([&] { read("prompts.jsonl"); }), "had 3 bytes"));
}

TEST_F(InputFilesTest, WithoutARecordNothingIsRefused) {
  read("prompts.jsonl");
  write("prompts.jsonl");
  check_inputs_unchanged();
}

// A file of a model counts as long as the command runs, whether it is read again or not.
TEST_F(InputFilesTest, OfAModelMayNotChange) {
  const auto changed = [&](auto change) {
    const InputFiles inputs;
    note_input_folder(folder_ / "model/");
    put("model/config.json", "{}");
    read("model/config.json");
    check_inputs_unchanged();
    change();
    const std::string text = message_of([&] { check_inputs_unchanged(); });
    EXPECT_EQ(message_of([&] { write("out"); }), text);
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    EXPECT_EQ(message_of([&] { AtomicFolder(folder_ / "out", Existing::Refuse).commit(); }), text);
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    return text;
  };
  EXPECT_TRUE(
      has(changed([&] { put("model/config.json", "longer"); }), "had 2 bytes when it was opened, and has 6 now"));
  EXPECT_TRUE(has(changed([&] {
                    usleep(20'000);  // longer than the clock of a file system stands still
                    put("model/config.json", "[]");
                  }),
                  "was written to"));
  EXPECT_TRUE(has(changed([&] {
                    put("model/new", "{}");
                    fs::rename(folder_ / "model/new", folder_ / "model/config.json");
                  }),
                  "was replaced by another file"));
}

// What makes no difference to its content.
TEST_F(InputFilesTest, OfAModelMayBeLinkedAndDeleted) {
  const InputFiles inputs;
  note_input_folder(folder_ / "model");
  read("model/config.json");
  fs::create_hard_link(folder_ / "model/config.json", folder_ / "linked");
  fs::permissions(folder_ / "model/config.json", fs::perms::owner_read);
  check_inputs_unchanged();
  fs::remove(folder_ / "model/config.json");
  check_inputs_unchanged();
}

// Prompts were read whole; to read them again would mix two contents.
TEST_F(InputFilesTest, ReadOnceMayChangeUntilTheyAreReadAgain) {
  const InputFiles inputs;
  read("prompts.jsonl");
  put("prompts.jsonl", "other");
  check_inputs_unchanged();
  EXPECT_TRUE(has(message_of([&] { read("prompts.jsonl"); }), "had 3 bytes"));
}

TEST_F(InputFilesTest, InAFolderAreFound) {
  const InputFiles inputs;
  EXPECT_FALSE(input_within(folder_ / "model"));
  read("prompts.jsonl");
  EXPECT_FALSE(input_within(folder_ / "model"));
  read("model/config.json");
  EXPECT_EQ(input_within(folder_ / "model"), (folder_ / "model/config.json").string());
}

}  // namespace
}  // namespace kvcal
