// P4 to P8: single ops at the sizes of real models.
#include <cmath>
#include <random>

#include "bench/gpu/bench.h"

namespace kvcal::bench {
namespace {

struct AttentionShape {
  const char* name;
  int64_t n_heads, n_kv_heads, key_dim, value_dim, window;
};
// peers.py has the same list, by name.
constexpr AttentionShape kAttentionShapes[] = {
    {"hd64 gqa", 32, 8, 64, 64, 0},   {"hd128 gqa", 32, 8, 128, 128, 0},  {"hd256 gqa", 16, 2, 256, 256, 0},
    {"192/128", 32, 32, 192, 128, 0}, {"hd128 mha", 32, 32, 128, 128, 0},
};

void bench_one_attention(const Options& o, Ops& op, const AttentionShape& s, int64_t batch, int64_t length,
                         const std::string& whose) {
  const int64_t tokens = batch * length;
  const Owned q = random_tensor(op, {tokens, s.n_heads, s.key_dim}, 1),
              k = random_tensor(op, {tokens, s.n_kv_heads, s.key_dim}, 2),
              v = random_tensor(op, {tokens, s.n_kv_heads, s.value_dim}, 3);
  std::vector<Span> spans;
  for (int64_t i = 0; i < batch; ++i) spans.push_back({i * length, length, 0});
  const std::vector<KvRows*> rows(spans.size());
  const AttentionSpec spec{1.0f / std::sqrt(static_cast<float>(s.key_dim)), s.window};
  const Values seconds = rounds_of(o, [&] {
    op.attention(q, k, v, spans, rows, spec);
    op.end_batch();
  });
  const double pairs = 0.5 * static_cast<double>(length) * static_cast<double>(length + 1);
  const double flops = 2.0 * pairs * static_cast<double>(batch * s.n_heads * (s.key_dim + s.value_dim));
  print("P4", std::string(s.name) + " " + std::to_string(batch) + " x " + std::to_string(length) + " " + whose,
        "TFLOP/s", rates(1e-12 * flops, seconds), {{"of", s.name}, {"whose", whose}, {"notes", op.notes()}});
}

}  // namespace

void bench_attention(const Options& o) {
  const int64_t batch = o.toy ? 2 : 32, length = o.toy ? 70 : 2048;
  for (const AttentionShape& s : kAttentionShapes) {
    AttentionShape shape = s;
    if (o.toy) {
      shape.n_heads /= shape.n_kv_heads;
      shape.n_kv_heads = 1;
    }
    for (const bool own : {false, true}) {
      const auto op = make_ops(own);
      bench_one_attention(o, *op, shape, batch, length, own ? "own" : "default");
    }
  }
}

void bench_delta_rule(const Options& o) {
  // Qwen3.5-35B: 16 key heads, 32 value heads, 128 x 128 states.
  const int64_t sequences = o.toy ? 1 : 16, length = o.toy ? 70 : 2048, tokens = sequences * length;
  const int64_t key_heads = o.toy ? 1 : 16, value_heads = o.toy ? 2 : 32, dim = o.toy ? 16 : 128;
  const auto op = make_ops();
  const Owned q = random_tensor(*op, {tokens, key_heads, dim}, 1, 0.09f),
              k = random_tensor(*op, {tokens, key_heads, dim}, 2, 0.09f),
              v = random_tensor(*op, {tokens, value_heads, dim}, 3), a = random_tensor(*op, {tokens, value_heads}, 4),
              b = random_tensor(*op, {tokens, value_heads}, 5);
  const Storage small({value_heads}, DType::F32);
  for (int64_t i = 0; i < value_heads; ++i) small.tensor().as<float>()[i] = 0.5f;
  const Owned a_log = op->load_f32(small.tensor()), dt_bias = op->load_f32(small.tensor());
  std::vector<Span> spans;
  for (int64_t i = 0; i < sequences; ++i) spans.push_back({i * length, length, 0});
  const std::vector<DeltaState*> states(spans.size());
  const Values seconds = rounds_of(o, [&] {
    const Ops::DeltaGates gates = op->delta_gates(a, b, a_log, dt_bias);
    op->gated_delta_rule(q, k, v, gates, spans, states);
    op->end_batch();
  });
  const auto t = static_cast<double>(tokens);
  const double bytes = t * static_cast<double>(2 * 2 * key_heads * dim + 2 * 2 * value_heads * dim + 8 * value_heads);
  Values ms;
  for (const double s : seconds) ms.push_back(1e3 * s);
  print("P5", "gated delta rule " + std::to_string(tokens) + " tokens", "ms", ms, {{"bytes_floor", bytes}});
  print_not_run("P6", "state-space scan", "no architecture of this version has one");
}

void bench_experts(const Options& o) {
  // Qwen3.5-35B-A3B: 256 experts, 8 a token, 2048 x 512; a chunk of 128 k tokens.
  const int64_t tokens = o.toy ? 40 : 131072, dim = o.toy ? 32 : 2048, ffn = o.toy ? 16 : 512;
  const int64_t n_experts = o.toy ? 4 : 256, k = o.toy ? 2 : 8;
  const auto op = make_ops();
  const Owned x = random_tensor(*op, {tokens, dim}, 1);
  const auto load = [&](int64_t out, int64_t in, uint32_t seed) {
    const Storage w({out, in}, DType::BF16);
    std::minstd_rand random(seed);
    for (int64_t i = 0; i < out * in; ++i)
      w.tensor().as<bf16>()[i] = to_bf16(static_cast<float>(random() % 2001) * 1e-4f - 0.0999f);
    return op->load_linear(w.tensor());
  };
  std::vector<GluWeights> experts;
  for (int64_t e = 0; e < n_experts; ++e) {
    const auto seed = static_cast<uint32_t>(3 * e + 1);
    experts.push_back({load(ffn, dim, seed), load(ffn, dim, seed + 1), load(dim, ffn, seed + 2)});
  }
  // A dense product of as many operations, of the size of a large one.
  const double flops = 2.0 * static_cast<double>(tokens * k) * 3.0 * static_cast<double>(dim * ffn);
  const int64_t side = o.toy ? 32 : 8192;
  const Owned dense_x = random_tensor(*op, {side, side}, 7);
  const Linear dense = load(side, side, 9);
  for (const bool skewed : {false, true}) {
    // Logits as a router gives them; skewed: those of expert e fall with log(e), so that loads follow Zipf's law.
    const Storage made({tokens, n_experts}, DType::BF16);
    std::minstd_rand random(5);
    for (int64_t i = 0; i < tokens * n_experts; ++i) {
      const float bias = skewed ? -std::log(static_cast<float>(i % n_experts + 1)) : 0.0f;
      made.tensor().as<bf16>()[i] = to_bf16(bias + static_cast<float>(random() % 4001) * 1e-3f - 2.0f);
    }
    const Owned logits = on_device(*op, made.tensor());
    const Values of_experts = rounds_of(o, [&] {
      const Routing routing = op->route(logits, {.k = k, .renormalize = true});
      op->experts(x, routing, experts);
      op->end_batch();
    });
    const Values of_routing = rounds_of(o, [&] {
      op->route(logits, {.k = k, .renormalize = true});
      op->end_batch();
    });
    const Values of_dense = rounds_of(o, [&] {
      op->linear(dense_x, dense);
      op->end_batch();
    });
    const auto dense_flops = 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
    Values ratios;
    for (size_t i = 0; i < of_experts.size(); ++i)
      ratios.push_back((of_experts[i] - of_routing[i]) / (of_dense[i] * flops / dense_flops));
    print("P7", skewed ? "experts, skewed" : "experts, balanced", "times a dense product", ratios,
          {{"seconds", of_experts}, {"seconds_of_routing", of_routing}, {"dense_seconds", of_dense}});
  }
  print_not_run("P8", "backends of the experts", "this version has one");
}

}  // namespace kvcal::bench
