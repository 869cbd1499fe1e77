// What a file is, told by its first bytes, whatever they are.
#include <gtest/gtest.h>

#include <fstream>

#include "base/file_kind.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

using enum FileKind;

std::string safetensors(const std::string& header) {
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size() & 0xFF);
  bytes[1] = static_cast<char>(header.size() >> 8);
  return bytes + header;
}

TEST(FileKind, OfEveryKind) {
  const std::pair<std::string, FileKind> cases[] = {
      {R"({"format": "kv-cache-scales", "model_type": "llama"})", ScaleFile},
      {R"({"calibration": {"format": "x"}, "format": "kv-cache-scales"})", ScaleFile},
      {R"({"$schema": "kv-cache-scales.v1.schema.json", "format": "kv-cache-scalez"})", ScaleFile},
      {R"({"format": "kv-cache-scales", "layers": [{"ke)", ScaleFile},
      {R"({"format": "kv-cache-evaluation"})", Evaluation},
      {R"({"answers": [{"text": "{\"format\": 1}"}], "$schema": "evaluation.v1.schema.json"})", Evaluation},
      {R"({"format": "kvcal-export"})", ExportRecord},
      {R"({"format": "kvcal-fold"})", FoldRecord},
      {R"({"findings": [], "evaluated": []})", ValidateReport},
      {R"({"$schema": "https://json.schemastore.org/sarif-2.1.0.json"})", ValidateReport},
      {"\xEF\xBB\xBF \n{\"messages\": []}\n{broken", Prompts},
      {R"([{"text": "a"}, {"format": "kv-cache-scales"}])", Prompts},
      {R"({"id": "a", "input_ids": [1, 2]})", Prompts},
      {R"({"conversations": []})", Prompts},
      {R"({"model": "m", "messages": []})", Unknown},
      {R"({"text": "a", "record": {}})", Unknown},
      {R"({"architectures": ["LlamaForCausalLM"]})", Config},
      {R"({"model_type": "llama", "kv_cache": {}})", SglangScales},
      {R"({"convention": "x", "model_type": "llama", "modules": {}})", PlainScales},
      {R"({"architectures": "LlamaForCausalLM", "quant_type": "per_head", "num_layers": 1})", LightllmScales},
      {R"({"qmax": 448.0, "layer_ids": [0], "scales": {"k_sc)", OrtGenaiScales},
      {R"({"architectures": ["X"], "kv_cache": {}})", Config},
      {R"({"architecture": "X", "model_type": "llama", "kv_bytes_per_token": 1})", CommandOutput},
      {R"({"format": "kvcal-stats"})", CommandOutput},
      {R"({"format": "kvcal-fold", "bytes_rewritten": 1})", CommandOutput},
      {R"([{"id": "D01", "does_not_prove": ""}])", CommandOutput},
      {R"({"version": "1.0", "added_tokens": [], "model": {}})", ModelFile},
      {R"({"eos_token_id": 1})", ModelFile},
      {R"({"producer": {}, "quantization": {}})", ModelFile},
      {R"({"within": true})", Unknown},
      {R"({"weight_map": {}})", Weights},
      {R"({"peft_type": "LORA"})", Adapter},
      {safetensors(R"({"__metadata__": {"kvcal": "{}"}})"), Statistics},
      {safetensors(R"({"__metadata__": {"format": "pt", "kvcal": "{}"}})"), Statistics},
      {safetensors(R"({"__metadata__": {"kvcal": "{}", "kvcal_resume": "{}"}})"), RunState},
      {safetensors(R"({"__metadata__": {"format": "pt"}, "kvcal": {}})"), Weights},
      {"GGUF\x03", Gguf},
      {std::string("PK\x03\x04\0\0archive/data.pkl", 22), Pickle},
      {"\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19", Pickle},
      {"\x1F\x8B\x08", Compressed},
      {"\x28\xB5\x2F\xFD", Compressed},
      {"version https://git-lfs.github.com/spec/v1\n", LfsPointer},
      {"<!DOCTYPE html>\n<title>KV cache of X</title>", ReportPage},
  };
  for (const auto& [bytes, kind] : cases) EXPECT_EQ(kind_of_bytes(bytes), kind) << bytes;
}

TEST(FileKind, OfWhatTellsNothing) {
  const std::string deep(100'000, '[');
  const std::string zeros(100, '\0');
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("[]"), std::string("[[1]]"),
        std::string("{\"a\": 1e999, \"format\": \"kv-cache-scales\"}"), std::string("hello"), deep, zeros,
        std::string("<!DOCTYPE html><title>CI</title>"), std::string("{\"a\": {\"format\": \"kv-cache-scales\"}}"),
        std::string("PK\x03\x04 x.txt"), std::string("INFO 11-28 vllm started\n{\"text\": \"a\"}")})
    EXPECT_EQ(kind_of_bytes(bytes), Unknown) << bytes.substr(0, 60);
}

TEST(FileKind, OfFilesAndFolders) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "kvcal_file_kind";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "model");
  std::ofstream(folder / "model" / "config.json") << R"({"model_type": "llama"})";
  EXPECT_EQ(kind_of_file(folder / "model"), ModelFolder);
  EXPECT_EQ(kind_of_file(folder / "model" / "config.json"), Config);
  EXPECT_EQ(kind_of_file(folder), Unknown);
  EXPECT_EQ(kind_of_file(folder / "nowhere"), Unknown);
  EXPECT_EQ(kind_of_file("/dev/zero"), Unknown);
  std::ofstream(folder / "a.kvresume") << "x";
  EXPECT_EQ(kind_of_file(folder), RunState);
  std::filesystem::remove_all(folder);
}

TEST(FileKind, NoneIsBothOfAModelAndWrittenByUs) {
  for (int i = 0; i <= static_cast<int>(LfsPointer); ++i)
    EXPECT_FALSE(is_of_model(FileKind(i)) && is_output(FileKind(i)));
}

TEST(FileKind, NoTwoHaveOneName) {
  for (int a = 0; a <= static_cast<int>(LfsPointer); ++a)
    for (int b = 0; b < a; ++b) EXPECT_NE(name_of(FileKind(a)), name_of(FileKind(b)));
}

TEST(FileKind, AFailureThatAnotherKindExplainsSaysSo) {
  const auto fails = [] { fail("no"); };
  const auto message = [&](const char* text) {
    return message_of([&] { parsing(Statistics, kExpectedStatistics, text, "x", fails); });
  };
  EXPECT_EQ(message("hello"), "no");
  EXPECT_EQ(message(R"({"format": "kv-cache-scales"})"),
            "'x' is a scale file, expected statistics (calibrate --stats)");
  EXPECT_NE(message("GGUF").find("GGUF is not read"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
