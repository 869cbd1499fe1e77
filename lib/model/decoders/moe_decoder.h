// A model of pre-norm decoder layers with ordinary attention, where some or all feed-forwards are mixtures of experts:
// a family is a config reader that fills in MoeDecoderConfig.
#pragma once

#include <functional>
#include <optional>

#include "model/decoders/decoder_model.h"
#include "model/decoders/mtp.h"
#include "model/layers/multipliers.h"
#include "model/layers/self_attention.h"
#include "model/layers/sparse_moe.h"

namespace kvcal {

struct MoeDecoderConfig {
  DecoderDims dims{};  // ffn: of dense layers
  RopeSpec rope;
  std::vector<RopeSpec> ropes;  // per layer, of no dimension = none; empty: `rope` everywhere
  AttentionForm attention;
  Gain gain = Gain::Plain;  // of norm1, norm2 and the last one
  MoeDims moe{};            // its activation is that of dense layers too
  MoeParts (*load)(const MoeDims&, WeightLoader&, WeightBinder layer) = nullptr;
  // Of a layer whose keys are picked; null for others, or everywhere.
  std::function<std::unique_ptr<KeyPicker>(const KvLayout&, const RopeSpec&, WeightLoader&, WeightBinder layer)> picker;
  std::vector<bool> sparse;      // per layer: experts, or "mlp." dense
  std::vector<int64_t> windows;  // per layer, 0 = none
  std::optional<Multipliers> multipliers;
  std::string default_prefix = "model.";  // ModelSpec::default_prefix
  std::string embedding = "embed_tokens.weight";
  MtpNames mtp{};  // of a layer without a window (nextn.h), or none
  bool mtp_is_sparse = true;

  const RopeSpec& rope_of(int layer) const { return ropes.empty() ? rope : ropes[static_cast<size_t>(layer)]; }
};

/// All layers sparse, none with a window.
void make_uniform(MoeDecoderConfig& config);

/// h = x + r Attn(norm1 x), out = h + r FeedForward(norm2 h), with RMSNorm and r = 1 or of the multipliers.
class MoeDecoder : public DecoderModel {
 public:
  MoeDecoder(const Json& config, MoeDecoderConfig c);
  void append_mtp_layer() override;
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override;

 protected:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override;

 private:
  void add_layer(size_t i);

  MoeDecoderConfig c_;
};

}  // namespace kvcal
