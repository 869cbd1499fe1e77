// What comes along, how, and that the model's own folder is never touched unless it was asked for, and then in one
// step.
#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "export/record.h"
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// Every file and link below a folder, with its content.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (entry.is_symlink())
      all[name] = "-> " + fs::read_symlink(entry.path()).string();
    else if (entry.is_regular_file())
      all[name] = read_file(entry.path(), 1 << 24);
  }
  return all;
}

nlink_t links(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_nlink;
}

TEST(ExportFolder, LinksWeightsCopiesTheRest) {
  const Exported llama("llama");
  llama.write_file("model/tokenizer.json", "{}");
  llama.write_file("model/sub/notes.md", "x");
  llama.write_file("model/.cache/huggingface/download", "x");
  llama.write_file("model/consolidated.safetensors", "x");
  fs::create_symlink("nowhere", llama.source() / "dangling");
  const auto before = content_of(llama.source());
  llama.write("vllm");
  EXPECT_EQ(content_of(llama.source()), before);
  EXPECT_EQ(links(llama.out() / "model.safetensors"), 2u);
  EXPECT_EQ(links(llama.out() / "tokenizer.json"), 1u);
  std::set<std::string> names;
  for (const auto& [name, content] : content_of(llama.out())) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "kvcal-export.json", "model-kv-scales.safetensors",
                                          "model.safetensors", "model.safetensors.index.json", "sub/notes.md",
                                          "tokenizer.json"}));
}

TEST(ExportFolder, FollowsTheLinksOfACache) {
  const Exported llama("llama");
  fs::create_directories(llama.folder() / "blobs");
  fs::rename(llama.source() / "model.safetensors", llama.folder() / "blobs/abc");
  fs::create_symlink("../blobs/abc", llama.source() / "model.safetensors");
  llama.write("vllm");
  EXPECT_FALSE(fs::is_symlink(llama.out() / "model.safetensors"));
  EXPECT_EQ(links(llama.folder() / "blobs/abc"), 2u);
}

TEST(ExportFolder, Copies) {
  const Exported llama("llama");
  llama.write("vllm", [](Artifact&) {}, {}, {.copy = true});
  EXPECT_EQ(links(llama.out() / "model.safetensors"), 1u);
}

TEST(ExportFolder, ReplacesOnlyExports) {
  const Exported llama("llama");
  const auto nothing = [](Artifact&) {};
  llama.write("vllm");
  expect_contains(message_of([&] { llama.write("vllm"); }), "use --force");
  llama.write("tgi", nothing, {}, {.force = true});
  EXPECT_EQ(read_record(llama.out())->target, "tgi");
  fs::remove(llama.out() / kExportRecord);
  const auto before = content_of(llama.out());
  expect_contains(message_of([&] { llama.write("vllm", nothing, {}, {.force = true}); }),
                  "does not delete other folders");
  EXPECT_EQ(content_of(llama.out()), before);
}

TEST(ExportFolder, NeverIntoOrAroundTheModel) {
  const Exported llama("llama");
  const ModelIdentity identity = llama.model();
  const Artifact artifact = artifact_for(identity);
  const Carrier carrier;
  const ExportOptions options;
  const auto before = content_of(llama.source());
  for (const fs::path& out : {llama.source(), llama.source() / "sub", llama.folder()}) {
    const ExportInput input = {artifact, identity, carrier, options, "s.json", out};
    const Exporter& exporter = find_exporter("vllm");
    const ExportPlan plan = exporter.plan(input);
    EXPECT_NE(message_of([&] { write_export(exporter, input, plan, {.force = true}); }), "no error") << out;
  }
  EXPECT_EQ(content_of(llama.source()), before);
}

TEST(ExportInPlace, AndBack) {
  const Exported llama("llama");
  llama.write_file("model/sub/notes.md", "x");
  fs::create_symlink("sub/notes.md", llama.source() / "link");
  const auto before = content_of(llama.source());
  const auto nothing = [](Artifact&) {};
  llama.write("vllm", nothing, {}, {.in_place = true});
  EXPECT_EQ(stored(llama.source()).size(), 9u);
  EXPECT_EQ(content_of(llama.source()).at("config.json.kvcal-original"), before.at("config.json"));
  EXPECT_EQ(content_of(llama.source()).at("link"), "-> sub/notes.md");
  EXPECT_TRUE(read_record(llama.source())->in_place);

  EXPECT_EQ(undo_export(llama.source(), false), "vllm");
  EXPECT_EQ(content_of(llama.source()), before);
  expect_contains(message_of([&] { undo_export(llama.source(), false); }), "was not modified in place by kvcal export");
  for (const auto& entry : fs::directory_iterator(llama.folder())) EXPECT_EQ(entry.path().filename(), "model");
}

