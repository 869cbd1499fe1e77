// Every log line of the catalog as the server's own source prints it, and what terminals and containers do to lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "doctor/entry.h"
#include "doctor_fixture.h"

namespace kvcal {
namespace {

struct PrintedLine {
  std::string package, file, ids, line;
};

// Made by tests/reference/doctor/server_lines.py from the servers' packages.
std::vector<PrintedLine> printed_lines() {
  std::istringstream in(read_file(std::string(KVCAL_SOURCE_DIR "/tests/unit/data/doctor/lines.tsv"), 1 << 20));
  std::vector<PrintedLine> lines;
  std::string row;
  std::getline(in, row);  // titles
  while (std::getline(in, row)) {
    std::istringstream columns(row);
    PrintedLine p;
    std::string function;
    std::getline(columns, p.package, '\t');
    std::getline(columns, p.file, '\t');
    std::getline(columns, function, '\t');
    std::getline(columns, p.ids, '\t');
    std::getline(columns, p.line, '\t');
    lines.push_back(p);
  }
  return lines;
}

std::string ids_of(const std::map<std::string_view, Sign>& lines) {
  std::string ids;
  for (const auto& [id, sign] : lines) ids += (ids.empty() ? "" : " ") + std::string(id);
  return ids.empty() ? "-" : ids;
}

const std::string kPrefix = "(EngineCore pid=219) WARNING 05-14 10:41:43 [kv_cache.py:109] ";

TEST(DoctorLines, AreRecognisedAsTheServersPrintThem) {
  const std::vector<PrintedLine> lines = printed_lines();
  ASSERT_GT(lines.size(), 55u);
  for (const PrintedLine& p : lines)
    EXPECT_EQ(ids_of(diagnose_log(kPrefix + p.line + "\n").facts.lines), p.ids)
        << p.package << " " << p.file << ": " << p.line;
}

TEST(DoctorLines, SurviveWhatTerminalsDoToThem) {
  for (const PrintedLine& p : printed_lines()) {
    if (p.ids == "-") continue;
    std::string colored = "\x1b[33m" + kPrefix + "\x1b[0;1m", utf16, spaced;
    for (const char c : p.line) {
      colored += c == ' ' ? "\x1b[0m \x1b[1m" : std::string(1, c);
      utf16 += std::string(1, c) + std::string(1, '\0');
      spaced += c == ' ' ? " \t " : std::string(1, c);
    }
    for (const std::string& changed : {colored + "\x1b[0m\r\n", utf16, "\t" + spaced, kPrefix + p.line})
      EXPECT_EQ(ids_of(diagnose_log("x\n" + changed).facts.lines), p.ids) << p.line;
  }
}

// By the source of the rules: an option that a log does not give looks like one that was not used.
TEST(DoctorLines, GiveTheOptionsThatRulesRead) {
  std::set<std::string> options = {"dtype"};
  for (const char* file : {"state_rules.cpp", "gpu_rules.cpp"}) {
    const std::string text = read_file(std::string(KVCAL_SOURCE_DIR "/lib/doctor/") + file, 1 << 20);
    const std::regex quoted("\"([a-z0-9]+(-[a-z0-9]+)+)\"");
    for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at) options.insert((*at)[1]);
  }
  options.erase("no-enable-prefix-caching");  // printed as one that is False
  EXPECT_GT(options.size(), 30u);
  for (const std::string& option : options) {
    std::string key = option;
    std::ranges::replace(key, '-', '_');
    const Diagnosis d = diagnose_log("non-default args: {'" + key + "': 'x1'}\n");
    EXPECT_EQ(d.facts.flag_value(option), "x1") << option;
  }
}

// Of a line that is broken once, the words of its needle are found wherever the break is; " & " and " ! " need the rest
// of the line, which is why only lines of plain needles are taken.
TEST(DoctorLines, MayBeBrokenAnywhere) {
  size_t n_tested = 0;
  for (const LogLine& known : vllm_lines()) {
    if (!known.part(" & ").empty() || !known.part(" ! ").empty()) continue;
    for (const std::string_view any : needles_of(known)) {
      const std::string needle(any);
      for (size_t cut = 1; cut < needle.size(); ++cut) {
        const std::string text = "INFO " + needle.substr(0, cut) + "\r\n  " + needle.substr(cut) + " more\n";
        EXPECT_EQ(ids_of(diagnose_log(text).facts.lines), std::string(known.entry.id)) << text;
        ++n_tested;
      }
      const std::string apart = needle.substr(0, 5) + "\nINFO\n" + needle.substr(5);
      EXPECT_EQ(ids_of(diagnose_log(apart).facts.lines), "-") << apart;
    }
  }
  EXPECT_GT(n_tested, 500u);
}

TEST(DoctorLines, CountOncePerFileWithTheirRanks) {
  std::string log = "start\n";
  for (int rank = 0; rank < 8; ++rank)
    for (int i = 0; i < 2; ++i)
      log += "(Worker_TP" + std::to_string(rank) +
             "_EP0 pid=1) WARNING Using KV cache scaling factor 1.0 for fp8_e4m3. If\n";
  const Diagnosis d = diagnose_log(log);
  ASSERT_EQ(d.findings.size(), 1u);
  const Evidence& e = d.findings[0].evidence.at(0);
  EXPECT_EQ(d.findings[0].evidence.size(), 1u);
  EXPECT_EQ(e.line, 2u);
  EXPECT_EQ(e.count, 16u);
  EXPECT_EQ(e.n_ranks, 8u);
  EXPECT_EQ(e.file, "server.log");
}

TEST(DoctorLines, OfAnyLengthAreCutAndStillFound) {
  const std::string needle = "V cache quantization requires flash_attn";
  for (const size_t before : {0u, 16370u, 16384u, 100000u}) {
    const Diagnosis d = diagnose_log(std::string(before, 'x') + needle + std::string(50000, 'y'));
    ASSERT_EQ(d.findings.size(), 1u) << before;
    EXPECT_EQ(d.findings[0].evidence.at(0).line, 1u);
    EXPECT_LT(d.findings[0].evidence.at(0).text.size(), 200u);
  }
  EXPECT_EQ(diagnose_log(needle + "\n" + needle).inputs.at(0).n_lines, 2u);
}

TEST(DoctorLines, EveryEntryIsComplete) {
  std::map<std::string_view, std::string_view> meanings;
  for (const auto table : {vllm_lines(), vllm_load_lines(), sglang_lines(), other_lines()})
    for (const LogLine& line : table) {
      EXPECT_FALSE(line.pattern.empty() || line.entry.id.empty() || line.entry.meaning.empty() ||
                   line.entry.source.empty())
          << line.entry.id;
      EXPECT_EQ(line.pattern.find("  "), std::string_view::npos) << line.pattern;
      if (line.entry.severity == Severity::Note)
        EXPECT_EQ(line.entry.weight, 0) << line.entry.id;
      else
        EXPECT_FALSE(line.entry.fix.empty() || line.entry.cause == Cause::None || line.entry.weight < 1)
            << line.entry.id;
    }
}

}  // namespace
}  // namespace kvcal
