// The parts of apps/ that need no process of their own: tables, the status line, devices, unknown names.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "command_line.h"
#include "device.h"
#include "harness/message_of.h"
#include "progress.h"
#include "signals.h"
#include "table.h"

namespace kvcal {
namespace {

TEST(Table, AlignsColumnsAndLeavesNoSpacesAtLineEnds) {
  Table table({{"layer", Table::Align::Right}, {"kind"}, {"bytes", Table::Align::Right}, {"note"}});
  table.add_row({"3", "attention", "1024", ""});
  table.add_row({"10", "mla", "9", "shared"});
  EXPECT_EQ(table.text().text(),
            "layer  kind       bytes  note\n"
            "    3  attention   1024\n"
            "   10  mla            9  shared\n");
}

TEST(Table, CountsColumnsOfTheTerminalNotBytes) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);  // combining accent
  EXPECT_EQ(display_width("日本"), 4);
  EXPECT_EQ(display_width("\xFF"), 1);  // no UTF-8
  Table table({{"a"}, {"b"}});
  table.add_row({"日本", "x"});
  table.add_row({"abcd", "y"});
  EXPECT_EQ(table.text().text(), "a     b\n日本  x\nabcd  y\n");
}

TEST(Table, CutsAtCharacters) {
  EXPECT_EQ(cut_to_width("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_width("abcdefg", 6), "abcde…");
  EXPECT_EQ(cut_to_width("日本語", 4), "日…");
  EXPECT_EQ(cut_to_width("ab", 0), "");
}

// 1,000 tokens through 4 layers: a quarter of the work is 250 tokens through all of them.
SweepOutline thousand_tokens(int64_t work_done = 0) {
  return {{{"pass 1", 2, 600}, {"sanity", 1, 400}}, 4000, work_done};
}

TEST(StatusLine, SaysWhereHowFastAndHowLong) {
  const Status status = status_of(thousand_tokens(), {2, 24, 100}, 1000, 10.0);
  EXPECT_EQ(status_line(status, 80), "layer 3/24 · 25 % · 25 tokens/s · 0:30 left");
  EXPECT_EQ(status_line(status, 14), "layer 3/24 · …");
  EXPECT_EQ(status_line(status_of(thousand_tokens(), {0, 24, 100}, 100, 0.5), 80), "layer 1/24 · 2 %");
}

TEST(StatusLine, OfAResumedRunCountsWhatThisOneDid) {
  const Status status = status_of(thousand_tokens(2000), {2, 4, 100}, 3000, 10.0);
  EXPECT_EQ(status_line(status, 80), "layer 3/4 · 75 % · 25 tokens/s · 0:10 left");
}

TEST(Progress, AsJson) {
  const Status status = status_of(thousand_tokens(), {2, 24, 100}, 1000, 10.0);
  EXPECT_EQ(status_json(status, 2).dump(),
            R"({"event":"progress","sweep":2,"layer":3,"n_layers":24,"done":0.25,"seconds":10.0,)"
            R"("tokens_per_second":25.0,"seconds_left":30.0})");
  const Status early = status_of(thousand_tokens(), {0, 24, 100}, 100, 0.5);
  EXPECT_EQ(status_json(early, 1)["seconds_left"], Json());
  EXPECT_EQ(status_json(early, 1)["tokens_per_second"], Json());
}

TEST(Progress, HasThreeForms) {
  EXPECT_EQ(progress_form("json"), ProgressForm::JsonLines);
  EXPECT_EQ(progress_form("auto"), ProgressForm::Line);
  EXPECT_NE(message_of([] { progress_form("yes"); }).find("known: auto, json, none"), std::string::npos);
}

TEST(StatusLine, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.2), "1:00");
  EXPECT_EQ(duration_text(3725), "1:02:05");
}

TEST(Device, CpuIsAlwaysThere) {
  EXPECT_NE(open_device("cpu", Precision::F32, 1), nullptr);
  EXPECT_NE(open_device("auto", Precision::BF16, 1), nullptr);
}

TEST(Device, NamesWhatIsMissing) {
  EXPECT_NE(message_of([] { open_device("cuda:1", Precision::BF16, 1); }).find("built without CUDA"),
            std::string::npos);
  EXPECT_NE(message_of([] { open_device("cudo", Precision::BF16, 1); }).find("did you mean 'cuda'"), std::string::npos);
  EXPECT_NE(message_of([] { open_device("cuda:x", Precision::BF16, 1); }).find("unknown device"), std::string::npos);
}

// A page of a mapped file that is gone by the time it is read: nothing can check that before.
TEST(Signals, AMappedFileThatIsCutShortIsOneErrorLine) {
  const auto read_what_is_gone = [] {
    handle_signals();
    std::string path = std::filesystem::temp_directory_path() / "kvcal_cut_XXXXXX";
    const int fd = mkstemp(path.data());
    if (fd < 0 || ftruncate(fd, 1 << 20) != 0) std::exit(3);
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.range(0, 1 << 20, 1);
    if (!file.is_mapped() || ftruncate(fd, 10) != 0 || unlink(path.c_str()) != 0) std::exit(4);
    std::exit(static_cast<int>(bytes[1 << 19]));
  };
  EXPECT_EXIT(
      read_what_is_gone(), testing::ExitedWithCode(2),
      "^kvcal: error: '.*/kvcal_cut_.*': part of it can no longer be read: it was truncated while in use[^\n]*\n$");
}

TEST(CommandLine, ParsingOpensNothing) {
  const char* argv[] = {"kvcal", "prompts", "no/such/model"};
  EXPECT_TRUE(parse_command_line(3, argv));
}

}  // namespace
}  // namespace kvcal
