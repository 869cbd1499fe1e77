// Folders of every kind: single file, shards, Hub cache, incomplete, inconsistent, in other formats.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/read_file.h"
#include "checkpoint/fingerprint.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

const std::vector<TestTensor> kFirst = {{"model.embed_tokens.weight", DType::BF16, {16, 8}},
                                        {"model.layers.0.self_attn.k_proj.weight", DType::F16, {8, 8}}};
const std::vector<TestTensor> kSecond = {{"model.layers.1.self_attn.k_proj.weight", DType::F32, {8, 8}},
                                         {"model.norm.weight", DType::BF16, {8}}};

std::vector<TestTensor> both() {
  std::vector<TestTensor> all = kFirst;
  all.insert(all.end(), kSecond.begin(), kSecond.end());
  return all;
}

std::string index_of(const std::vector<std::pair<std::string, std::string>>& entries) {
  Json index;
  index["metadata"]["total_size"] = 1;
  for (const auto& [name, file] : entries) index["weight_map"][name] = file;
  return index.dump();
}

constexpr const char* kShard1 = "model-00001-of-00002.safetensors";
constexpr const char* kShard2 = "model-00002-of-00002.safetensors";

std::vector<std::pair<std::string, std::string>> good_map() {
  return {{kFirst[0].name, kShard1}, {kFirst[1].name, kShard1}, {kSecond[0].name, kShard2}, {kSecond[1].name, kShard2}};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { folder_.write("config.json", R"({"model_type": "m"})"); }
  void write_shards() {
    write_tensors(folder_ / kShard1, kFirst);
    write_tensors(folder_ / kShard2, kSecond);
    folder_.write("model.safetensors.index.json", index_of(good_map()));
  }
  std::string message() const {
    return message_of([&] { Checkpoint::open(folder_.path()); });
  }
  TempFolder folder_;
};

void expect_both(const Checkpoint& checkpoint, size_t n_shards) {
  EXPECT_EQ(checkpoint.n_shards(), n_shards);
  ASSERT_EQ(checkpoint.names().size(), 4u);
  EXPECT_EQ(checkpoint.total_bytes(), 16u * 8 * 2 + 8 * 8 * 2 + 8 * 8 * 4 + 8 * 2);
  EXPECT_EQ(str(*checkpoint.find("model.norm.weight")), "BF16 [8]");
  EXPECT_EQ(str(checkpoint.tensor("model.layers.1.self_attn.k_proj.weight")), "F32 [8, 8]");
  EXPECT_EQ(checkpoint.names_below("model.layers.").size(), 2u);
  EXPECT_EQ(checkpoint.names_below("model.layers.1.").size(), 1u);
  EXPECT_EQ(checkpoint.names_below("z").size(), 0u);
  EXPECT_EQ(checkpoint.names_below("").size(), 4u);
}

TEST_F(CheckpointTest, SingleFile) {
  write_tensors(folder_ / "model.safetensors", both());
  const Checkpoint checkpoint = Checkpoint::open(folder_.path());
  expect_both(checkpoint, 1);
  EXPECT_EQ(checkpoint.find("nothing"), nullptr);
  expect_contains(message_of([&] { checkpoint.tensor("nothing"); }), "has no tensor 'nothing'");
  EXPECT_EQ(checkpoint.bytes_of(checkpoint.names_below("model.norm")), 16u);
}

TEST_F(CheckpointTest, OnlyFileOfAnotherName) {
  write_tensors(folder_ / "weights.safetensors", both());
  folder_.write("consolidated.safetensors", "not looked at");
  expect_both(Checkpoint::open(folder_.path()), 1);
}

TEST_F(CheckpointTest, Shards) {
  write_shards();
  expect_both(Checkpoint::open(folder_.path()), 2);
  expect_both(Checkpoint::open(folder_ / "config.json"), 2);
}

TEST_F(CheckpointTest, IndexOfAnotherName) {
  write_shards();
  fs::rename(folder_ / "model.safetensors.index.json", folder_ / "language.safetensors.index.json");
  expect_both(Checkpoint::open(folder_.path()), 2);
}

