// Weights by name: what is handed out, what is refused and how it is said, what is left over.
#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/kv_scale_names.h"
#include "checkpoint/text_prefix.h"
#include "checkpoint/weight_binder.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

class BinderTest : public testing::Test {
 protected:
  Checkpoint open(const std::vector<TestTensor>& tensors, const std::string& config = "{}") {
    folder_.write("config.json", config);
    write_tensors(folder_ / "model.safetensors", tensors);
    return Checkpoint::open(folder_.path());
  }
  std::string reading() const { return "reading " + quoted(folder_.path().string()) + ": "; }
  TempFolder folder_;
};

const std::vector<TestTensor> kModel = {{"model.embed_tokens.weight", DType::BF16, {32, 8}},
                                        {"model.layers.0.self_attn.k_proj.weight", DType::BF16, {4, 8}},
                                        {"model.layers.0.self_attn.k_proj.bias", DType::F32, {4}},
                                        {"model.layers.0.self_attn.v_proj.weight", DType::F16, {4, 8}},
                                        {"model.layers.10.self_attn.v_proj.weight", DType::F16, {4, 8}}};

TEST_F(BinderTest, HandsOutViewsInTheStoredDtype) {
  const Checkpoint checkpoint = open(kModel);
  const WeightBinder root(checkpoint);
  const WeightBinder attention = root.at("model.").at("layers.0.self_attn.");
  EXPECT_EQ(attention.prefix(), "model.layers.0.self_attn.");
  const Tensor k = attention("k_proj.weight", {4, 8});
  EXPECT_EQ(str(k), "BF16 [4, 8]");
  EXPECT_EQ(k.data, checkpoint.tensor("model.layers.0.self_attn.k_proj.weight").data);
  EXPECT_TRUE(attention.optional("k_proj.bias", {4}));
  EXPECT_FALSE(attention.optional("v_proj.bias", {4}));
  EXPECT_TRUE(attention.has("v_proj.weight"));
  EXPECT_FALSE(attention.has("o_proj.weight"));
  EXPECT_EQ(attention.info("v_proj.weight")->dtype, DType::F16);
  EXPECT_EQ(root.at("model.layers.0.").bytes(), 64u + 16 + 64);
  EXPECT_EQ(root.at("model.layers.1.").bytes(), 0u) << "layer 10 is not below layer 1";
}

TEST_F(BinderTest, WrongShape) {
  const Checkpoint checkpoint = open(kModel);
  const WeightBinder w = WeightBinder(checkpoint).at("model.layers.0.self_attn.");
  const std::string expected = reading() +
                               "tensor 'model.layers.0.self_attn.k_proj.weight' has shape [4, 8], expected [8, 8]; is "
                               "config.json from another checkpoint?";
  EXPECT_EQ(message_of([&] { w("k_proj.weight", {8, 8}); }), expected);
  EXPECT_EQ(message_of([&] { w.optional("k_proj.weight", {8, 8}); }), expected);
  expect_contains(message_of([&] { w("k_proj.weight", {32}); }), "expected [32]");
}

TEST_F(BinderTest, MissingTensor) {
  const Checkpoint checkpoint = open(kModel);
  const WeightBinder root(checkpoint);
  EXPECT_EQ(message_of([&] {
              root.at("model.layers.0.")("self_attn.q_proj.weight", {4, 8});
            }),
            reading() +
                "tensor 'model.layers.0.self_attn.q_proj.weight' is missing; the nearest name is "
                "'model.layers.0.self_attn.k_proj.weight'; is config.json from another checkpoint?");
  EXPECT_EQ(message_of([&] {
              root.at("model.layers.7.")("self_attn.q_proj.weight", {4, 8});
            }),
            reading() +
                "tensor 'model.layers.7.self_attn.q_proj.weight' is missing, and so is everything below "
                "'model.layers.7.'; is config.json from another checkpoint?");
}

