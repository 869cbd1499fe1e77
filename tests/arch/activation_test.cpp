// Rounded activations against the reference framework with its linear layers' inputs rounded (made by
// tests/reference/make_quantized_goldens.py): Q, K, V of every layer, the residual stream after every layer, logits.
#include <gtest/gtest.h>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/compare.h"
#include "harness/tolerances.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

std::filesystem::path root() { return std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/activation"; }

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class Activations : public ::testing::TestWithParam<std::string> {
 protected:
  /// The sequence whose tensors are kept, through all layers: taps and the residual stream after each.
  void run(Precision precision, bool rounded) {
    LoadedModel m(golden_.folder, backend(precision));
    if (rounded) {
      EXPECT_EQ(m.weights.text.emulate_activations(), golden_.json.at("activations").get<std::string>());
    }
    const auto ids = golden_.sequences().at(golden_.json.at("full_sequence").get<size_t>());
    const std::vector<PromptTokens> prompts = {{"0", ids, 1}};
    const std::vector<Sequence> sequences = {
        {0, 1, {{0, 0, static_cast<int64_t>(ids.size())}}, static_cast<int64_t>(ids.size())}};
    const Batch batch = make_batches(sequences, prompts, 4096, m.model->spec().n_position_axes).at(0);
    Tensor x = m.model->load_embedding(*m.ops, m.weights.text)->forward(*m.ops, batch);
    RunStates states(m.model->spec());
    DownloadingTap tap(*m.ops, tap_);
    for (const LayerSpec& layer : m.model->spec().layers) {
      const auto block = m.model->load_block(layer.index, *m.ops, m.weights.text);
      m.weights.text.at("layers." + std::to_string(layer.index) + ".").check_inputs_asked();
      x = block->forward(*m.ops, x, batch, states.begin(layer.index), tap, Tail::Full);
      states.end(layer.index);
      hidden_.push_back(kept_tokens(values_of(*m.ops, x), ids.size()));
    }
    caches_ = m.model->spec().caches;
    for (const std::string& name : m.weights.report().unclaimed)
      EXPECT_TRUE(name.ends_with("norm.weight") || name.ends_with("lm_head.weight")) << name << " was not used";
  }

  const std::vector<float>& seen(const KvLayout& c, Site site) { return tap_.seen.at({0, c.cache, site}).values; }

  /// The largest relative RMS difference of the kept layer's sites and of the residual stream, to those in f32.
  double difference() {
    double most = 0;
    for (const KvLayout& c : caches_) {
      if (c.layer != golden_.json.at("full_layer").get<int>()) continue;
      const auto look = [&](const char* name, Site site) {
        most = std::max(most, compare(seen(c, site), golden_.tensor(std::string("f32.") + name)).relative_rms);
      };
      look("query", Site::Query);
      if (c.is_mla()) {
        look("latent", Site::Latent);
      } else {
        look("key", Site::Key);
        look("value", Site::Value);
      }
    }
    for (size_t i = 0; i < hidden_.size(); ++i)
      most = std::max(most, compare(hidden_[i], golden_.tensor("f32.hidden." + std::to_string(i))).relative_rms);
    return most;
  }

  Golden golden_{"../activation/" + GetParam()};
  RecordingTap tap_;
  std::vector<KvLayout> caches_;
  std::vector<std::vector<float>> hidden_;
};

TEST_P(Activations, f32_matches_the_reference) {
  run(Precision::F32, true);
  EXPECT_LE(difference(), tolerance::kF32Rms);
}

// Roundings to bf16 put some inputs on the other side of an FP8 tie: as far from f32 as the reference's own bf16 is.
TEST_P(Activations, bf16_is_as_near_as_the_reference) {
  run(Precision::BF16, true);
  EXPECT_LE(difference(), 1.5 * golden_.json.at("rms_moved_by_bf16").get<double>());
}

TEST_P(Activations, TheRoundingIsWhatMovesThem) {
  run(Precision::F32, false);
  const double moved = golden_.json.at("rms_moved_by_activations");
  EXPECT_GE(moved, 100 * tolerance::kF32Rms);
  EXPECT_GE(difference(), moved / 4);  // `moved` is of all sequences and layers
}

INSTANTIATE_TEST_SUITE_P(Golden, Activations, ::testing::ValuesIn(cases()), [](const auto& p) { return p.param; });

}  // namespace
}  // namespace kvcal
