// Pictures through the processor and the tower, against the reference framework's (tests/arch/pictures, made by
// tests/reference/make_picture_goldens.py), and through the language model behind it.
#include <gtest/gtest.h>

#include <numeric>

#include "arch/backend.h"
#include "arch/golden.h"
#include "base/read_file.h"
#include "harness/compare.h"
#include "harness/message_of.h"
#include "harness/picture_model.h"
#include "harness/tolerances.h"
#include "harness/whole_run.h"
#include "model/towers/idefics3_tower.h"
#include "model/towers/towers.h"
#include "prefill/picture_rows.h"

namespace kvcal {
namespace {

class PicturesTest : public testing::TestWithParam<std::string> {
 protected:
  std::vector<float> golden(Precision precision, const std::string& name) const {
    return golden_tensor(golden_, (precision == Precision::F32 ? "f32." : "bf16.") + name);
  }

  std::vector<Picture> pictures() const {
    std::vector<Picture> all;
    for (size_t i = 0; i < model_.golden()["images"].size(); ++i) {
      const std::string bytes = read_file(model_.image(i), 1 << 20);
      all.push_back({std::make_shared<const std::string>(bytes), processor_.grid_of(decode_image(bytes).size)});
    }
    return all;
  }

  PromptTokens prompt(const LoadedModel& m) const {
    PromptTokens p{"pictures", model_.golden()["input_ids"].get<std::vector<int32_t>>(), 1};
    p.encoder = plan_pictures(p.ids, pictures(), tower_->spec(), m.model->spec());
    return p;
  }

  void see(LoadedModel& m, const PromptTokens& p) const {
    const WeightBinder weights = m.weights.whole.at(tower_prefix(m.checkpoint, tower_->spec()));
    run_tower(*tower_, processor_, *m.ops, weights, {&p, 1});
  }

  static double bound(Precision precision) {
    return precision == Precision::F32 ? tolerance::kF32Rms : tolerance::kBf16Rms;
  }