TEST(ExportInPlace, UndoKeepsLaterChanges) {
  const Exported llama("llama");
  const auto before = content_of(llama.source());
  llama.write("vllm", [](Artifact&) {}, {}, {.in_place = true});
  llama.write_file("model/config.json", "{}");
  llama.write_file("model/mine.txt", "mine");
  expect_contains(message_of([&] { undo_export(llama.source(), false); }), "was changed since the export");
  undo_export(llama.source(), true);
  auto expected = before;
  expected["mine.txt"] = "mine";
  EXPECT_EQ(content_of(llama.source()), expected);
}

TEST(ExportInPlace, ARecordCannotNameFilesElsewhere) {
  const Exported llama("llama");
  llama.write("vllm", [](Artifact&) {}, {}, {.in_place = true});
  std::string record = read_file(llama.source() / kExportRecord, 1 << 20);
  record.replace(record.find("config.json.kvcal-original"), 26, "../../../../tmp/whatever12");
  llama.write_file(std::string("model/") + kExportRecord, record);
  expect_contains(message_of([&] { undo_export(llama.source(), false); }), "not a name within the folder");
}

TEST(ExportReadBack, SeesAWrongValueAWrongConfigAndAStrangeTensor) {
  const Exported llama("llama");
  const ModelIdentity identity = llama.model();
  const Artifact artifact = artifact_for(identity);
  const Carrier carrier = carrier_of(read_config(llama.source()).config, llama.source());
  const ExportOptions options;
  const ExportInput input = {artifact, identity, carrier, options, "s.json", llama.out()};
  const Exporter& exporter = find_exporter("vllm");
  const ExportPlan plan = exporter.plan(input);
  const auto written_with = [&](auto change) {
    ExportPlan changed = plan;
    change(changed);
    // What is written is the changed plan, what it is compared with is the right one.
    Exporter lenient = exporter;
    lenient.read_back = [](const ExportInput&, const ExportPlan&, const fs::path&) {};
    write_export(lenient, input, changed, {.force = true});
    return message_of([&] { exporter.read_back(input, plan, llama.out()); });
  };
  EXPECT_EQ(written_with([](ExportPlan&) {}), "no error");
  expect_contains(written_with([](ExportPlan& p) { p.tensors[0].values[0] = 0.5F; }), "another value than intended");
  expect_contains(written_with([](ExportPlan& p) { p.tensors.pop_back(); }), "is missing in the files written");
  expect_contains(written_with([](ExportPlan& p) {
                    p.tensors.push_back({"model.layers.0.self_attn.kv_scale", Shape{1}, {1}});
                  }),
                  "have an unexpected KV scale");
  expect_contains(written_with([](ExportPlan& p) {
                    Json config = parse_json(p.files[0].text);
                    config["rope_theta"] = 5;
                    p.files[0].text = config.dump();
                  }),
                  "in more than its KV cache");
}

TEST(ExportReadBack, WhatDoesNotReadBackGetsNoName) {
  const Exported llama("llama");
  const ModelIdentity identity = llama.model();
  const Artifact artifact = artifact_for(identity);
  const Carrier carrier;
  const ExportOptions options;
  const ExportInput input = {artifact, identity, carrier, options, "s.json", llama.out()};
  const auto before = content_of(llama.folder());
  for (const char* target : {"vllm", "json"}) {
    Exporter exporter = find_exporter(target);
    const ExportPlan plan = exporter.plan(input);
    exporter.read_back = [](const ExportInput&, const ExportPlan&, const fs::path& written) {
      ASSERT_TRUE(fs::exists(written));
      fail("wrong");
    };
    EXPECT_EQ(message_of([&] { write_export(exporter, input, plan, {}); }), "reading back what was written: wrong");
    if (!exporter.writes_folder) continue;
    EXPECT_EQ(message_of([&] { write_export(exporter, input, plan, {.in_place = true}); }),
              "reading back what was written: wrong");
  }
  EXPECT_EQ(content_of(llama.folder()), before);
}

TEST(ExportScaleFile, ListsOtherCheckpointsOfTheModel) {
  const Exported llama("llama"), other("llama"), foreign("qwen2");
  Json quantized = parse_json(other.config());
  quantized["quantization_config"] = {{"quant_method", "fp8"}};
  ExportOptions options;
  options.also_for = {other.model()};
  options.also_for[0].weights_fingerprint = std::string(64, 'f');
  const ModelIdentity identity = llama.model();
  const Artifact artifact = artifact_for(identity);
  const Carrier carrier;
  const ExportInput input = {artifact, identity, carrier, options, "s.json", llama.out()};
  const ExportPlan plan = find_exporter("scales").plan(input);
  EXPECT_NE(plan.files[0].text.find(std::string(64, 'f')), std::string::npos);
  options.also_for[0].fold = FoldMark{identity.weights_fingerprint, 4, 0};
  expect_contains(message_of([&] { find_exporter("scales").plan(input); }), "folded into the weights of one of them");
  options.also_for = {foreign.model()};
  expect_contains(message_of([&] { find_exporter("scales").plan(input); }), "is not a copy of the model");
}

}  // namespace
}  // namespace kvcal