TEST_F(BinderTest, QuantisedWeights) {
  const std::string config = R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
  const Checkpoint checkpoint = open({{"a.weight", DType::U8, {4, 8}},
                                      {"b.qweight", DType::U8, {4, 8}},
                                      {"c.weight", DType::F8E4M3, {4, 8}},
                                      {"c.weight_scale_inv", DType::F32, {1, 1}},
                                      {"d.weight", DType::F8E4M3, {4, 8}}},
                                     config);
  const WeightBinder w(checkpoint);
  EXPECT_EQ(
      message_of([&] {
        w("a.weight", {4, 8});
      }),
      reading() +
          "tensor 'a.weight' is U8 [4, 8], a quantized weight; its format, fp8 (128x128 blocks), is not supported: "
          "use the original BF16 checkpoint");
  EXPECT_EQ(message_of([&] {
              w("b.weight", {4, 8});
            }),
            reading() +
                "tensor 'b.weight' is missing, but 'b.qweight' exists: a quantized weight; its format, fp8 "
                "(128x128 blocks), is not supported: use the original BF16 checkpoint");
  EXPECT_EQ(str(w("c.weight", {4, 8})), "BF16 [4, 8]");
  EXPECT_TRUE(w.optional("c.weight", {4, 8}));
  expect_contains(message_of([&] { w("d.weight", {4, 8}); }), reading() + "weight 'd.weight' is stored as FP8, but ");
  EXPECT_FALSE(w.optional("b.weight", {4, 8}));
}

TEST_F(BinderTest, QuantisedWeightsAreThereAndAreClaimedWhole) {
  const Checkpoint checkpoint = open({{"a.weight_packed", DType::I32, {4, 1}},
                                      {"a.weight_scale", DType::BF16, {4, 1}},
                                      {"b.qweight", DType::I32, {8, 1}},
                                      {"b.qzeros", DType::I32, {1, 1}},
                                      {"experts.down_proj_blocks", DType::U8, {2, 4, 1, 16}},
                                      {"c.weight", DType::F8E4M3, {4, 8}},
                                      {"c.weight_scale_inv", DType::F32, {1, 1}},
                                      {"cc.weight", DType::BF16, {4, 8}}});
  const WeightBinder w(checkpoint);
  for (const char* name : {"a.weight", "b.weight", "experts.down_proj", "c.weight"}) EXPECT_TRUE(w.has(name)) << name;
  for (const char* name : {"b.bias", "d.weight", "experts.up_proj"}) EXPECT_FALSE(w.has(name)) << name;
  w.at("a.").claim("weight");
  for (const char* name : {"b.weight", "c.weight"}) w.claim(name);
  EXPECT_EQ(w.report(SkipRules("", 0)).unclaimed, (std::vector<std::string>{"cc.weight", "experts.down_proj_blocks"}));
}

TEST_F(BinderTest, ShapesOnlyDecodesNothing) {
  std::vector<TestTensor> tensors = {{"a.weight", DType::F8E4M3, {4, 8}}, {"a.weight_scale", DType::F32, {5}}};
  const Checkpoint checkpoint = open(tensors);
  expect_contains(message_of([&] { WeightBinder(checkpoint).shapes_only()("a.weight", {4, 8}); }), "are F32 [5]");
  tensors[1].shape = {1};  // its bytes are a NaN or not: nobody looks
  const Checkpoint again = open(tensors);
  const WeightBinder shapes = WeightBinder(again).shapes_only();
  EXPECT_EQ(str(shapes.at("a.")("weight", {4, 8})), "BF16 [4, 8]");
}

TEST_F(BinderTest, ReleasedTensorsCanBeReadAgain) {
  const Checkpoint checkpoint = open(kModel);
  const WeightBinder w = WeightBinder(checkpoint).at("model.layers.0.");
  w.prefetch();
  const uint16_t before = *w("self_attn.k_proj.weight", {4, 8}).as<uint16_t>();
  w.release();
  EXPECT_EQ(*w("self_attn.k_proj.weight", {4, 8}).as<uint16_t>(), before);
}

TEST_F(BinderTest, ThreadsShareTheMemoryOfClaims) {
  std::vector<TestTensor> tensors;
  for (int i = 0; i < 200; ++i) tensors.push_back({"layers." + std::to_string(i) + ".weight", DType::F32, {4}});
  const Checkpoint checkpoint = open(tensors);
  const WeightBinder root(checkpoint);
  const auto take = [&](int from) {
    for (int i = from; i < 200; i += 2) {
      const WeightBinder layer = root.at("layers." + std::to_string(i) + ".");
      layer.prefetch();
      layer("weight", {4});
      layer.release();
    }
  };
  std::thread even(take, 0), odd(take, 1);
  even.join(), odd.join();
  EXPECT_EQ(root.report(SkipRules("layers.", 200)).n_claimed, 200);
}