TEST_F(CheckpointTest, HubCacheLayout) {
  write_shards();
  TempFolder& f = folder_;
  fs::create_directories(f / "hub/models--a--b/blobs");
  fs::create_directories(f / "hub/models--a--b/snapshots/0a1b");
  f.write("hub/models--a--b/refs/main", "0a1b");
  int blob = 0;
  for (const std::string name : {"config.json", kShard1, kShard2, "model.safetensors.index.json"}) {
    const std::string hash = "blob" + std::to_string(blob++);
    fs::rename(f / name, f / ("hub/models--a--b/blobs/" + hash));
    fs::create_symlink("../../blobs/" + hash, f / ("hub/models--a--b/snapshots/0a1b/" + name));
  }
  expect_both(Checkpoint::open(f / "hub/models--a--b/snapshots/0a1b"), 2);
  expect_both(Checkpoint::open(f / "hub/models--a--b"), 2);
}

TEST_F(CheckpointTest, MissingShard) {
  write_shards();
  fs::remove(folder_ / kShard2);
  expect_contains(message(),
                  "names 2 files, of which 1 are missing, the first 'model-00002-of-00002.safetensors'; was the "
                  "download complete?");
  fs::create_symlink("../../blobs/gone", folder_ / kShard2);
  expect_contains(message(), "of which 1 are missing");
  fs::remove(folder_ / kShard2);
  fs::create_symlink(kShard2, folder_ / kShard2);
  expect_contains(message(), "of which 1 are missing");
}

TEST_F(CheckpointTest, TruncatedShard) {
  write_shards();
  fs::resize_file(folder_ / kShard2, fs::file_size(folder_ / kShard2) - 1);
  expect_contains(message(), "was the download complete?");
  expect_contains(message(), kShard2);
}

TEST_F(CheckpointTest, IndexThatDoesNotFitTheShards) {
  write_shards();
  auto map = good_map();
  map.push_back({"model.extra.weight", kShard1});
  folder_.write("model.safetensors.index.json", index_of(map));
  expect_contains(
      message(), "tensor 'model.extra.weight' is listed in 'model-00001-of-00002.safetensors', which does not have it");
  map = good_map();
  map[3].second = kShard1;
  folder_.write("model.safetensors.index.json", index_of(map));
  expect_contains(message(),
                  "tensor 'model.norm.weight' is listed in 'model-00001-of-00002.safetensors' but is in "
                  "'model-00002-of-00002.safetensors'");
}

TEST_F(CheckpointTest, TensorInTwoShards) {
  write_shards();
  write_tensors(folder_ / kShard2, both());
  expect_contains(message(), "tensor 'model.embed_tokens.weight' is in two files");
}

TEST_F(CheckpointTest, TensorsTheIndexForgot) {
  write_shards();
  folder_.write("model.safetensors.index.json", index_of({{kFirst[0].name, kShard1}, {kSecond[0].name, kShard2}}));
  expect_both(Checkpoint::open(folder_.path()), 2);
}

TEST_F(CheckpointTest, IndexNamesThatLeadOut) {
  write_tensors(folder_ / kShard1, kFirst);
  for (const std::string name :
       {"../model.safetensors", "/etc/passwd.safetensors", "a/../../b.safetensors", "..", ""}) {
    folder_.write("model.safetensors.index.json", index_of({{"x", name}}));
    expect_contains(message(), "which is not inside the folder");
  }
  folder_.write("model.safetensors.index.json", index_of({{"x", std::string("a\0b.safetensors", 15)}}));
  expect_contains(message(), "which is not inside the folder");
  folder_.write("model.safetensors.index.json", index_of({{"x", "pytorch_model.bin"}}));
  expect_contains(message(), "names the file 'pytorch_model.bin', expected *.safetensors");
}

TEST_F(CheckpointTest, ShardsInASubfolder) {
  write_tensors(folder_ / "model.safetensors", both());
  fs::create_directory(folder_ / "part");
  fs::rename(folder_ / "model.safetensors", folder_ / "part/a.safetensors");
  folder_.write("model.safetensors.index.json", index_of({{kFirst[0].name, "part/a.safetensors"}}));
  expect_both(Checkpoint::open(folder_.path()), 1);
}

