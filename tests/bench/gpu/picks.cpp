// P18: which keys an indexer lets a query see, and attention over them, at the sizes of real models.
#include <cmath>
#include <string>

#include "bench/gpu/bench.h"

namespace kvcal::bench {
namespace {

struct PickShape {
  const char* name;
  int64_t heads, dim, pickers;                      // of the indexer; 1 picker: heads are summed with weights
  int64_t n_heads, n_kv_heads, key_dim, value_dim;  // of attention
  PickSpec spec;
};
constexpr PickShape kShapes[] = {
    {"DeepSeek-V3.2", 64, 128, 1, 128, 128, 192, 128, {2048}},
    {"GLM-5", 32, 128, 1, 64, 64, 256, 256, {2048}},
    {"MiniMax-M3", 4, 128, 4, 64, 4, 128, 128, {16, 128, 1}},
};

PickShape toy(PickShape s) {
  s.heads = s.pickers == 1 ? 4 : s.pickers;
  s.n_heads = s.n_kv_heads = 4;
  s.dim = s.key_dim = s.value_dim = 16;
  s.spec = {24 / (s.spec.block > 1 ? 8 : 1), s.spec.block > 1 ? 8 : 1, s.spec.n_local};
  return s;
}

void bench_choice(const Options& o, Ops& op, const PickShape& s, const std::vector<Span>& spans, int64_t tokens) {
  const Owned q = random_tensor(op, {tokens, s.heads, s.dim}, 1), k = random_tensor(op, {tokens, 1, s.dim}, 2),
              w = random_tensor(op, {tokens, s.heads}, 3);
  const std::vector<const KvRows*> rows(spans.size());
  Owned picked;
  const Values choosing = rounds_of(o, [&] {
    picked = op.pick_keys(q, s.pickers == 1 ? w.view : Tensor(), k, spans, rows, s.spec);
    op.end_batch();
  });
  double pairs = 0;
  for (const Span& span : spans)
    pairs += 0.5 * static_cast<double>(span.n_tokens) * static_cast<double>(span.n_tokens + 1);
  const std::string name =
      std::string(s.name) + " " + std::to_string(spans.size()) + " x " + std::to_string(spans[0].n_tokens);
  print("P18", name + ", choice", "TFLOP/s", rates(2e-12 * pairs * static_cast<double>(s.heads * s.dim), choosing),
        {{"seconds", choosing}});

  const Owned queries = random_tensor(op, {tokens, s.n_heads, s.key_dim}, 4),
              keys = random_tensor(op, {tokens, s.n_kv_heads, s.key_dim}, 5),
              values = random_tensor(op, {tokens, s.n_kv_heads, s.value_dim}, 6);
  const std::vector<KvRows*> none(spans.size());
  for (const bool all : {true, false}) {
    AttentionSpec spec{1.0f / std::sqrt(static_cast<float>(s.key_dim))};
    if (!all) spec.picked = picked;
    const Values seconds = rounds_of(o, [&] {
      op.attention(queries, keys, values, spans, none, spec);
      op.end_batch();
    });
    print("P18", name + (all ? ", attention to all keys" : ", attention to picked keys"), "s", seconds);
  }
}

}  // namespace

void bench_picks(const Options& o) {
  const int64_t sequences = o.toy ? 2 : 4, length = o.toy ? 70 : 8192;
  std::vector<Span> spans;
  for (int64_t i = 0; i < sequences; ++i) spans.push_back({i * length, length, 0});
  for (const PickShape& s : kShapes) {
    const auto op = make_ops();
    bench_choice(o, *op, o.toy ? toy(s) : s, spans, sequences * length);
  }
}

}  // namespace kvcal::bench
