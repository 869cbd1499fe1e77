// New scales for checkpoints that have some already: from another tool, among the weights, or from an earlier export.
#include <algorithm>

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr float kOld = 0.125F;

/// Which of a file's tensors, and in which shard; "" for those that are in none.
using ShardOf = std::string (*)(const std::string& tensor);

std::string in_one_file(const std::string&) { return "model.safetensors"; }

std::string late_layers_apart(const std::string& tensor) {
  return tensor.find(".layers.2.") == tensor.npos ? "model-1.safetensors" : "model-2.safetensors";
}

/// What another tool would have left: k_scale, v_scale and a k_zero_point of every layer among the weights.
void add_old_scales(const Exported& model, int64_t n_layers, ShardOf shard_of) {
  const fs::path weights = model.source() / "model.safetensors", original = model.folder() / "weights";
  fs::rename(weights, original);
  const SafetensorsFile file(original);
  std::map<std::string, std::vector<TensorInfo>> shards;
  for (const TensorInfo& info : file.tensors()) shards[shard_of(info.name)].push_back(info);
  for (int64_t i = 0; i < n_layers; ++i)
    for (const char* name : {"k_scale", "v_scale", "k_zero_point"}) {
      const std::string tensor = "model.layers." + std::to_string(i) + ".self_attn." + name;
      shards[shard_of(tensor)].push_back({tensor, DType::F32, Shape{1}, 0, 4});
    }
  Json map = Json::object();
  uint64_t bytes = 0;
  for (auto& [name, tensors] : shards) {
    std::ranges::sort(tensors, {}, &TensorInfo::name);
    SafetensorsWriter writer(model.source() / name, Existing::Refuse, {{"format", "pt"}, {"by", "another tool"}});
    for (const TensorInfo& info : tensors) writer.declare(info.name, info.dtype, info.shape);
    for (const TensorInfo& info : tensors) {
      map[info.name] = name;
      bytes += info.bytes;
      if (file.find(info.name))
        writer.write(info.name, file.tensor(info));
      else
        writer.write(info.name, std::as_bytes(std::span(&kOld, 1)));
    }
    writer.commit();
  }
  fs::remove(original);
  if (shards.size() > 1)
    model.write_file("model/model.safetensors.index.json",
                     Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(2) + "\n");
}

ExportOptions replacing() {
  ExportOptions options;
  options.replace_scales = true;
  return options;
}

const auto kAsItIs = [](Artifact&) {};

std::map<std::string, std::string> bytes_in(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(folder))
    all[entry.path().filename().string()] = read_file(entry.path(), 1 << 24);
  return all;
}

/// The folder has the planned scales and no others, and its weights are those of the tiny model.
void expect_new_scales(const fs::path& folder, const ExportPlan& plan) {
  std::map<std::string, std::vector<float>> planned;
  for (const PlannedScale& scale : plan.scales) planned[scale.name] = scale.values;
  EXPECT_EQ(stored(folder), planned);
  const Checkpoint written = Checkpoint::open(folder), plain = Checkpoint::open(golden("llama"));
  std::vector<std::string> names;
  for (const std::string& name : written.names())
    if (!planned.contains(name)) names.push_back(name);
  EXPECT_EQ(names, plain.names());
  for (const std::string& name : names) {
    const TensorInfo &a = *written.find(name), &b = *plain.find(name);
    ASSERT_EQ(str(a), str(b)) << name;
    std::vector<std::byte> x(a.bytes), y(b.bytes);
    written.read(name, 0, x);
    plain.read(name, 0, y);
    EXPECT_EQ(x, y) << name;
  }
}

TEST(ExportReplaces, ScalesAmongTheWeights) {
  const Exported llama("llama");
  add_old_scales(llama, 3, in_one_file);
  const auto before = bytes_in(llama.source());
  const ExportPlan plan = llama.write("vllm", kAsItIs, replacing());
  EXPECT_EQ(plan.dropped.size(), 9u);
  expect_new_scales(llama.out(), plan);
  EXPECT_EQ(bytes_in(llama.source()), before);
  const SafetensorsFile shard(llama.out() / "model.safetensors");
  EXPECT_EQ(shard.metadata().at("by"), "another tool");
}

TEST(ExportReplaces, OnlyShardsThatHoldSomeAreCopied) {
  const Exported llama("llama");
  add_old_scales(llama, 2, late_layers_apart);  // none in the shard of the third layer
  const ExportPlan plan = llama.write("vllm", kAsItIs, replacing());
  expect_new_scales(llama.out(), plan);
  EXPECT_EQ(fs::hard_link_count(llama.out() / "model-1.safetensors"), 1u);
  EXPECT_EQ(fs::hard_link_count(llama.out() / "model-2.safetensors"), 2u);
  const Json index = parse_json(llama.out_text("model.safetensors.index.json"));
  EXPECT_FALSE(index["weight_map"].contains("model.layers.0.self_attn.k_zero_point"));
  uint64_t bytes = 0;
  for (const char* name : {"model-1.safetensors", "model-2.safetensors", kScaleShard}) {
    const SafetensorsFile shard(llama.out() / name);
    for (const TensorInfo& info : shard.tensors()) bytes += info.bytes;
  }
  EXPECT_EQ(index["metadata"]["total_size"].get<uint64_t>(), bytes);
}

TEST(ExportReplaces, AnEarlierExport) {
  const Exported llama("llama");
  llama.write("vllm");
  fs::remove_all(llama.source());
  fs::rename(llama.out(), llama.source());
  const ExportPlan plan = llama.write(
      "vllm", [](Artifact& artifact) { artifact.layers[1].key.scale = 0.375F; }, replacing());
  expect_new_scales(llama.out(), plan);
  EXPECT_EQ(stored(llama.out()).at("model.layers.1.self_attn.k_scale"), std::vector<float>{0.375F});
  EXPECT_EQ(fs::hard_link_count(llama.out() / "model.safetensors"), 2u);
}

TEST(ExportReplaces, InPlaceAndBack) {
  for (const ShardOf shard_of : {in_one_file, late_layers_apart}) {
    const Exported llama("llama");
    add_old_scales(llama, 3, shard_of);
    const auto before = bytes_in(llama.source());
    const ExportPlan plan = llama.write("vllm", kAsItIs, replacing(), {.in_place = true});
    expect_new_scales(llama.source(), plan);
    EXPECT_EQ(undo_export(llama.source(), false), "vllm");
    EXPECT_EQ(bytes_in(llama.source()), before);
  }
}

TEST(ExportReplaces, InPlaceWithinAnExportAndBack) {
  const Exported llama("llama");
  llama.write("vllm");
  fs::remove_all(llama.source());
  fs::rename(llama.out(), llama.source());
  const auto before = bytes_in(llama.source());
  const ExportPlan plan = llama.write("vllm", kAsItIs, replacing(), {.in_place = true});
  expect_new_scales(llama.source(), plan);
  undo_export(llama.source(), false);
  EXPECT_EQ(bytes_in(llama.source()), before);
}

TEST(ExportReplaces, WhatAnExportInPlaceKeptStaysBehind) {
  const Exported llama("llama");
  llama.write("vllm", kAsItIs, {}, {.in_place = true});
  const ExportPlan plan = llama.write("vllm", kAsItIs, replacing());
  expect_new_scales(llama.out(), plan);
  EXPECT_FALSE(fs::exists(llama.out() / "config.json.kvcal-original"));
}

}  // namespace
}  // namespace kvcal
