// Ops that belong together, byte for byte against the ops they are made of, on the same backend.
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

constexpr Precision kPrecisions[] = {Precision::F32, Precision::BF16};

/// Rows [from, from + n) of a weight, or elements of a bias.
Values slice(const Values& w, int64_t from, int64_t n) {
  const int64_t width = w.tensor().elements() / w.tensor().dim(0);
  const auto first = w.real.begin() + from * width;
  return values(w.tensor().shape.rank() == 1 ? Shape{n} : Shape{n, width}, w.tensor().dtype,
                {first, first + n * width});
}

TEST(Fused, AddAndNorm) {
  for (const Precision p : kPrecisions)
    for (const int64_t width : {1, 7, 64, 128, 136, 1000, 1024, 1032, 2056})
      for (const Gain kind : {Gain::Plain, Gain::OnePlus}) {
        SCOPED_TRACE(width);
        const auto op = backend(p);
        const Values x = random_values({9, width}, op->activation_dtype(), 1, Fill::Outliers),
                     y = random_values({9, width}, op->activation_dtype(), 2),
                     w = random_values({width}, DType::BF16, 3);
        const Owned gain = op->load_gain(w, kind);
        const Ops::SumAndNorm fused = op->add_rms_norm(x, y, gain, 1e-6f);
        const Tensor sum = op->add(x, y);
        EXPECT_TRUE(bytes_of(fused.sum) == bytes_of(sum));
        EXPECT_TRUE(bytes_of(fused.normed) == bytes_of(op->rms_norm(sum, gain, 1e-6f)));
      }
}

TEST(Fused, AddAndNormOfRowsInsideATensor) {  // which begin at addresses that vectors cannot be read from
  for (const Precision p : kPrecisions) {
    const auto op = backend(p);
    const Values x = random_values({5, 24}, op->activation_dtype(), 1), w = random_values({23}, DType::BF16, 3);
    const Owned gain = op->load_gain(w, Gain::OnePlus);
    const Tensor up = op->upload(x).reshaped({120});
    const Tensor inside = up.rows(1, 115).reshaped({5, 23});
    const Ops::SumAndNorm fused = op->add_rms_norm(inside, inside, gain, 1e-6f);
    EXPECT_TRUE(bytes_of(fused.normed) == bytes_of(op->rms_norm(op->add(inside, inside), gain, 1e-6f)));
  }
}

constexpr Activation kActivations[] = {Activation::Silu,  Activation::Gelu,    Activation::GeluTanh,
                                       Activation::Relu2, Activation::Clamped, Activation::Capped};

TEST(Fused, GluMlp) {
  for (const Precision p : kPrecisions)
    for (const int64_t ffn : {1, 20, 24, 64, 300})
      for (const Activation act : kActivations)
        for (const bool biased : {false, true}) {
          SCOPED_TRACE(ffn);
          const auto op = backend(p);
          const DType t = op->activation_dtype();
          const Values x = random_values({5, 40}, t, 1), both = random_values({2 * ffn, 40}, t, 2),
                       down = random_values({40, ffn}, t, 3), bias = random_values({2 * ffn}, DType::F32, 4);
          const Values gate = slice(both, 0, ffn), up = slice(both, ffn, ffn), gate_bias = slice(bias, 0, ffn),
                       up_bias = slice(bias, ffn, ffn);
          const auto with = [&](const Values& w, const Values& b) {
            return HostLinear{w.tensor(), biased ? b.tensor() : Tensor{}};
          };
          const GluWeights w = op->load_glu(with(gate, gate_bias), with(up, up_bias), {down.tensor(), {}}, act);
          const Tensor y = op->glu_mlp(x, w);
          EXPECT_EQ(y.shape, (Shape{5, 40}));
          // One product with all rows, as a backend that has them in one weight makes it, or two.
          Tensor g = op->linear(x, w.gate), u = op->linear(x, w.up);
          if (w.gate_up) {
            const Tensor product = op->linear(x, w.gate_up);
            g = op->columns(product, 0, ffn);
            u = op->columns(product, ffn, ffn);
          }
          EXPECT_TRUE(bytes_of(y) == bytes_of(op->linear(op->glu(g, u, act), w.down)));
          const Linear alone = op->load_linear(gate, biased ? gate_bias.tensor() : Tensor{});
          expect_close("gate", read(g), read(op->linear(x, alone)), {p == Precision::BF16 ? 0x1p-7 : 1e-6, 1e-6});
        }
}

