#include "prefill/weight_check.h"

#include <cassert>

namespace kvcal {
namespace {

// Takes weights and forgets them; nothing can be computed with it.
class BindingOps final : public Ops {
 public:
  BindingOps() : Ops(Precision::BF16) {}
  std::string isa() const override { return "none"; }
  Tensor temporary(const Shape&, DType) override { return never(); }
  void end_batch() override {}
  Owned allocate(const Shape&, DType) override { return {}; }
  Tensor upload(const Tensor&) override { return never(); }
  void download(const Tensor&, const Tensor&) override { never(); }

 protected:
  Linear do_load_linear(const Tensor& weight, const Tensor&) override {
    return {weight.dim(1), weight.dim(0), std::make_shared<int>(0), {}};
  }
  Linear do_load_linear_f32(const Tensor& weight, const Tensor& bias) override { return do_load_linear(weight, bias); }
  Owned do_load_vector(const Tensor& weight, DType, float) override { return {weight, nullptr}; }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor&, const Tensor&, int64_t) override { return {}; }
  Tensor do_embed(const Tensor&, std::span<const int32_t>) override { return never(); }
  Tensor do_linear(const Tensor&, const Linear&) override { return never(); }
  Tensor do_linear_f32(const Tensor&, const Linear&) override { return never(); }
  Tensor do_round_input(const Tensor&, const InputRounding&) override { return never(); }
  Tensor do_rms_norm(const Tensor&, const Tensor&, float) override { return never(); }
  Tensor do_add(const Tensor&, const Tensor&) override { return never(); }
  Tensor do_linear_per_head(const Tensor&, std::span<const Linear>) override { return never(); }
  Tensor do_layer_norm(const Tensor&, const Tensor&, const Tensor&, float) override { return never(); }
  Tensor do_scale(const Tensor&, float) override { return never(); }
  Tensor do_mul(const Tensor&, const Tensor&) override { return never(); }
  Tensor do_activate(const Tensor&, Activation) override { return never(); }
  Tensor do_softcap(const Tensor&, float) override { return never(); }
  Tensor do_join(const Tensor&, const Tensor&) override { return never(); }
  Tensor do_glu(const Tensor&, const Tensor&, Activation) override { return never(); }
  Tensor do_sigmoid_mul(const Tensor&, const Tensor&) override { return never(); }
  Tensor do_columns(const Tensor&, int64_t, int64_t) override { return never(); }
  Tensor do_take_rows(const Tensor&, std::span<const int64_t>) override { return never(); }
  Tensor do_rope_table(std::span<const int32_t>, int64_t, const RopeSpec&) override { return never(); }
  Tensor do_rope(const Tensor&, const Tensor&, const RopeSpec&) override { return never(); }
  Tensor do_attention(const Tensor&, const Tensor&, const Tensor&, std::span<const Span>, std::span<KvRows* const>,
                      const AttentionSpec&) override {
    return never();
  }
  Tensor do_attend_kept(const Tensor&, std::span<const Span>, std::span<const KvRows* const>,
                        const AttentionSpec&) override {
    return never();
  }
  void do_keep_rows(const Tensor&, const Tensor&, std::span<const Span>, std::span<KvRows* const>) override { never(); }
  AttentionSample do_sample_attention(const Tensor&, const Tensor&, const Tensor&, std::span<const Span>,
                                      std::span<const KvRows* const>, const AttentionSpec&,
                                      const SampleRequest&) override {
    never();
    return {};
  }
  Tensor do_causal_conv(const Tensor&, const ConvWeights&, std::span<const Span>,
                        std::span<ConvState* const>) override {
    return never();
  }
  Tensor do_l2_norm(const Tensor&, float) override { return never(); }
  DeltaGates do_delta_gates(const Tensor&, const Tensor&, const Tensor&, const Tensor&) override { return {}; }
  DeltaGates do_channel_delta_gates(const Tensor&, const Tensor&, const Tensor&, const Tensor&) override { return {}; }
  Tensor do_gated_delta_rule(const Tensor&, const Tensor&, const Tensor&, const DeltaGates&, std::span<const Span>,
                             std::span<DeltaState* const>) override {
    return never();
  }
  Tensor do_gated_rms_norm(const Tensor&, const Tensor&, const GatedNormSpec&) override { return never(); }
  Routing do_route(const Tensor&, const RoutingSpec&) override { return {}; }
  Tensor do_experts(const Tensor&, const Routing&, std::span<const GluWeights>) override { return never(); }
  Tensor do_ssd(const SsmInputs&, const SsmWeights&, std::span<const Span>, std::span<SsmState* const>) override {
    return never();
  }
  Tensor do_selective_scan(const SsmInputs&, const SsmWeights&, std::span<const Span>,
                           std::span<SsmState* const>) override {
    return never();
  }
  void do_accumulate(const Tensor&, const TapTables&, std::span<const TapRows>) override { never(); }

 private:
  static Tensor never() {
    assert(false && "BindingOps computes nothing");
    return {};
  }
};

}  // namespace

void check_weights(const Model& model, ModelWeights& weights, int n_layers, bool with_head) {
  BindingOps op;
  WeightBinder text = weights.text.shapes_only(), head = weights.head.shapes_only();
  model.load_embedding(op, text);
  for (int i = 0; i < n_layers; ++i) {
    while_doing("checking the weights of layer " + std::to_string(i), [&] { return model.load_block(i, op, text); });
    const WeightBinder layer = text.at("layers." + std::to_string(i) + ".");
    layer.check_inputs_asked();
    layer.release();
  }
  if (with_head) while_doing("checking the output head", [&] { return model.load_head(op, text, head); });
}

}  // namespace kvcal
