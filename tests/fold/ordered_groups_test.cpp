// Outputs of attention in GPTQ, whose columns a tensor (g_idx) puts into groups: a golden with drawn ones.
#include <cstring>
#include <fstream>

#include "checkpoint/safetensors_writer.h"
#include "fold/runs.h"

namespace kvcal {
namespace {

constexpr int64_t kWidth = 48, kBits = 4;  // of the golden 'llama': 4 heads, 2 of keys and values
constexpr int kHead = 12;

/// An o_proj of as many groups as g_idx names, with its other tensors drawn.
class GptqLlama {
 public:
  GptqLlama(const fs::path& folder, const std::vector<int32_t>& g_idx, int64_t group_size) {
    fs::create_directories(folder);
    const fs::path golden = Golden("llama").folder;
    Json config = Json::parse(bytes_of(golden / "config.json"));
    config["quantization_config"] = {
        {"quant_method", "gptq"}, {"bits", kBits}, {"group_size", group_size}, {"desc_act", false}};
    std::ofstream(folder / "config.json") << config.dump();
    const int64_t n_groups = *std::ranges::max_element(g_idx) + 1;
    const Checkpoint plain = Checkpoint::open(golden);
    for (const std::string& name : plain.names()) {
      if (!name.ends_with("o_proj.weight")) {
        const Tensor t = plain.tensor(name);
        add(name, t.dtype, t.shape, {static_cast<const std::byte*>(t.data), plain.find(name)->bytes});
        if (name.ends_with("v_proj.weight")) enlarge_second_half(tensors_[name].bytes);
        continue;
      }
      const std::string module = name.substr(0, name.size() - std::string_view("weight").size());
      add(module + "qweight", DType::I32, {kWidth * kBits / 32, kWidth}, drawn(kWidth * kBits / 32 * kWidth));
      add(module + "qzeros", DType::I32, {n_groups, kWidth * kBits / 32}, drawn(n_groups * kWidth * kBits / 32));
      const std::vector<uint16_t> scales(static_cast<size_t>(n_groups * kWidth), 0x2C00);  // 1/16 in F16
      add(module + "scales", DType::F16, {n_groups, kWidth}, std::as_bytes(std::span(scales)));
      add(module + "g_idx", DType::I32, {kWidth}, std::as_bytes(std::span(g_idx)));
    }
    SafetensorsWriter writer(folder / "model.safetensors", Existing::Refuse);
    for (const auto& [name, t] : tensors_) writer.declare(name, t.dtype, t.shape);
    for (const auto& [name, t] : tensors_) writer.write(name, t.bytes);
    writer.commit();
  }

 private:
  struct Stored {
    DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
  };
  void add(const std::string& name, DType dtype, const Shape& shape, std::span<const std::byte> bytes) {
    tensors_[name] = {dtype, shape, {bytes.begin(), bytes.end()}};
  }
  /// Of values in bf16, by 16: so that the second head needs another power.
  static void enlarge_second_half(std::vector<std::byte>& bytes) {
    for (size_t i = bytes.size() / 2; i < bytes.size(); i += 2) {
      uint16_t code;
      std::memcpy(&code, &bytes[i], 2);
      if ((code & 0x7F80) != 0) code = static_cast<uint16_t>(code + 4 * 128);
      std::memcpy(&bytes[i], &code, 2);
    }
  }
  std::vector<std::byte> drawn(int64_t words) {
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < words * 4; ++i) {
      state_ = state_ * 1664525 + 1013904223;
      bytes.push_back(static_cast<std::byte>(state_ >> 24));
    }
    return bytes;
  }

  std::map<std::string, Stored> tensors_;
  uint32_t state_ = 7;
};

FoldResult folded_gptq(const ScratchFolder& scratch, int64_t group_size, int (*group)(int)) {
  std::vector<int32_t> g_idx;
  for (int k = 0; k < kWidth; ++k) g_idx.push_back(group(k));
  const GptqLlama model(scratch / "model", g_idx, group_size);
  return folded(request_for(scratch / "model", scratch, Balance::Head));
}

void expect_values(const FoldResult& result, Balance balance, const std::string& why) {
  ASSERT_TRUE(result.check) << "both models ran, and agree";
  EXPECT_GT(result.check->n_logits, 1000);
  int n = 0;
  for (const FoldedSite& site : result.record.plan.sites) {
    if (site.site != CacheSite::Value) continue;
    EXPECT_TRUE(site.is_folded());
    EXPECT_EQ(site.balance, balance);
    EXPECT_EQ(site.why.substr(0, why.size()), why);
    EXPECT_EQ(site.why.empty(), why.empty()) << site.why;
    ++n;
  }
  EXPECT_EQ(n, 3);
}

TEST(OrderedGroups, ByRunsFoldByHead) {
  const ScratchFolder scratch;
  expect_values(folded_gptq(scratch, kHead, [](int k) { return k / kHead; }), Balance::Head, "");
}

TEST(OrderedGroups, OfWholeHeadsInAnyOrderFoldByHead) {
  const ScratchFolder scratch;
  expect_values(folded_gptq(scratch, kHead, [](int k) { return 3 - k / kHead; }), Balance::Head, "");
}

TEST(OrderedGroups, AcrossHeadsTakeOneFactorForAll) {
  const ScratchFolder scratch;
  expect_values(folded_gptq(scratch, kHead, [](int k) { return k % 4; }), Balance::Tensor, "factors of 'model.layers.");
}

TEST(OrderedGroups, OneForAllColumnsTakesOneFactor) {
  const ScratchFolder scratch;
  expect_values(folded_gptq(scratch, -1, [](int) { return 0; }), Balance::Tensor, "factors of 'model.layers.");
}

}  // namespace
}  // namespace kvcal
