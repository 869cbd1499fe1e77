// MTP: a decoder layer behind the last one that servers use to draft tokens (docs/model-notes.md, "MTP layers"). It has
// a KV cache of its own. At a token's position it reads the final hidden state of that token and the embedding of the
// token behind it.
#pragma once

#include <memory>
#include <string>

#include "model/block.h"
#include "model/layers/decoder_parts.h"

namespace kvcal {

/// How a family names the tensors of an MTP layer, and where they are.
struct MtpNames {
  std::string begin;  // of all of them: "mtp.", or below the language model's prefix "layers.46."
  std::string layer;  // of the decoder layer, below that: "layers.0."
  std::string projection, embedding_norm, hidden_norm;
};

/// What the decoder layer reads: Wp [ norm_e(embedding of the next token) | norm_h(norm_final(x)) ], or as MiMo has it
/// Wp [ norm_h(x) | norm_e(...) ].
enum class MtpOrder : uint8_t { EmbeddingFirst, BareHiddenFirst };

struct MtpInput {
  std::unique_ptr<Embedding> embedding;
  float eps;
  Owned final_norm, hidden_norm, embedding_norm;  // [hidden]
  Linear projection;                              // [hidden, 2 hidden]
  MtpOrder order = MtpOrder::EmbeddingFirst;
};

/// `text` is positioned at the language model, `w` at the MTP layer.
MtpInput load_mtp_input(const ModelSpec& spec, const MtpNames& names, Gain gain, float eps, WeightLoader& loader,
                        WeightBinder& text, WeightBinder& w);

/// Makes the last layer of the spec the MTP layer: the names of its cache and tensors, and what it allocates
/// per token.
void finish_mtp_layer(ModelSpec& spec, const MtpNames& names);

/// x: the residual stream behind the last decoder layer. The batch's ids are those of the next tokens, its positions
/// those of the rows of x.
class MtpBlock final : public Block {
 public:
  MtpBlock(MtpInput input, std::unique_ptr<Block> layer) : in_(std::move(input)), layer_(std::move(layer)) {}
  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override;

 private:
  MtpInput in_;
  std::unique_ptr<Block> layer_;
};

}  // namespace kvcal
