// The parts of apps/ that need no process of their own: tables, the status line, devices, unknown names.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "base/error.h"
#include "checkpoint/mapped_file.h"
#include "command_line.h"
#include "device.h"
#include "harness/message_of.h"
#include "paint.h"
#include "progress.h"
#include "signals.h"
#include "table.h"
#include "terminal.h"

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

TEST(Table, GivesUpItsLeastColumnsFirst) {
  using enum Table::Align;
  Table table(
      {{"layer", Right}, {"site"}, {"often", Right, 2}, {"never", Right, 5}, {"number", Right}, {"seldom", Right, 2}},
      2);
  table.add_row({"3", "key", "1", "2", "1234567890", "4"});
  EXPECT_EQ(table.text(48).text(),
            "layer  site  often  never      number  seldom\n    3  key       1      2  1234567890       4\n");
  EXPECT_EQ(table.text(44).text(), "layer  site  often      number  seldom\n    3  key       1  1234567890       4\n");
  EXPECT_EQ(table.text(37).text(), "layer  site  often      number\n    3  key       1  1234567890\n");
  EXPECT_EQ(table.text(25).text(), "layer  site      number\n    3  key   1234567890\n");
}

TEST(Table, CutsTextAndGoesOnBelowButKeepsNumbersWhole) {
  using enum Table::Align;
  Table table({{"layer", Right}, {"name"}, {"one", Right}, {"two", Right}}, 2);
  table.add_row({"3", "a rather long name", "1234567890", "9876543210"});
  EXPECT_EQ(table.text(43).text(),
            "layer  name                 one         two\n    3  a rather lo…  1234567890  9876543210\n");
  EXPECT_EQ(table.text(40).text(),
            "layer  name                 one\n    3  a rather lo…  1234567890\n\n"
            "layer  name                 two\n    3  a rather lo…  9876543210\n");
}

// Whatever a table has: keys as those of the program, then numbers and text of any length.
Table random_table(std::mt19937& engine, std::vector<std::string>& numbers) {
  using enum Table::Align;
  const auto upto = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n)(engine); };
  std::vector<Table::Column> columns = {{"layer", Right}, {"site"}, {"head", Right}};
  columns.resize(1 + upto(2));
  const size_t n_keys = columns.size();
  for (size_t more = upto(11); more > 0; --more)
    columns.push_back({std::string(1 + upto(30), 't'), upto(2) ? Right : Left, static_cast<int>(upto(3))});
  Table table(columns, n_keys);
  for (size_t row = 0; row < 4; ++row) {
    std::vector<std::string> cells = {std::to_string(upto(999)), std::string(upto(60), 'k'), std::to_string(upto(999))};
    cells.resize(n_keys);
    for (size_t c = n_keys; c < columns.size(); ++c) {
      std::string wide;
      for (size_t n = upto(40); n > 0; --n) wide += upto(1) ? "日" : "x";
      cells.push_back(columns[c].align == Left ? wide : std::string(upto(12), '8'));
      if (columns[c].align == Right && columns[c].spare == 0) numbers.push_back(cells.back());
    }
    table.add_row(cells);
  }
  return table;
}

TEST(Table, NeverExceedsTheWidth) {
  std::mt19937 engine(5);
  for (int n = 0; n < 60; ++n) {
    std::vector<std::string> numbers;
    const Table table = random_table(engine, numbers);
    for (int width = 40; width <= 200; ++width) {
      std::istringstream lines(table.text(width).text());
      for (std::string line; std::getline(lines, line);)
        ASSERT_LE(display_width(line), width) << table.text(width).text();
      for (const std::string& number : numbers)
        ASSERT_NE(table.text(width).text().find(number), std::string::npos) << number << " at " << width;
    }
  }
}

TEST(Paint, BreaksSentencesButNoCommandAndNoTable) {
  EXPECT_EQ(wrapped_sentences("one two three four\n", 10), "one two\n  three\n  four\n");
  EXPECT_EQ(wrapped_sentences("  kvcal export a b c d\na  b  c  d  e  f\n", 10),
            "  kvcal export a b c d\na  b  c  d  e  f\n");
  EXPECT_EQ(wrapped_sentences("averyverylongword short\n", 10), "averyverylongword\n  short\n");
  EXPECT_EQ(wrapped_sentences("日本 日本 日本\n", 9), "日本 日本\n  日本\n");
}

TEST(Paint, PutsFurtherLinesBelowTheTextOfALabel) {
  EXPECT_EQ(wrapped_sentences("fold:   one two three four\n", 16), "fold:   one two\n        three\n        four\n");
  EXPECT_EQ(wrapped_sentences("  fix: one two three\n", 14), "  fix: one two\n    three\n");
  EXPECT_EQ(wrapped_sentences("  python3 -m x: one two three\n", 14), "  python3 -m x: one two three\n");
}

TEST(Paint, KnowsAnswersFromOtherWords) {
  EXPECT_EQ(painted_answers("    3  key  needed  keep16\n"),
            "    3  key  \x1b[36mneeded\x1b[0m  \x1b[1;31mkeep16\x1b[0m\n");
  EXPECT_EQ(painted_answers("keep16: it is needed, check it\n"), "\x1b[1;31mkeep16\x1b[0m: it is needed, check it\n");
  EXPECT_EQ(painted_answers("error S14 a: error S14\nerror in a\nwarning E15: x\n"),
            "\x1b[1;31merror\x1b[0m S14 a: error S14\nerror in a\n\x1b[33mwarning\x1b[0m E15: x\n");
  EXPECT_EQ(painted_answers("s.json: NOT valid, 1 error\nNOT valid\n"),
            "s.json: \x1b[1;31mNOT valid\x1b[0m, 1 error\nNOT valid\n");
  EXPECT_EQ(painted_messages("kvcal: error: no\nerror: no\n"), "kvcal: \x1b[1;31merror:\x1b[0m no\nerror: no\n");
}

TEST(OutputColumns, FollowTheEnvironment) {
  for (const auto& [text, columns] : std::map<std::string, int>{
           {"120", 120}, {"40", 40}, {"1", 40}, {"0", 80}, {"", 80}, {"-5", 80}, {"wide", 80}, {"99999999999", 80}}) {
    setenv("COLUMNS", text.c_str(), 1);
    EXPECT_EQ(output_columns(), columns) << text;
  }
  unsetenv("COLUMNS");
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
