// P5, P6: recurrences at the sizes of real models, against the bytes that they must move.
#include "bench/gpu/bench.h"

namespace kvcal::bench {
namespace {

void print_against_bytes(const std::string& id, const std::string& name, const Values& seconds, double bytes) {
  Values ms;
  for (const double s : seconds) ms.push_back(1e3 * s);
  print(id, name, "ms", ms, {{"bytes_floor", bytes}});
}

std::vector<Span> equal_spans(int64_t sequences, int64_t length) {
  std::vector<Span> spans;
  for (int64_t i = 0; i < sequences; ++i) spans.push_back({i * length, length, 0});
  return spans;
}

/// An F32 parameter of the layer.
Owned halves(Ops& op, const Shape& shape) {
  const Storage s(shape, DType::F32);
  for (int64_t i = 0; i < shape.elements(); ++i) s.tensor().as<float>()[i] = 0.5f;
  return op.load_f32(s.tensor());
}

/// Nemotron-H-8B: 128 heads of 64 channels, 8 groups, 128 states.
void bench_ssd(const Options& o) {
  const int64_t sequences = o.toy ? 1 : 16, length = o.toy ? 70 : 2048, tokens = sequences * length;
  const int64_t heads = o.toy ? 2 : 128, dim = o.toy ? 16 : 64, groups = o.toy ? 1 : 8, n_state = o.toy ? 16 : 128;
  const auto op = make_ops();
  const Owned x = random_tensor(*op, {tokens, heads, dim}, 1), dt = random_tensor(*op, {tokens, heads}, 2),
              b = random_tensor(*op, {tokens, groups, n_state}, 3, 0.1f),
              c = random_tensor(*op, {tokens, groups, n_state}, 4, 0.1f);
  const Owned a_log = halves(*op, {heads}), dt_bias = halves(*op, {heads}), d = halves(*op, {heads});
  const std::vector<Span> spans = equal_spans(sequences, length);
  const std::vector<SsmState*> states(spans.size());
  const Values seconds = rounds_of(o, [&] {
    op->ssd({x, dt, b, c}, {a_log, dt_bias, d}, spans, states);
    op->end_batch();
  });
  const double bytes = 2.0 * static_cast<double>(tokens * (2 * heads * dim + heads + 2 * groups * n_state));
  print_against_bytes("P6", "ssd " + std::to_string(tokens) + " tokens", seconds, bytes);
}

/// Jamba: 8,192 channels, 16 states.
void bench_scan(const Options& o) {
  const int64_t sequences = o.toy ? 1 : 16, length = o.toy ? 70 : 2048, tokens = sequences * length;
  const int64_t channels = o.toy ? 32 : 8192, n_state = 16;
  const auto op = make_ops();
  const Owned x = random_tensor(*op, {tokens, channels}, 1), dt = random_tensor(*op, {tokens, channels}, 2),
              b = random_tensor(*op, {tokens, n_state}, 3), c = random_tensor(*op, {tokens, n_state}, 4);
  const Owned a_log = halves(*op, {channels, n_state}), dt_bias = halves(*op, {channels}), d = halves(*op, {channels});
  const std::vector<Span> spans = equal_spans(sequences, length);
  const std::vector<SsmState*> states(spans.size());
  const Values seconds = rounds_of(o, [&] {
    op->selective_scan({x, dt, b, c}, {a_log, dt_bias, d}, spans, states);
    op->end_batch();
  });
  const double bytes = 2.0 * static_cast<double>(tokens * (3 * channels + 2 * n_state));
  print_against_bytes("P6", "selective scan " + std::to_string(tokens) + " tokens", seconds, bytes);
}

}  // namespace

void bench_delta_rule(const Options& o) {
  // Qwen3.5-35B: 16 key heads, 32 value heads, 128 x 128 states.
  const int64_t sequences = o.toy ? 1 : 16, length = o.toy ? 70 : 2048, tokens = sequences * length;
  const int64_t key_heads = o.toy ? 1 : 16, value_heads = o.toy ? 2 : 32, dim = o.toy ? 16 : 128;
  const auto op = make_ops();
  const Owned q = random_tensor(*op, {tokens, key_heads, dim}, 1, 0.09f),
              k = random_tensor(*op, {tokens, key_heads, dim}, 2, 0.09f),
              v = random_tensor(*op, {tokens, value_heads, dim}, 3), a = random_tensor(*op, {tokens, value_heads}, 4),
              b = random_tensor(*op, {tokens, value_heads}, 5);
  const Owned a_log = halves(*op, {value_heads}), dt_bias = halves(*op, {value_heads});
  const std::vector<Span> spans = equal_spans(sequences, length);
  const std::vector<DeltaState*> states(spans.size());
  const Values seconds = rounds_of(o, [&] {
    const Ops::DeltaGates gates = op->delta_gates(a, b, a_log, dt_bias);
    op->gated_delta_rule(q, k, v, gates, spans, states);
    op->end_batch();
  });
  const auto t = static_cast<double>(tokens);
  const double bytes = t * static_cast<double>(2 * 2 * key_heads * dim + 2 * 2 * value_heads * dim + 8 * value_heads);
  print_against_bytes("P5", "gated delta rule " + std::to_string(tokens) + " tokens", seconds, bytes);
}

void bench_state_space(const Options& o) {
  bench_ssd(o);
  bench_scan(o);
}

}  // namespace kvcal::bench