TEST(Fused, MlpWithoutAGate) {
  for (const Precision p : kPrecisions)
    for (const Activation act : {Activation::Gelu, Activation::Relu2}) {
      const auto op = backend(p);
      const DType t = op->activation_dtype();
      const Values x = random_values({5, 40}, t, 1), up = random_values({24, 40}, t, 2),
                   down = random_values({40, 24}, t, 3), bias = random_values({24}, DType::F32, 4);
      const GluWeights w = op->load_mlp({up, bias}, {down, {}}, act);
      EXPECT_TRUE(bytes_of(op->glu_mlp(x, w)) == bytes_of(op->linear(op->activate(op->linear(x, w.up), act), w.down)));
    }
}

struct HeadsCase {
  int64_t heads, kv_heads, key_dim, value_dim, rotary;
  bool normed, interleaved, biased;
};
constexpr HeadsCase kHeadsCases[] = {
    {1, 1, 2, 2, 2, true, false, false},      {4, 2, 12, 12, 12, false, false, true},
    {4, 2, 16, 16, 16, true, false, false},   {4, 2, 32, 32, 8, true, false, false},
    {2, 1, 128, 128, 128, true, false, true}, {2, 1, 256, 256, 64, true, false, false},
    {3, 1, 24, 16, 24, false, true, false},   {2, 2, 20, 12, 10, true, true, false},
    {2, 1, 64, 64, 64, true, true, false},    {2, 1, 192, 128, 64, false, false, false},
    {2, 1, 17, 5, 0, true, false, false},     {1, 1, 1032, 8, 16, true, false, false},
};

TEST(Fused, ProjectHeads) {
  constexpr int64_t kTokens = 7, kIn = 24;
  for (const Precision p : kPrecisions)
    for (const HeadsCase& c : kHeadsCases)
      for (const Gain kind : {Gain::Plain, Gain::OnePlus}) {
        SCOPED_TRACE(c.key_dim);
        const auto op = backend(p);
        const DType t = op->activation_dtype();
        const int64_t extents[] = {c.heads * c.key_dim, c.kv_heads * c.key_dim, c.kv_heads * c.value_dim};
        const Values x = random_values({kTokens, kIn}, t, 1);
        std::vector<Values> weight, bias, gain;
        for (const int64_t n : extents) {
          const auto seed = static_cast<uint32_t>(weight.size());
          weight.push_back(random_values({n, kIn}, t, 10 + seed));
          bias.push_back(random_values({n}, DType::F32, 20 + seed));
          gain.push_back(random_values({c.key_dim}, DType::BF16, 30 + seed));
        }
        std::vector<HostLinear> host;
        for (size_t i = 0; i < 3; ++i) host.push_back({weight[i], c.biased ? bias[i].tensor() : Tensor{}});
        const LinearGroup group = op->load_linears(host);

        RopeSpec rope{c.rotary, {}, 1.0f, c.interleaved, {}};
        for (int64_t i = 0; i < c.rotary / 2; ++i) rope.inverse_frequency.push_back(1.0f / static_cast<float>(1 + i));
        std::vector<int32_t> positions(kTokens);
        for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(100 * i);
        const Tensor table = op->rope_table(positions, kTokens, rope);
        const Owned q_gain = op->load_gain(gain[0], kind), k_gain = op->load_gain(gain[1], kind);
        const Tensor none;
        const HeadsPart parts[] = {{c.key_dim, c.normed ? q_gain.view : none, true},
                                   {c.key_dim, c.normed ? k_gain.view : none, true},
                                   {c.value_dim, none, false}};
        const std::vector<Tensor> heads = op->project_heads(x, group, {parts, 1e-6f, table, rope});

        const bool one_product = group.all && c.key_dim <= 1024;  // wider heads are left to the ops one by one
        int64_t column = 0;
        for (size_t i = 0; i < 3; ++i) {
          Tensor y =
              one_product ? op->columns(op->linear(x, group.all), column, extents[i]) : op->linear(x, group.parts[i]);
          column += extents[i];
          y = y.reshaped({kTokens, extents[i] / parts[i].head_dim, parts[i].head_dim});
          if (parts[i].gain) y = op->rms_norm(y, parts[i].gain, 1e-6f);
          if (parts[i].turned) y = op->rope(y, table, rope);
          EXPECT_EQ(heads[i].shape, y.shape);
          EXPECT_TRUE(bytes_of(heads[i]) == bytes_of(y)) << "part " << i;
        }
      }
}

TEST(Fused, WeightsOfAGroupMultiplyTheSameInput) {
  const auto op = backend(Precision::F32);
  const Values a = random_values({4, 8}, DType::F32, 1), b = random_values({4, 9}, DType::F32, 2);
  const HostLinear both[] = {{a, {}}, {b, {}}};
  EXPECT_THROW(op->load_linears(both), std::exception);
}

}  // namespace
}  // namespace kvcal::test