TEST_F(CheckpointTest, BrokenIndexes) {
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"{", "not valid JSON"},
           {"[]", "has no object 'weight_map'"},
           {"{}", "has no object 'weight_map'"},
           {R"({"weight_map": {}})", "has no object 'weight_map' with tensors"},
           {R"({"weight_map": {"a": 1}})", "tensor 'a' is mapped to something other than a string"},
           {R"({"weight_map": {"a": "x.safetensors", "a": "x.safetensors"}})", "key 'a' appears twice"},
           {R"({"weight_map": {"a": NaN}})", "not valid JSON"},
           {std::string(100000, '['), "nested deeper than 16 levels"}}) {
    folder_.write("model.safetensors.index.json", text);
    expect_contains(message(), expected);
  }
}

TEST_F(CheckpointTest, StaleIndexGivesWayToASingleFile) {
  write_tensors(folder_ / "model.safetensors", both());
  folder_.write("model.safetensors.index.json", index_of(good_map()));
  expect_both(Checkpoint::open(folder_.path()), 1);
}

TEST_F(CheckpointTest, OtherFormats) {
  expect_contains(message(), "has no weights (*.safetensors); was the download complete?");
  for (const auto& [name, expected] :
       std::vector<std::pair<std::string, std::string>>{{"flax_model.msgpack", "TensorFlow or Flax"},
                                                        {"original.pth", "convert them to safetensors"},
                                                        {"adapter_model.safetensors", "LoRA adapter; merge it"},
                                                        {"model.Q4_K_M.gguf", "GGUF"},
                                                        {"pytorch_model.bin", "save_pretrained(new_folder)"},
                                                        {"consolidated.safetensors", "get the Hugging Face version"}}) {
    folder_.write(name, "x");
    expect_contains(message(), expected);
  }
  write_tensors(folder_ / "a.safetensors", kFirst);
  write_tensors(folder_ / "b.safetensors", kSecond);
  expect_contains(message(), "has 2 safetensors files but no index");
}

TEST_F(CheckpointTest, FingerprintKnowsContentNotFiles) {
  write_shards();
  const Checkpoint sharded = Checkpoint::open(folder_.path());
  const std::string before = weights_fingerprint(sharded, sharded.names());
  std::vector<std::string> reversed(sharded.names().rbegin(), sharded.names().rend());
  EXPECT_EQ(weights_fingerprint(sharded, reversed), before);

  TempFolder& f = folder_;
  for (const char* name : {kShard1, kShard2, "model.safetensors.index.json"}) fs::remove(f / name);
  std::vector<TestTensor> all = both();
  all.push_back({"model.layers.1.self_attn.k_scale", DType::F32, {}});
  all.push_back({"model.layers.1.self_attn.v_proj.v_scale", DType::F32, {1}});
  write_tensors(f / "model.safetensors", all);
  const Checkpoint single = Checkpoint::open(f.path());
  EXPECT_EQ(single.names().size(), 6u);
  EXPECT_EQ(weights_fingerprint(single, single.names()), before) << "one file with KV scales: the same weights";

  all[3].dtype = DType::F16;
  write_tensors(f / "model.safetensors", all);
  const Checkpoint other_dtype = Checkpoint::open(f.path());
  EXPECT_NE(weights_fingerprint(other_dtype, other_dtype.names()), before);
  expect_contains(message_of([&] { weights_fingerprint(single, std::vector<std::string>{"none"}); }),
                  "no tensor 'none'");
}

TEST_F(CheckpointTest, FingerprintSamplesBothEnds) {
  const std::vector<TestTensor> large = {{"a", DType::U8, {20000}}};
  const auto fingerprint_with = [&](int64_t changed) {
    write_tensors(folder_ / "model.safetensors", large);
    if (changed >= 0) {
      std::fstream file(folder_ / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(-20000 + changed, std::ios::end);
      file.put('\x55');
    }
    const Checkpoint checkpoint = Checkpoint::open(folder_.path());
    return weights_fingerprint(checkpoint, checkpoint.names());
  };
  const std::string plain = fingerprint_with(-1);
  for (const int64_t seen : {0, 4095, 15904, 19999}) EXPECT_NE(fingerprint_with(seen), plain) << seen;
  for (const int64_t unseen : {4096, 15903}) EXPECT_EQ(fingerprint_with(unseen), plain) << unseen;
}

}  // namespace
}  // namespace kvcal
