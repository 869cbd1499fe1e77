// A model of pre-norm decoder layers with ordinary attention, where some or all feed-forwards are mixtures of experts:
// a family is a config reader that fills in MoeDecoderConfig.
#pragma once

#include <optional>

#include "model/decoder_model.h"
#include "model/multipliers.h"
#include "model/self_attention.h"
#include "model/sparse_moe.h"

namespace kvcal {

struct MoeDecoderConfig {
  DecoderDims dims{};  // ffn: of dense layers
  RopeSpec rope;
  AttentionForm attention;
  MoeDims moe{};
  MoeParts (*load)(const MoeDims&, WeightLoader&, WeightBinder layer) = nullptr;
  std::vector<bool> sparse;          // per layer: experts, or "mlp." dense
  std::vector<int64_t> windows;      // per layer, 0 = none
  int64_t moe_extra_parameters = 0;  // of a sparse layer, beyond moe_parameters()
  std::optional<Multipliers> multipliers;
  std::string default_prefix = "model.";  // ModelSpec::default_prefix
};

/// All layers sparse, none with a window.
void make_uniform(MoeDecoderConfig& config);

/// h = x + r Attn(norm1 x), out = h + r FeedForward(norm2 h), with plain-gain RMSNorm and r = 1 or of the multipliers.
class MoeDecoder : public DecoderModel {
 public:
  MoeDecoder(const Json& config, MoeDecoderConfig c);

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override;

  MoeDecoderConfig c_;
};

}  // namespace kvcal