  PictureModel model_{GetParam()};
  SafetensorsFile golden_{model_.source() / "golden.safetensors"};
  LoadedModel f32_{model_.folder(), backend(Precision::F32)};
  std::unique_ptr<VisionTower> tower_ = read_tower(f32_.checkpoint.config(), f32_.model->spec());
  PatchProcessor processor_ = PatchProcessor::load(model_.folder(), tower_->spec().patches);
};

std::vector<float> values_of(const Tensor& t) { return {t.as<float>(), t.as<float>() + t.elements()}; }

TEST_P(PicturesTest, are_cut_into_the_patches_of_the_reference) {
  std::vector<float> patches;
  Json grids = Json::array();
  for (const Picture& picture : pictures()) {
    const std::vector<float> own = processor_.patches_of(decode_image(*picture.bytes));
    patches.insert(patches.end(), own.begin(), own.end());
    grids.push_back({picture.grid.height, picture.grid.width});
  }
  EXPECT_EQ(grids, model_.golden()["grids"]);
  const SafetensorsFile of_images(model_.source().parent_path() / "images/patches.safetensors");
  EXPECT_EQ(patches, golden_tensor(of_images, model_.golden()["patches"].get<std::string>()));
}

TEST_P(PicturesTest, give_tokens_the_positions_of_the_reference) {
  const Json positions = model_.golden()["positions"];
  std::vector<int32_t> expected;
  for (const Json& axis : positions)
    for (const Json& position : axis) expected.push_back(position.get<int32_t>());
  EXPECT_EQ(prompt(f32_).encoder->positions, expected);
}

TEST_P(PicturesTest, leave_every_part_of_the_tower_as_in_the_reference) {
  for (const Precision precision : {Precision::F32, Precision::BF16}) {
    LoadedModel m(model_.folder(), backend(precision));
    WeightBinder weights = m.weights.whole.at(tower_prefix(m.checkpoint, tower_->spec()));
    const auto input = tower_->load_input(*m.ops, weights);
    std::vector<std::unique_ptr<TowerPart>> blocks;
    for (int i = 0; i < tower_->spec().n_blocks; ++i) blocks.push_back(tower_->load_block(i, *m.ops, weights));
    std::vector<std::vector<float>> behind(blocks.size());
    for (const Picture& picture : pictures()) {
      std::vector<float> values = processor_.patches_of(decode_image(*picture.bytes));
      const int64_t n = picture.grid.n_patches();
      const Storage patches({n, static_cast<int64_t>(values.size()) / n}, m.ops->activation_dtype());
      if (precision == Precision::F32)
        std::copy(values.begin(), values.end(), patches.tensor().as<float>());
      else
        convert_to_bf16(DType::F32, values.data(), patches.tensor().as<bf16>(), values.size());
      Tensor x = input->forward(*m.ops, m.ops->upload(patches.tensor()), picture.grid);
      for (size_t i = 0; i < blocks.size(); ++i) {
        x = blocks[i]->forward(*m.ops, x, picture.grid);
        const std::vector<float> own = kvcal::values_of(*m.ops, x);
        behind[i].insert(behind[i].end(), own.begin(), own.end());
      }
      m.ops->end_batch();
    }
    for (size_t i = 0; i < blocks.size(); ++i)
      EXPECT_TRUE(close(behind[i], golden(precision, "block." + std::to_string(i)), bound(precision))) << i;
  }
}

TEST_P(PicturesTest, become_the_rows_of_the_reference) {
  for (const Precision precision : {Precision::F32, Precision::BF16}) {
    LoadedModel m(model_.folder(), backend(precision));
    const PromptTokens seen = prompt(m);
    see(m, seen);
    const EncoderRows& rows = *seen.encoder;
    EXPECT_TRUE(close(values_of(rows.embeddings), golden(precision, "rows"), bound(precision)));
    for (size_t i = 0; i < rows.deepstack.size(); ++i) {
      const std::vector<float> expected = golden(precision, "deepstack." + std::to_string(i));
      EXPECT_TRUE(close(values_of(rows.deepstack[i]), expected, bound(precision))) << i;
    }
  }
}

TEST_P(PicturesTest, become_the_keys_and_values_of_the_reference) {
  const std::vector<PromptTokens> prompts = {prompt(f32_)};
  see(f32_, prompts[0]);
  const std::vector<Sequence> sequences = singles(prompts);
  RecordingTap tap;
  DownloadingTap shown(*f32_.ops, tap);
  LastLogits logits;
  Runner(*f32_.model, *f32_.ops, f32_.weights, 256).run({{&sequences, &shown, Until::Logits, &logits}}, prompts);
  for (const KvLayout& c : f32_.model->spec().caches)
    for (const auto& [site_name, site] :
         {std::pair{"key.", Site::Key}, {"value.", Site::Value}, {"query.", Site::Query}}) {
      const std::string name = site_name + std::to_string(c.layer);
      EXPECT_TRUE(close(tap.seen[{0, c.cache, site}].values, golden(Precision::F32, name), tolerance::kF32Rms)) << name;
    }
  EXPECT_TRUE(close(logits.logits[0], golden(Precision::F32, "logits"), tolerance::kF32Rms));
}

TEST(Pictures, of_a_gemma_3_are_seen_whole_in_the_language_model) {
  const PictureModel model("gemma3_vl");
  const Json config = read_json_file(model.folder() / "config.json");
  const std::unique_ptr<Model> parsed = parse_model(config);
  const Picture picture{nullptr, {6, 6}};
  const std::vector<int32_t> ids = {1, 92, 92, 92, 92, 2};
  const auto rows = plan_pictures(ids, {picture}, read_tower(config, parsed->spec())->spec(), parsed->spec());
  EXPECT_EQ(rows->last_seen, (std::vector<int32_t>{0, 4, 4, 4, 4, 5}));
}

TEST(Pictures, of_gemma_4_have_no_more_patches_on_a_side_than_learned_positions) {
  const PictureModel model("gemma4");
  LoadedModel m(model.folder(), backend(Precision::F32));
  WeightBinder weights = m.weights.whole.at("model.");
  const std::unique_ptr<VisionTower> tower = read_tower(m.checkpoint.config(), m.model->spec());
  const auto input = tower->load_input(*m.ops, weights);
  const auto forward = [&](const PatchGrid& grid) {
    const Storage patches({grid.n_patches(), 12}, DType::F32);
    return message_of([&] { input->forward(*m.ops, m.ops->upload(patches.tensor()), grid); });
  };
  EXPECT_EQ(forward({2, 96}), "no error");
  EXPECT_EQ(forward({98, 2}), "position_embedding_size is 96, expected at least the 98 patches on a side of a picture");
}

TEST(Pictures, of_pixtral_have_rows_that_end_with_tokens_of_their_own) {
  const PictureModel model("mistral3");
  const Json config = read_json_file(model.folder() / "config.json");
  const std::unique_ptr<Model> parsed = parse_model(config);
  const TowerSpec tower = read_tower(config, parsed->spec())->spec();
  const Picture picture{nullptr, {4, 6}};
  const auto row_of = [&](const std::vector<int32_t>& ids) {
    return plan_pictures(ids, {picture}, tower, parsed->spec())->row_of;
  };
  EXPECT_EQ(row_of({1, 92, 92, 92, 91, 92, 92, 92, 90}), (std::vector<int32_t>{-1, 0, 1, 2, -1, 3, 4, 5, -1}));
  EXPECT_EQ(message_of([&] {
              row_of({1, 92, 92, 92, 92, 92, 92, 90});
            }),
            "fewer image tokens than a picture has squares");
}

TEST(Pictures, of_smolvlm_have_texts_among_their_tiles) {
  const PictureModel model("smolvlm");
  const Json config = read_json_file(model.folder() / "config.json");
  const std::unique_ptr<Model> parsed = parse_model(config);
  const TowerSpec tower = read_tower(config, parsed->spec())->spec();
  const auto row_of = [&](const PatchGrid& grid, const std::vector<int32_t>& ids) {
    return plan_pictures(ids, {Picture{nullptr, grid}}, tower, parsed->spec())->row_of;
  };
  EXPECT_EQ(row_of({4, 4}, {90, 88, 92, 92, 92, 92, 90, 5}), (std::vector<int32_t>{-1, -1, 0, 1, 2, 3, -1, -1}));
  EXPECT_EQ(row_of({12, 4, 2}, {90, 63, 92, 92, 92, 92, 90, 64, 92, 92, 92, 92, 42, 90, 88, 92, 92, 92, 92, 90}),
            (std::vector<int32_t>{-1, -1, 0, 1, 2, 3, -1, -1, 4, 5, 6, 7, -1, -1, -1, 8, 9, 10, 11, -1}));
  EXPECT_EQ(message_of([&] {
              row_of({12, 4, 2}, std::vector<int32_t>(12, 92));
            }),
            "fewer image tokens than a picture has squares");
}

TEST(Pictures, of_llama_4_have_separators_between_their_tiles) {
  const PictureModel model("llama4");
  const Json config = read_json_file(model.folder() / "config.json");
  const std::unique_ptr<Model> parsed = parse_model(config);
  const TowerSpec tower = read_tower(config, parsed->spec())->spec();
  const auto texts_of = [&](const PatchGrid& squares) {
    std::string all;
    for (const PicturePart& part : parts_of(tower.text, squares))
      all += part.text + (part.n_rows > 0 ? std::to_string(part.n_rows) : "");
    return all;
  };
  EXPECT_EQ(texts_of({3, 3}), "<|image_start|><|image|>9<|image_end|>");
  EXPECT_EQ(texts_of({7, 1, 3}),
            "<|image_start|>1<|tile_x_separator|>1<|tile_x_separator|>1<|tile_y_separator|>1<|tile_x_separator|>1"
            "<|tile_x_separator|>1<|tile_y_separator|><|image|>1<|image_end|>");
  EXPECT_EQ(texts_of({6, 2, 1}), "<|image_start|>4<|tile_y_separator|>4<|tile_y_separator|><|image|>4<|image_end|>");
}

TEST(Pictures, of_idefics_3_have_patches_at_the_fractions_of_the_reference) {
  for (const int64_t side : {1, 2, 26, 27, 32}) {
    std::vector<int32_t> each(static_cast<size_t>(side));
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(positions_by_fraction(side), each);
  }
  const auto at_the_one_before = [](int64_t side) {
    std::vector<int32_t> found;
    const std::vector<int32_t> positions = positions_by_fraction(side);
    for (int32_t i = 0; i < side; ++i)
      if (positions[static_cast<size_t>(i)] == i - 1) found.push_back(i);
    return found;
  };
  EXPECT_EQ(at_the_one_before(19), (std::vector<int32_t>{12}));
  EXPECT_EQ(at_the_one_before(25), (std::vector<int32_t>{5, 9, 10, 11, 12, 13, 15, 18, 20, 23}));
  EXPECT_EQ(at_the_one_before(54), (std::vector<int32_t>{44, 45}));
}

INSTANTIATE_TEST_SUITE_P(Cases, PicturesTest, testing::ValuesIn(picture_cases()),
                         [](const auto& c) { return c.param; });

/// Loads every part of a checkpoint's tower; false where it has none.
bool load_tower(const std::filesystem::path& folder) {
  LoadedModel m(folder, backend(Precision::BF16));
  if (m.model->spec().placeholders.empty()) return false;  // of an InternVLChatModel without a tokenizer
  const std::unique_ptr<VisionTower> tower = read_tower(m.checkpoint.config(), m.model->spec());
  const TowerSpec& spec = tower->spec();
  if (std::ranges::none_of(spec.prefixes, [&](const auto& prefix) { return m.checkpoint.has(prefix + spec.first); }))
    return false;
  WeightBinder weights = m.weights.whole.at(tower_prefix(m.checkpoint, spec));
  tower->load_input(*m.ops, weights);
  for (int i = 0; i < spec.n_blocks; ++i) tower->load_block(i, *m.ops, weights);
  for (size_t i = 0; i < spec.deepstack_after.size(); ++i) tower->load_deepstack(i, *m.ops, weights);
  tower->load_output(*m.ops, weights);
  EXPECT_EQ(static_cast<int64_t>(spec.deepstack_after.size()), m.model->spec().n_deepstack) << folder;
  size_t unused = m.checkpoint.names_below("vision_tower.head.").size();  // of SigLIP, for pictures alone
  if (m.model->spec().architecture.starts_with("Llava"))                  // behind the block whose rows are projected
    for (const std::string& part :
         {"encoder.layers." + std::to_string(spec.n_blocks) + ".", std::string("post_layernorm.")})
      for (const char* module : {"vision_tower.", "vision_tower.vision_model.", "model.vision_tower."})
        unused += m.checkpoint.names_below(module + part).size();
  for (const SkipReport::Skipped& skipped : m.weights.report().skipped)
    EXPECT_TRUE(skipped.rule != "vision" || skipped.n_tensors == static_cast<int64_t>(unused)) << folder;
  return true;
}

TEST(Pictures, go_through_towers_of_every_class) {
  for (const std::string& name : picture_cases()) {
    const PictureModel model(name);
    EXPECT_TRUE(load_tower(model.folder()));
    load_tower(model.text_folder());  // by other names
  }
}

TEST(Pictures, of_a_canvas_have_as_many_tokens_as_the_reference) {
  const PictureModel model("llava_onevision");
  const Json config = read_json_file(model.folder() / "config.json");
  const auto n_tokens = [&](const char* ratio, const PatchGrid& squares) {
    Json other = config;
    if (ratio) other["vision_aspect_ratio"] = ratio;
    const TowerSpec tower = read_tower(other, parse_model(config)->spec())->spec();
    return parts_of(tower.text, squares).at(0).n_rows;
  };
  EXPECT_EQ(n_tokens("anyres_max_9", {16 * 27, 27, 5, 75, 135}), 729 + 6480 + 60);
  EXPECT_EQ(n_tokens("anyres_max_9", {37 * 27, 27, 6, 162, 162}), 729 + 6561 + 81);
  EXPECT_EQ(n_tokens("anyres_max_9", {13 * 27, 27, 2, 162, 54}), 729 + 6440 + 140);
  EXPECT_EQ(n_tokens("anyres_max_9", {2 * 27, 27, 1, 27, 1}), 729 + 27 + 27);
  EXPECT_EQ(n_tokens("anyres_max_1", {5 * 3, 3, 2, 5, 2}), 9 + 10 + 5) << "a little more than a tile";
  const PictureModel next("llava_next");
  const Json of_next = read_json_file(next.folder() / "config.json");
  const TowerSpec tower = read_tower(of_next, parse_model(of_next)->spec())->spec();
  EXPECT_EQ(parts_of(tower.text, {3 * 24, 24, 2, 24, 0}).at(0).n_rows, 576 + 24) << "nothing but ends of lines";
}

TEST(Pictures, refusals_name_the_cause) {
  const PictureModel model("qwen3_vl");
  LoadedModel m(model.folder(), backend(Precision::F32));
  const Json& config = m.checkpoint.config();
  const ModelSpec& spec = m.model->spec();
  ModelSpec other = spec;
  other.architecture = "Kimi_K25ForConditionalGeneration";
  EXPECT_EQ(message_of([&] { read_tower(config, other); }),
            "the vision tower of a Kimi_K25ForConditionalGeneration is not run here; give \"embeddings\" instead of "
            "pictures");
  const TowerSpec tower = read_tower(config, spec)->spec();
  const Picture picture{nullptr, {4, 4}};
  EXPECT_EQ(message_of([&] {
              plan_pictures(std::vector{1, 92, 92, 92, 92}, {}, tower, spec);
            }),
            "more image tokens than pictures");
  EXPECT_EQ(message_of([&] {
              plan_pictures(std::vector{1, 92, 92, 92, 2}, {picture}, tower, spec);
            }),
            "fewer image tokens than a picture has squares");
  EXPECT_EQ(message_of([&] {
              plan_pictures(std::vector{1, 2}, {picture}, tower, spec);
            }),
            "fewer image tokens than pictures");
}

}  // namespace
}  // namespace kvcal
