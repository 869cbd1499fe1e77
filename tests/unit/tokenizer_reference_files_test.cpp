// Goldens that are no tokenizer.json: what the files beside it add, and normal forms of marks of every age.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tokenizer/regex.h"
#include "tokenizer/tokenizer.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(KVCAL_SOURCE_DIR) / "tests/unit/data/text";

fs::path write_folder(const Json& golden) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvcal_text_folder_golden";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Json structure = read_json_file(kData / ("tokenizer_" + golden["structure"].get<std::string>() + ".json"));
  std::ofstream(folder / "tokenizer.json") << structure["tokenizer"].dump();
  for (const auto& [name, content] : golden["files"].items()) std::ofstream(folder / name) << content.dump();
  return folder;
}

TEST(TokenizerFolder, FilesBesideTokenizerJsonCountAsInTheReference) {
  const Json golden = read_json_file(kData / "folders.json");
  size_t n = 0;
  for (const Json& c : golden["cases"]) {
    const fs::path folder = write_folder(c);
    const Tokenizer t = Tokenizer::load(folder);
    for (const Json& row : c["rows"]) {
      const std::string text = row[0];
      EXPECT_EQ(Json(t.encode(text, true).ids), row[1]) << c["name"] << ": " << row[0];
      EXPECT_EQ(Json(t.encode(text, false).ids), row[2]) << c["name"] << ": " << row[0];
      ++n;
    }
    for (const auto& [name, token] : c["special_tokens"].items())
      EXPECT_EQ(Json(t.special_tokens().at(name)), token) << c["name"];
    fs::remove_all(folder);
  }
  EXPECT_GT(n, 300u);
}

TEST(NormalForms, KnowNoMarksThatTheReferenceDoesNotKnow) {
  const Json golden = read_json_file(kData / "normal_forms.json");
  const std::pair<const char*, NormalForm> forms[] = {
      {"NFC", NormalForm::NFC}, {"NFD", NormalForm::NFD}, {"NFKC", NormalForm::NFKC}, {"NFKD", NormalForm::NFKD}};
  for (const Json& c : golden["cases"])
    for (const auto& [name, form] : forms)
      EXPECT_EQ(to_normal_form(c["text"].get<std::string>(), form), c[name].get<std::string>()) << name << c["text"];
  EXPECT_GT(golden["cases"].size(), 100u);
}

TEST(Regex, ClassesHoldWhatTheReferenceHolds) {
  const Json golden = read_json_file(kData / "regex_classes.json");
  for (const Json& c : golden["cases"]) {
    const Regex regex(c["pattern"].get<std::string>());
    std::string matched;
    Allowance allowance(0);
    for (char32_t code : to_code_points(golden["characters"].get<std::string>())) {
      const std::string character = from_code_points(std::u32string(1, code));
      if (!regex.find_all(character, allowance).empty()) matched += character;
    }
    EXPECT_EQ(matched, c["matched"].get<std::string>()) << c["pattern"];
  }
  EXPECT_GT(golden["cases"].size(), 15u);
}

}  // namespace
}  // namespace kvcal
