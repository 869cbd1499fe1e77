// What a sequence keeps, worked out by hand from the sizes in capacity_models.h.
#include <gtest/gtest.h>

#include "capacity/cache_cost.h"
#include "harness/message_of.h"
#include "unit/capacity_models.h"

namespace kvcal {
namespace {

SequenceCost cost(const Json& config, KvFormat format, int64_t tp = 1) {
  return cost_of_sequence(spec_of(config), format, tp);
}

// 32 layers x 8 heads x (128 + 128) elements x 2 bytes = 131,072; FP8 half of it. NVFP4: a head of 128 has 64 bytes of
// codes and 8 scales: 32 x 8 x 2 x 72 = 36,864, which is 9/32 of BF16. INT4: 64 bytes and a scale of 4, 32 x 8 x 2
// x 68.
TEST(CacheCost, dense_layers_of_llama_3_8b) {
  EXPECT_EQ(cost(llama_8b(), KvFormat::BF16).bytes_per_token(), 131072);
  EXPECT_EQ(cost(llama_8b(), KvFormat::FP8).bytes_per_token(), 65536);
  EXPECT_EQ(cost(llama_8b(), KvFormat::NVFP4).bytes_per_token(), 36864);
  EXPECT_EQ(cost(llama_8b(), KvFormat::INT4).bytes_per_token(), 34816);
  EXPECT_EQ(cost(llama_8b(), KvFormat::BF16).bytes(8192), int64_t{1} << 30);
  EXPECT_EQ(cost(llama_8b(), KvFormat::BF16).state_bytes, 0);
}

// A layer has 4,096 bytes a token in BF16 and 2,048 in FP8: two of 32 that stay in BF16 make 65,536 to 69,632.
TEST(CacheCost, layers_that_stay_in_bf16) {
  const std::vector<int> kept = {3, 31};
  const auto bytes = [&](KvFormat format) {
    return cost_of_sequence(spec_of(llama_8b()), format, 1, kept).bytes_per_token();
  };
  EXPECT_EQ(bytes(KvFormat::BF16), 131072);
  EXPECT_EQ(bytes(KvFormat::FP8), 69632);
  EXPECT_EQ(bytes(KvFormat::NVFP4), 36864 * 30 / 32 + 2 * 4096);
  EXPECT_EQ(bytes(KvFormat::INT4), 34816 * 30 / 32 + 2 * 4096);
}

// Of 32 layers with 2,048 bytes in FP8: one with 4,096 in BF16, one with 1,152 in NVFP4, and one that has a float32
// beside each of its 8 key and 8 value rows, 64 bytes more; on eight GPUs one row of each.
TEST(CacheCost, each_layer_in_a_format_of_its_own) {
  std::vector<StoredLayer> layers;
  for (int layer = 0; layer < 32; ++layer)
    layers.push_back(stored_layer(layer, layer == 0   ? "bf16"
                                         : layer == 1 ? "nvfp4"
                                         : layer == 2 ? "int8_per_token_head"
                                                      : "fp8_e4m3"));
  const ModelSpec spec = spec_of(llama_8b());
  EXPECT_EQ(cost_of_sequence(spec, layers, 1).bytes_per_token(), 29 * 2048 + 4096 + 1152 + 2048 + 64);
  EXPECT_EQ(cost_of_sequence(spec, layers, 8).bytes_per_token(), 29 * 256 + 512 + 144 + 256 + 8);
  layers[3] = stored_layer(3, "int4_per_token_head");      // 512 and 4 for each of 16 rows
  layers[4] = stored_layer(4, "turboquant_k8v4");          // keys as in FP8
  layers[5] = stored_layer(5, "bf16:fp8_per_token_head");  // keys as in BF16
  EXPECT_EQ(cost_of_sequence(spec, layers, 1).bytes_per_token(),
            26 * 2048 + 4096 + 1152 + 2048 + 64 + (1024 + 64) + (1024 + 512 + 32) + (2048 + 1024 + 32));
  layers.pop_back();
  EXPECT_THROW(cost_of_sequence(spec, layers, 1), Error);
  EXPECT_THROW(stored_layer(0, "fp7"), Error);
}

// 70B: 80 layers x 8 heads x 256 x 2 = 327,680 on one GPU. tp 4: two heads each, 81,920. tp 8: one head each, 40,960.
// tp 16: eight heads for sixteen GPUs, each head on two of them: no smaller, 40,960.
TEST(CacheCost, heads_divide_among_gpus_until_each_has_one) {
  EXPECT_EQ(cost(llama_70b(), KvFormat::BF16, 1).bytes_per_token(), 327680);
  EXPECT_EQ(cost(llama_70b(), KvFormat::BF16, 4).bytes_per_token(), 81920);
  EXPECT_EQ(cost(llama_70b(), KvFormat::BF16, 8).bytes_per_token(), 40960);
  EXPECT_EQ(cost(llama_70b(), KvFormat::BF16, 16).bytes_per_token(), 40960);
  EXPECT_FALSE(copies_heads(spec_of(llama_70b()), 8));
  EXPECT_TRUE(copies_heads(spec_of(llama_70b()), 16));
}

// 10 of 40 layers have a cache: 10 x 2 heads x (256 + 256) x 2 = 20,480. The other 30: the convolution has
// 2 x 16 x 128 + 32 x 128 = 8,192 channels and keeps 3 inputs of 2 bytes, 49,152; the delta rule 32 x 128 x 128 x 4 =
// 2,097,152. 30 x 2,146,304 = 64,389,120. A sequence of 4,096 tokens: 83,886,080 + 64,389,120 = 148,275,200 in BF16 and
// 41,943,040 + 64,389,120 = 106,332,160 in FP8: 1.39 times smaller, not 2.
TEST(CacheCost, recurrent_state_of_qwen3_5_is_there_once_and_does_not_shrink) {
  const SequenceCost bf16 = cost(qwen3_5_35b(), KvFormat::BF16), fp8 = cost(qwen3_5_35b(), KvFormat::FP8);
  EXPECT_EQ(bf16.bytes_per_token(), 20480);
  EXPECT_EQ(bf16.state_bytes, 64389120);
  EXPECT_EQ(bf16.bytes(4096), 148275200);
  EXPECT_EQ(fp8.bytes(4096), 106332160);
  // tp 2: one head, half a state. tp 4: the one head in copies, a quarter of the state.
  EXPECT_EQ(cost(qwen3_5_35b(), KvFormat::BF16, 2).bytes(4096), 4096 * 10240 + 32194560);
  EXPECT_EQ(cost(qwen3_5_35b(), KvFormat::BF16, 4).bytes(4096), 4096 * 10240 + 16097280);
}

// 61 layers x (512 + 64) x 2 = 70,272, values being the first 512 of the same row; FP8 35,136; NVFP4 61 x (288 + 36) =
// 19,764. Every GPU keeps all of it.
TEST(CacheCost, mla_rows_of_deepseek_v3_are_on_every_gpu) {
  for (const int64_t tp : {1, 8, 16}) {
    EXPECT_EQ(cost(deepseek_v3(), KvFormat::BF16, tp).bytes_per_token(), 70272);
    EXPECT_EQ(cost(deepseek_v3(), KvFormat::FP8, tp).bytes_per_token(), 35136);
    EXPECT_EQ(cost(deepseek_v3(), KvFormat::NVFP4, tp).bytes_per_token(), 19764);
  }
}

TEST(CacheCost, formats_of_4_bits_are_planned_where_no_row_is_of_mla) {
  for (const KvFormat format : {KvFormat::NVFP4, KvFormat::INT4}) {
    EXPECT_EQ(why_not_planned(spec_of(llama_8b()), format), "");
    EXPECT_EQ(why_not_planned(spec_of(qwen3_5_35b()), format), "");
    EXPECT_NE(why_not_planned(spec_of(deepseek_v3()), format), "");
  }
  EXPECT_EQ(why_not_planned(spec_of(deepseek_v3()), KvFormat::FP8), "");
}

// A layer: 8 x (64 + 64) x 2 = 2,048. 24 of them within the window of 128, 12 behind it. 8,192 tokens:
// 12 x 2,048 x 8,192 + 12 x 2,048 x 128 = 201,326,592 + 3,145,728 = 204,472,320.
TEST(CacheCost, every_second_layer_of_gpt_oss_keeps_128_tokens) {
  const SequenceCost c = cost(gpt_oss_20b(), KvFormat::BF16);
  EXPECT_EQ(c.bytes_per_token(), 49152);
  EXPECT_EQ(c.bytes_per_late_token(), 24576);
  EXPECT_EQ(c.bytes(100), 4915200);
  EXPECT_EQ(c.bytes(8192), 204472320);
}

// A layer: 16 x (128 + 128) x 2 = 8,192. Full ones: 5, 11, ..., 59, that is 10; 52 keep 1,024 tokens. 131,072 tokens:
// 10 x 8,192 x 131,072 + 52 x 8,192 x 1,024 = 10,737,418,240 + 436,207,616 = 11,173,625,856.
TEST(CacheCost, windows_of_gemma_3) {
  const SequenceCost c = cost(gemma3_27b(), KvFormat::BF16);
  EXPECT_EQ(c.bytes_per_token(), 62 * 8192);
  EXPECT_EQ(c.bytes_per_late_token(), 10 * 8192);
  EXPECT_EQ(c.bytes(131072), 11173625856);
}

// Layers 0 to 14 own caches; of them 4, 9 and 14 see everything with one head of 512 + 512 (2,048 bytes in BF16),
// twelve have one head of 256 + 256 (1,024) and keep 512 tokens. 32,768 tokens: 3 x 2,048 x 32,768 + 12 x 1,024 x 512 =
// 201,326,592 + 6,291,456 = 207,618,048.
TEST(CacheCost, layers_of_gemma_4_that_share_add_nothing) {
  const SequenceCost c = cost(gemma4_e2b(), KvFormat::BF16);
  EXPECT_EQ(c.bytes_per_token(), 12 * 1024 + 3 * 2048);
  EXPECT_EQ(c.bytes_per_late_token(), 3 * 2048);
  EXPECT_EQ(c.bytes(32768), 207618048);
}

// 10 attention layers x 8 x 256 x 2 = 40,960. 54 Mamba-2 layers: 256 heads x 64 = 16,384 inner channels; convolution
// (16,384 + 2 x 8 x 256) = 20,480 channels x 3 x 2 = 122,880; state 16,384 x 256 x 4 = 16,777,216.
// 54 x 16,900,096 = 912,605,184: as much as 22,280 tokens of cache, in a model that takes 8,192.
TEST(CacheCost, state_of_nemotron_h_outweighs_its_cache) {
  const SequenceCost c = cost(nemotron_h_56b(), KvFormat::BF16);
  EXPECT_EQ(c.bytes_per_token(), 40960);
  EXPECT_EQ(c.state_bytes, 912605184);
  EXPECT_EQ(c.bytes(8192), 335544320 + 912605184);
  EXPECT_EQ(cost(nemotron_h_56b(), KvFormat::FP8, 8).bytes(8192), 8192 * 2560 + 114075648);
}

// vllm-project and sgl-project publish 153.9 MB a slot of Qwen3.8-27B in F32 and 78.4 MB in BF16 (sglang issue 40706,
// change 35065). 48 delta nets, 48 heads of 128 x 128, 16 key heads: 10,240 channels x 3 x 2 = 61,440 bytes of windows,
// 786,432 elements. 8 bits: as many bytes, and 48 x 128 rows x 4 = 24,576 of scales.
TEST(StateCost, is_what_was_published_of_qwen3_8_27b) {
  const ModelSpec spec = spec_of(qwen3_8_27b());
  EXPECT_EQ(slot_bytes(spec, StateWidth::F32, 1), 153944064);
  EXPECT_EQ(slot_bytes(spec, StateWidth::BF16, 1), 78446592);
  EXPECT_EQ(slot_bytes(spec, StateWidth::F16, 1), 78446592);
  for (const StateWidth format : {StateWidth::FP8, StateWidth::INT8})
    EXPECT_EQ(slot_bytes(spec, format, 1), 48 * (61440 + 786432 + 24576));
  const std::vector<StateCost> half = cost_of_state(spec, StateWidth::F32, 2);
  ASSERT_EQ(half.size(), 1U);
  EXPECT_EQ(half[0].kind, LayerKind::GatedDeltaNet);
  EXPECT_EQ(half[0].n_layers, 48);
  EXPECT_EQ(half[0].conv_bytes, 48 * 30720);
  EXPECT_EQ(half[0].state_bytes, 48 * 1572864);
}

// A state of 256 columns: 16,384 rows of it in each of 54 layers.
TEST(StateCost, of_mamba2_has_a_scale_for_each_row) {
  EXPECT_EQ(slot_bytes(spec_of(nemotron_h_56b()), StateWidth::INT8, 1), 54 * (122880 + 16384 * 256 + 16384 * 4));
}

TEST(StateCost, of_convolutions_alone_has_no_type) {
  for (const StateWidth format : kStateWidths) EXPECT_EQ(slot_bytes(spec_of(lfm2()), format, 1), 24576);
}

TEST(StateCost, counts_as_often_as_there_are_slots) {
  const ModelSpec spec = spec_of(qwen3_5_35b());
  const auto state = [&](StateStorage storage) {
    return cost_of_sequence(spec, KvFormat::BF16, 1, {}, storage).state_bytes;
  };
  EXPECT_EQ(state({StateWidth::F32, 5}), 5 * 64389120);
  EXPECT_EQ(state({StateWidth::BF16, 2}), 2 * 30 * (49152 + 1048576));
}

// One of four layers has a cache: 8 x (64 + 64) x 2 = 2,048. Three convolutions of 3 taps keep 2 inputs of 2,048
// channels in BF16: 3 x 8,192 = 24,576.
TEST(CacheCost, convolution_windows_of_lfm2) {
  const SequenceCost c = cost(lfm2(), KvFormat::BF16);
  EXPECT_EQ(c.bytes_per_token(), 2048);
  EXPECT_EQ(c.state_bytes, 24576);
}

TEST(CacheCost, nvfp4_scales_of_a_head_that_is_no_multiple_of_16_are_rounded_up) {
  // head_dim 40: 20 bytes of codes, 3 scales. 2 layers x 8 heads x 2 x 23 = 736.
  EXPECT_EQ(cost(llama(2, 320, 8, 640), KvFormat::NVFP4).bytes_per_token(), 736);
}

TEST(TensorParallel, must_divide_the_heads) {
  const ModelSpec spec = spec_of(llama_8b());  // 32 query heads, 8 key-value heads
  for (const int64_t tp : {1, 2, 4, 8, 16, 32}) EXPECT_NO_THROW(check_tensor_parallel(spec, tp)) << tp;
  EXPECT_EQ(
      message_of([&] { check_tensor_parallel(spec, 3); }),
      "tensor parallel over 3 GPUs: layer 0 has 32 query heads and 8 key-value heads, which servers cannot divide so; "
      "possible: 1, 2, 4, 8, 16, 32");
  EXPECT_THROW(check_tensor_parallel(spec, 64), Error);
  // 24 query heads and 8 key-value heads: 12 GPUs divide 24, but neither divide 8 nor are a
  // multiple of it.
  const ModelSpec odd = spec_of(llama(2, 3072, 24, 64));
  EXPECT_THROW(check_tensor_parallel(odd, 12), Error);
  EXPECT_NO_THROW(check_tensor_parallel(odd, 24));
  // MLA: only query heads divide.
  EXPECT_NO_THROW(check_tensor_parallel(spec_of(deepseek_v3()), 64));
}

TEST(CacheCost, sizes_beyond_any_machine_are_refused) {
  EXPECT_NE(message_of([] { cost(llama_70b(), KvFormat::BF16).bytes(int64_t{1} << 40); }).find("10^15"),
            std::string::npos);
}

}  // namespace
}  // namespace kvcal