TEST_F(BinderTest, ReportCountsByRuleAndListsTheRest) {
  std::vector<TestTensor> tensors = kModel;
  for (const char* name :
       {"mtp.layers.0.weight", "mtp.fc.weight", "model.visual.blocks.0.attn.qkv.weight", "model.layers.11.mlp.weight",
        "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.slope_rate",
        "model.layers.0.self_attn.sinks", "lm_head.weight"})
    tensors.push_back({name, DType::F32, {2}});
  const Checkpoint checkpoint = open(tensors);
  const WeightBinder root(checkpoint);
  const WeightBinder text = root.at("model.");
  text("embed_tokens.weight", {32, 8});
  text.at("layers.0.")("self_attn.k_proj.weight", {4, 8});
  text.optional("layers.0.self_attn.k_proj.bias", {4});
  text.has("layers.0.self_attn.v_proj.weight");  // looking is not asking
  root.claim("lm_head.weight");

  SkipRules rules("model.layers.", 11, {{"decay buffers", {"*.slope_rate"}}});
  const SkipReport report = root.report(rules);
  EXPECT_EQ(report.n_claimed, 4);
  std::map<std::string, int64_t> counts;
  for (const auto& skipped : report.skipped) counts[skipped.rule] = skipped.n_tensors;
  EXPECT_EQ(
      counts,
      (std::map<std::string, int64_t>{
          {"mtp", 2}, {"vision", 1}, {"extra layers", 1}, {"kv scales", 1}, {"rope tables", 1}, {"decay buffers", 1}}));
  EXPECT_EQ(report.unclaimed,
            (std::vector<std::string>{"model.layers.0.self_attn.sinks", "model.layers.0.self_attn.v_proj.weight",
                                      "model.layers.10.self_attn.v_proj.weight"}));
  rules.add({"not needed in this run", {"model.layers.*"}});
  EXPECT_TRUE(root.report(rules).unclaimed.empty());
}

TEST(SkipRules, Patterns) {
  EXPECT_TRUE(matches_pattern("a*c", "abc"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a.*.b", "a.x.y.b"));
  EXPECT_TRUE(matches_pattern("*aab", "aaaab"));
  EXPECT_FALSE(matches_pattern("a*c", "abcd"));
  EXPECT_FALSE(matches_pattern("", "a"));
  EXPECT_FALSE(matches_pattern("*.visual.*", "model.visualise.x"));
  EXPECT_FALSE(matches_pattern("*a*a*a*a*a*a*a*a*b", std::string(100000, 'a'))) << "not exponential";
}

TEST(SkipRules, CommonRules) {
  const SkipRules rules("model.layers.", 4);
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"model.visual.patch_embed.proj.weight", "vision"},
      {"visual.merger.mlp.0.weight", "vision"},
      {"model.vision_tower.encoder.layers.0.x", "vision"},
      {"model.language_model.visual.blocks.0.x", "vision"},
      {"model.image_newline", "vision"},
      {"audio_tower.layers.0.fc1.weight", "audio"},
      {"model.embed_audio.embedding.weight", "audio"},
      {"model.time_series.encoder.layers.0.fc1.weight", "time series"},
      {"multi_modal_projector.linear_1.weight", "projector"},
      {"mlp1.0.weight", "projector"},
      {"model.mtp.layers.0.x", "mtp"},
      {"model.layers.4.eh_proj.weight", "extra layers"},
      {"model.layers.61.shared_head.norm.weight", "extra layers"},
      {"model.layers.3.self_attn.k_proj.k_scale", "kv scales"},
      {"model.layers.3.self_attn.rotary_emb.inv_freq", "rope tables"},
      {"model.layers.3.mlp.down_proj.input_scale", "activation scales"},
      {"model.layers.3.mlp.down_proj.weight", ""},
      {"model.layers.3.mlp.down_proj.weight_scale", ""},
      {"model.layers.03x.weight", ""},
      {"model.layers.99999999999999999999.weight", ""},
      {"model.layers.", ""},
      {"model.layers.9", ""},
      {"model.norm.weight", ""},
  };
  for (const auto& [name, rule] : cases) EXPECT_EQ(rules.rule_for(name), rule) << name;
}

