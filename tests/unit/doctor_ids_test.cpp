// An id means one thing wherever the program says it: in validate's rules, in the doctor's, in its log lines.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "base/read_file.h"
#include "check/rules.h"
#include "doctor/diagnose.h"
#include "doctor/lines.h"
#include "doctor/rules.h"

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

/// Words of the inputs and expectations of all cases.
std::set<std::string> words_of_cases() {
  std::set<std::string> words;
  const std::filesystem::path folder = KVCAL_SOURCE_DIR "/tests/unit/data/doctor";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::string word;
    for (const char c : read_file(entry.path(), size_t{4} << 20) + " ") {
      if (c > ' ' && c != ',') {
        word += c;
        continue;
      }
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

TEST(Ids, OfTheDoctorHaveAReproductionEach) {
  const std::set<std::string> words = words_of_cases();
  for (const Json& entry : catalog_json()) {
    const std::string id = get_string(entry, "id", "");
    EXPECT_TRUE(words.contains(id)) << id;
  }
}

}  // namespace
}  // namespace kvcal
