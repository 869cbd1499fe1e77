// Which files no output may replace.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/atomic_file.h"
#include "base/input_files.h"
#include "base/kept_file.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class KeptFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("kvcal kept " + std::to_string(::getpid()));
    fs::create_directories(folder_ / "model" / "original");
    put("model/config.json", R"({"model_type": "llama"})");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  bool kept(const std::string& name, const std::string& text) const {
    put(name, text);
    return !why_kept(folder_ / name).empty();
  }

  fs::path folder_;
};

std::string safetensors(const std::string& header) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header;
}

constexpr const char* kScales = R"({"format": "kv-cache-scales"})";

TEST_F(KeptFileTest, OfAModelByItsContent) {
  EXPECT_TRUE(kept("anything", "GGUF\x03"));
  EXPECT_TRUE(kept("anything", R"({"model_type": "llama"})"));
  EXPECT_FALSE(kept("anything", "notes"));
  EXPECT_FALSE(kept("anything", kScales));
  EXPECT_EQ(why_kept(folder_ / "nothing"), "");
  EXPECT_EQ(why_kept(folder_), "");
}

TEST_F(KeptFileTest, InAModelsFolder) {
  for (const std::string folder : {"model/", "model/original/"}) {
    EXPECT_TRUE(kept(folder + "tokenizer.model", "x"));
    EXPECT_TRUE(kept(folder + "empty", ""));
    EXPECT_TRUE(kept(folder + "kvcal-export.json", R"({"format": "kvcal-export"})"));
    EXPECT_FALSE(kept(folder + "tokenizer.model", kScales));
  }
  EXPECT_FALSE(kept("notes", "x"));
  fs::create_directories(folder_ / "model/original/deep");
  EXPECT_FALSE(kept("model/original/deep/notes", "x"));
}

TEST_F(KeptFileTest, BesideWeightsWithoutAConfig) {
  fs::create_directories(folder_ / "parts");
  put("parts/run.safetensors", safetensors(R"({"__metadata__": {"kvcal": "{}"}})"));
  EXPECT_FALSE(kept("parts/notes", "x"));
  put("parts/model.safetensors", safetensors(R"({"w": {}})"));
  EXPECT_TRUE(kept("parts/notes", "x"));
  EXPECT_FALSE(kept("notes", "x"));
}

// A damaged state of a run that is to go on, in a model's folder.
TEST_F(KeptFileTest, NotWhereThisProgramWorks) {
  fs::create_directories(folder_ / "model/s.json.kvcal-resume");
  EXPECT_FALSE(kept("model/s.json.kvcal-resume/a.kvresume", "damaged"));
}

TEST_F(KeptFileTest, NoLinkLeadsToThem) {
  const InputFiles inputs;
  put("model/vocab.txt", "x");
  put("notes", "x");
  fs::create_symlink("model/vocab.txt", folder_ / "out");
  fs::create_symlink("../notes", folder_ / "model/in");
  for (const char* name : {"out", "model/in", "model/vocab.txt"})
    EXPECT_NE(message_of([&] {
                write_file_atomically(folder_ / name, kScales, Existing::Replace);
              }).find("--force replaces only kvcal's own files there; choose another name"),
              std::string::npos)
        << name;
  EXPECT_EQ(message_of([&] { write_file_atomically(folder_ / "notes", kScales, Existing::Replace); }), "no error");
  EXPECT_EQ(message_of([&] { write_file_atomically(folder_ / "model/new", kScales, Existing::Replace); }), "no error");
  EXPECT_EQ(message_of([&] { write_file_atomically(folder_ / "model/new", kScales, Existing::Replace); }), "no error");
}

}  // namespace
}  // namespace kvcal
