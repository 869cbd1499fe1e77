// P4: attention at the sizes of real models.
#include <cmath>

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

}  // namespace kvcal::bench
