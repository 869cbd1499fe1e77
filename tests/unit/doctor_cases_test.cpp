// Composed cases: inputs, the findings they must give, and the explanation on top.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "doctor/rules.h"
#include "doctor_fixture.h"
#include "unit/validate_folder_cases.h"

namespace kvcal {
namespace {

const std::filesystem::path kCases = KVCAL_SOURCE_DIR "/tests/unit/data/doctor/cases";

struct Case {
  std::string name;
  Sections sections;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

/// A file has many: each begins with a line "#### NAME".
std::vector<Case> cases_of(const std::filesystem::path& file) {
  constexpr std::string_view kBegin = "#### ";
  std::vector<Case> cases;
  std::istringstream in(read_file(file, 1 << 20));
  std::string text;
  const auto finish = [&] {
    if (!cases.empty()) cases.back().sections = sections_of(text);
    text.clear();
  };
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kBegin)) {
      text += line + "\n";
      continue;
    }
    finish();
    cases.push_back({line.substr(kBegin.size()), {}});
  }
  finish();
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& entry : std::filesystem::directory_iterator(kCases))
    for (Case& one : cases_of(entry.path())) all.push_back(std::move(one));
  std::sort(all.begin(), all.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return all;
}

// A folder as a checkpoint: config.json, and tensors where the case has some.
void write_checkpoint(const std::filesystem::path& folder, const Sections& sections) {
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_text(folder / "config.json", sections.at("config"));
  if (sections.contains("generation")) write_text(folder / "generation_config.json", sections.at("generation"));
  if (!sections.contains("tensors")) return;
  if (sections.contains("fold")) write_text(folder / "kvcal-fold.json", sections.at("fold"));
  write_text(folder / "model.safetensors", safetensors_of(sections.at("tensors")));
  if (!sections.contains("unlisted")) return;
  write_text(folder / "extra.safetensors", safetensors_of(sections.at("unlisted")));
  Json map = Json::object();
  std::istringstream in(sections.at("tensors"));
  for (std::string line; std::getline(in, line);) map[line.substr(0, line.find(' '))] = "model.safetensors";
  write_text(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump());
}

Diagnosis run_case(const Sections& sections, const std::filesystem::path& scratch) {
  Doctor doctor;
  if (sections.contains("server")) doctor.add_server(parse_engine(words_of(sections.at("server")).at(0)));
  if (sections.contains("installed"))
    doctor.add_installed(installed_server(Json::parse(sections.at("installed")), "python3", {}));
  if (sections.contains("gpu")) {
    std::string name = sections.at("gpu");
    name.pop_back();
    doctor.add_gpu(name);
  }
  for (const char* name : {"command", "command2"})
    if (sections.contains(name)) doctor.add_command(name, sections.at(name));
  if (sections.contains("config")) {
    write_checkpoint(scratch / "model", sections);
    const bool folder = sections.contains("tensors");
    doctor.add_checkpoint(folder ? scratch / "model" : scratch / "model" / "config.json");
  }
  if (sections.contains("adapter")) {
    write_text(scratch / "adapter_config.json", sections.at("adapter"));
    doctor.add_adapter(scratch);
  }
  if (sections.contains("scales")) {
    write_text(scratch / "scales.json", sections.at("scales"));
    doctor.add_scale_file(scratch / "scales.json");
  }
  if (sections.contains("log")) doctor.add_log("server.log", reading(sections.at("log")));
  if (sections.contains("log2")) doctor.add_log("later.log", reading(sections.at("log2")));
  for (const char* name : {"output", "output2"})
    if (sections.contains(name)) doctor.add_output(name, sections.at(name));
  return doctor.diagnose();
}

std::vector<std::string> sorted_ids(const std::vector<Sign>& signs) {
  std::vector<std::string> ids;
  for (const Sign& sign : signs) ids.emplace_back(sign.entry->id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

class DoctorCase : public testing::TestWithParam<Case> {};

TEST_P(DoctorCase, HasItsFindingsAndItsExplanation) {
  const Sections& sections = GetParam().sections;
  const std::filesystem::path scratch = std::filesystem::path(testing::TempDir()) / ("doctor_" + GetParam().name);
  std::filesystem::create_directories(scratch);
  const Diagnosis d = run_case(sections, scratch);
  std::vector<std::string> expected = words_of(sections.at("findings"));
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(joined(sorted_ids(d.findings)), joined(expected)) << diagnosis_text(d).text();
  const std::string top = d.explanations.empty() ? "none" : std::string(name_of(d.explanations.front().cause));
  EXPECT_EQ(top, words_of(sections.at("top")).at(0)) << diagnosis_text(d).text();
  if (sections.contains("notes"))
    for (const std::string& id : words_of(sections.at("notes"))) {
      const std::vector<std::string> notes = sorted_ids(d.notes);
      EXPECT_NE(std::find(notes.begin(), notes.end(), id), notes.end()) << id << "\n" << diagnosis_text(d).text();
    }
  if (sections.contains("absent"))
    for (const std::string& id : words_of(sections.at("absent"))) {
      const std::vector<std::string> notes = sorted_ids(d.notes);
      EXPECT_EQ(std::find(notes.begin(), notes.end(), id), notes.end()) << id << "\n" << diagnosis_text(d).text();
    }
  const std::string text = diagnosis_text(d).text();
  for (const char* name : {"says", "says not"}) {
    std::istringstream lines(sections.contains(name) ? sections.at(name) : "");
    for (std::string line; std::getline(lines, line);)
      EXPECT_EQ(text.find(line) != std::string::npos, name == std::string("says")) << line << "\n" << text;
  }
  std::filesystem::remove_all(scratch);
}

INSTANTIATE_TEST_SUITE_P(All, DoctorCase, testing::ValuesIn(all_cases()),
                         [](const auto& tested) { return tested.param.name; });

TEST(DoctorCases, AreMany) {
  const std::vector<Case> cases = all_cases();
  EXPECT_GE(cases.size(), 200u);
  const auto clean = std::ranges::count_if(cases, [](const Case& c) { return c.name.starts_with("clean_"); });
  EXPECT_GE(clean, 80);
}

TEST(DoctorCases, HaveEveryRule) {
  std::set<std::string> seen = errors_of_folders();
  for (const auto& [case_name, sections] : all_cases()) {
    for (const char* name : {"findings", "notes"})
      if (sections.contains(name))
        for (const std::string& id : words_of(sections.at(name))) seen.insert(id);
  }
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules) EXPECT_TRUE(seen.contains(std::string(rule.entry.id))) << rule.entry.id;
}

}  // namespace
}  // namespace kvcal