TEST(KvScaleNames, EverySpelling) {
  using Site = KvScaleName::Site;
  const std::string p = "model.language_model.layers.3.self_attn";
  const std::vector<std::pair<const char*, Site>> spellings = {{".k_scale", Site::Key},
                                                               {".v_scale", Site::Value},
                                                               {".q_scale", Site::Query},
                                                               {".attn.k_scale", Site::Key},
                                                               {".attn.v_scale", Site::Value},
                                                               {".k_proj.k_scale", Site::Key},
                                                               {".v_proj.v_scale", Site::Value},
                                                               {".qkv_proj.k_scale", Site::Key},
                                                               {".k_cache.scale", Site::Key},
                                                               {".v_cache.scale", Site::Value},
                                                               {".q.scale", Site::Query},
                                                               {".kv_scale", Site::KeyAndValue},
                                                               {".k_proj.output_scale", Site::Key},
                                                               {".prob_output_scale", Site::Probability}};
  for (const auto& [suffix, site] : spellings) {
    KvScaleName parsed;
    const std::string name = p + suffix;
    ASSERT_TRUE(parse_kv_scale_name(name, parsed)) << suffix;
    EXPECT_EQ(parsed.site, site) << suffix;
    EXPECT_EQ(parsed.attention, p) << suffix;
    EXPECT_EQ(parsed.layer, 3) << suffix;
    EXPECT_FALSE(parsed.zero_point);
  }
  KvScaleName parsed;
  ASSERT_TRUE(parse_kv_scale_name(p + ".k_zero_point", parsed));
  EXPECT_TRUE(parsed.zero_point);
  ASSERT_TRUE(parse_kv_scale_name("backbone.layers.17.mixer.k_proj.k_scale", parsed));
  EXPECT_EQ(parsed.layer, 17);
  ASSERT_TRUE(parse_kv_scale_name("layers.2.attn.v_scale", parsed));
  EXPECT_EQ(parsed.layer, 2);
  for (const char* other :
       {"model.layers.3.self_attn.k_proj.weight_scale", "model.layers.3.self_attn.k_proj.input_scale",
        "model.layers.3.self_attn.k_proj.weight", "model.layers.3.mlp.up_proj.weight_scale_inv",
        "model.layers.3.self_attn.k_proj.weight_zero_point", "model.layers.3.mlp.down_proj.output_scale", "k_scale",
        "scale", ""})
    EXPECT_FALSE(parse_kv_scale_name(other, parsed)) << other;
}

TEST_F(BinderTest, PrefixesOfAllTimes) {
  const std::vector<std::array<const char*, 3>> cases = {
      {"model.language_model.embed_tokens.weight", "model.language_model.", "lm_head.weight"},
      {"language_model.model.embed_tokens.weight", "language_model.model.", "language_model.lm_head.weight"},
      {"language_model.model.embed_tokens.weight", "language_model.model.", "lm_head.weight"},
      {"model.embed_tokens.weight", "model.", "lm_head.weight"},
      {"embed_tokens.weight", "", "lm_head.weight"},
      {"model.model.embed_tokens.weight", "model.model.", "model.lm_head.weight"},
      {"thinker.model.embed_tokens.weight", "thinker.model.", "thinker.lm_head.weight"},
      {"some.other.embed_tokens.weight", "some.other.", "some.lm_head.weight"}};
  for (const auto& [embedding, model, head] : cases) {
    const Checkpoint with_head = open({{embedding, DType::F32, {2}},
                                       {"mtp.embed_tokens.weight", DType::F32, {2}},
                                       {"audio_tower.embed_tokens.weight", DType::F32, {2}},
                                       {head, DType::F32, {2}}});
    EXPECT_EQ(detect_prefix(with_head).model, model);
    EXPECT_EQ(detect_prefix(with_head).lm_head, head);
    EXPECT_EQ(detect_prefix(open({{embedding, DType::F32, {2}}})).lm_head, "");
  }
  EXPECT_EQ(detect_prefix(open({{"model.embed_tokens.weight", DType::F32, {2}},
                                {"model.language_model.embed_tokens.weight", DType::F32, {2}}}))
                .model,
            "model.language_model.")
      << "the wrapper's part goes before the wrapper";
  EXPECT_EQ(detect_prefix(open({{"backbone.embeddings.weight", DType::F32, {2}}}), "embeddings.weight").model,
            "backbone.");
  expect_contains(message_of([&] {
                    detect_prefix(open({{"x", DType::F32, {2}}}));
                  }),
                  "no tensor is called 'embed_tokens.weight', with or without a prefix; is it a language model?");
  expect_contains(
      message_of([&] {
        detect_prefix(open({{"a.embed_tokens.weight", DType::F32, {2}}, {"b.embed_tokens.weight", DType::F32, {2}}}));
      }),
      "2 tensors end in 'embed_tokens.weight'");
}

