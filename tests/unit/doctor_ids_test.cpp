// An id means one thing wherever the program says it: in validate's rules, in the doctor's, in its log lines.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "base/read_file.h"
#include "check/rules.h"
#include "doctor/diagnose.h"
#include "doctor/entry.h"
#include "doctor/rules.h"
#include "doctor_fixture.h"
#include "unit/validate_folder_cases.h"

namespace kvcal {
namespace {

class Meanings {
 public:
  void add(std::string_view id, Severity severity, std::string_view title) {
    const std::string meaning = std::string(name_of(severity)) + ": " + std::string(title);
    const auto [first, is_new] = of_.try_emplace(std::string(id), meaning);
    EXPECT_EQ(first->second, meaning) << id;
  }
  size_t count() const { return of_.size(); }

 private:
  std::map<std::string, std::string> of_;
};

TEST(Ids, HaveOneTitleAndOneSeverity) {
  Meanings meanings;
  for (const Rule& rule : rules()) meanings.add(rule.id, rule.severity, rule.meaning);
  EXPECT_EQ(meanings.count(), rules().size()) << "each rule has an id of its own";
  for (const auto group : rule_tables())
    for (const CombinationRule& rule : group) meanings.add(rule.entry.id, rule.entry.severity, rule.entry.meaning);
  for (const auto group : {vllm_lines(), vllm_load_lines(), sglang_lines(), other_lines()})
    for (const LogLine& line : group) meanings.add(line.entry.id, line.entry.severity, line.entry.meaning);
  EXPECT_GT(meanings.count(), 200u);
}

std::filesystem::path data() { return KVCAL_SOURCE_DIR "/tests/unit/data/doctor"; }

/// What cases and reports expect to be said: the words of their sections "findings" and "notes".
void take_expectations(const std::filesystem::path& file, std::set<std::string>& ids) {
  std::istringstream lines(read_file(file, size_t{4} << 20));
  bool expected = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("== ") || line.starts_with("#### ")) {
      expected = line == "== findings" || line == "== notes";
    } else if (expected) {
      for (std::string& id : words_of(line)) ids.insert(std::move(id));
    }
  }
}

/// Servers' own lines, with the ids that they must give.
void take_ids_of_lines(std::set<std::string>& ids) {
  std::istringstream lines(read_file(data() / "lines.tsv", size_t{4} << 20));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 4; ++i) std::getline(fields, field, '\t');
    std::ranges::replace(field, ',', ' ');
    for (std::string& id : words_of(field)) ids.insert(std::move(id));
  }
}

TEST(Ids, OfTheDoctorHaveAReproductionEach) {
  std::set<std::string> ids;
  for (const char* folder : {"cases", "reports"})
    for (const auto& entry : std::filesystem::directory_iterator(data() / folder)) take_expectations(entry.path(), ids);
  take_ids_of_lines(ids);
  ids.merge(errors_of_folders());
  for (const Json& entry : catalog_json()) {
    const std::string id = get_string(entry, "id", "");
    EXPECT_TRUE(ids.contains(id)) << id;
  }
}

}  // namespace
}  // namespace kvcal