TEST_F(BinderTest, PrefixOfQuantisedEmbeddingAndHead) {
  const Checkpoint checkpoint = open({{"model.language_model.embed_tokens.weight_packed", DType::I32, {2}},
                                      {"model.language_model.layers.0.x.weight", DType::F32, {2}},
                                      {"lm_head.qweight", DType::I32, {2}},
                                      {"lm_head.scales", DType::F16, {2}}});
  const TextPrefix prefix = detect_prefix(checkpoint);
  EXPECT_EQ(prefix.model, "model.language_model.");
  EXPECT_EQ(prefix.lm_head, "lm_head.weight");
  EXPECT_EQ(prefix.head_module(), "lm_head.");
  EXPECT_EQ(language_model_tensors(checkpoint, prefix, SkipRules("model.language_model.layers.", 1)).size(), 4u);
}

TEST_F(BinderTest, LanguageModelTensors) {
  const Checkpoint checkpoint = open({{"model.embed_tokens.weight", DType::F32, {2}},
                                      {"model.layers.0.x.weight", DType::F32, {2}},
                                      {"model.layers.5.x.weight", DType::F32, {2}},
                                      {"model.visual.x.weight", DType::F32, {2}},
                                      {"visual.x.weight", DType::F32, {2}},
                                      {"model.layers.0.self_attn.k_scale", DType::F32, {1}},
                                      {"lm_head.weight", DType::F32, {2}}});
  EXPECT_EQ(language_model_tensors(checkpoint, detect_prefix(checkpoint), SkipRules("model.layers.", 5)),
            (std::vector<std::string>{"lm_head.weight", "model.embed_tokens.weight", "model.layers.0.x.weight"}));
}

// What layers cost is counted without files: each tensor once, modules of one kind by their number.
TEST(BinderWithoutCheckpoint, CountsWhatIsAskedFor) {
  const WeightBinder all = WeightBinder::without_checkpoint();
  const WeightBinder layer = all.at("layers.0.");
  EXPECT_FALSE(layer.has("norm.weight"));
  EXPECT_EQ(layer.info("norm.weight"), nullptr);
  const Tensor norm = layer("norm.weight", {8});
  EXPECT_EQ(norm.shape, (Shape{8}));
  EXPECT_EQ(to_float(norm.as<bf16>()[7]), 0.0F);
  EXPECT_EQ(all.elements_asked(), 8);
  all("layers.0.norm.weight", {8});
  EXPECT_EQ(all.elements_asked(), 8) << "once";
  layer.uncounted("table.weight", {1000, 8});
  EXPECT_EQ(all.elements_asked(), 8);
  EXPECT_EQ(layer.rows("stack.weight", {100, 8}, 20, 10).shape, (Shape{10, 8}));
  layer.rows("stack.weight", {100, 8}, 30, 10);
  EXPECT_EQ(all.elements_asked(), 8 + 2 * 80);
  int64_t n = 0;
  for (const WeightBinder& expert : layer.modules("experts.", 50)) {
    expert("up.weight", {4, 8});
    ++n;
  }
  EXPECT_EQ(n, 1);
  EXPECT_EQ(all.elements_asked(), 8 + 2 * 80 + 50 * 32);
  EXPECT_TRUE(layer.modules("experts.", 0).empty());
}

TEST_F(BinderTest, ModulesOfACheckpointAreNumbered) {
  const Checkpoint checkpoint = open(kModel);
  const WeightBinder all(checkpoint);
  std::vector<std::string> prefixes;
  for (const WeightBinder& layer : all.modules("model.layers.", 3)) prefixes.push_back(layer.prefix());
  EXPECT_EQ(prefixes, (std::vector<std::string>{"model.layers.0.", "model.layers.1.", "model.layers.2."}));
  EXPECT_EQ(all.rows("model.layers.0.self_attn.k_proj.weight", {4, 8}, 1, 2).shape, (Shape{2, 8}));
  EXPECT_EQ(all.uncounted("model.layers.0.self_attn.k_proj.bias", {4}).shape, (Shape{4}));
}

}  // namespace
}  // namespace kvcal
