// What the tests of sample_attention feed it.
#pragma once

#include "parity/ops_cases.h"
#include "parity/picked_keys.h"

namespace kvcal::test {

/// What keys and values look like. SinkToken: the first token 1e5 times the rest, keys in a channel that queries hardly
/// use. TinyChannel: one channel 1e-4 of the rest. Growing: four octaves more every 16 positions. FewLarge: of a
/// token's values one in 20 is ordinary, the rest 2^-12 of it. Offset: keys share 267 in channel 0, which queries read:
/// its rounding moves all logits alike.
enum class Content { Normal, Zeros, Huge, SinkToken, TinyChannel, Growing, FewLarge, Offset };

struct SampleCase {
  int64_t tokens, n_heads, n_kv_heads, key_dim, value_dim;
  Content content = Content::Normal;
  int64_t window = 0, chunk = 0;
  float softcap = 0.0f;
  bool sinks = false, one_scale = false;
  int64_t block = 0, block_end = 0;  // rows [block, block_end) all see each other
  SampleFormat format = SampleFormat::E4m3;
  int below = 0;        // SampleRequest::rungs_below
  int64_t pickers = 0;  // a row sees what is_picked(); 0: everything

  bool sees(int64_t row, int64_t head, int64_t key) const {
    return pickers == 0 || is_picked(row, head / (n_heads / pickers), key);
  }
  int64_t last_key(int64_t row) const { return row >= block && row < block_end ? block_end - 1 : row; }
  int64_t first_key(int64_t row) const {
    const int64_t windowed = window > 0 ? std::max<int64_t>(0, row - window + 1) : 0;
    return chunk > 0 ? std::max(windowed, row - row % chunk) : windowed;
  }

  /// A request for it without its rows: what is where in the figures.
  SampleRequest request() const {
    SampleRequest r;
    r.rungs_below = below;
    return r;
  }
};

inline void PrintTo(const SampleCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.n_heads, c.n_kv_heads, c.key_dim, c.value_dim}) << " content "
       << static_cast<int>(c.content);
  if (c.window > 0) *out << " window " << c.window;
  if (c.chunk > 0) *out << " chunk " << c.chunk;
  if (c.softcap > 0.0f) *out << " softcap " << c.softcap;
  if (c.sinks) *out << " sinks";
  if (c.one_scale) *out << " one scale";
  if (c.block_end > 0) *out << " block " << c.block << " to " << c.block_end;
  if (c.format == SampleFormat::Int8) *out << " int8";
  if (c.below > 0) *out << " " << c.below << " below";
  if (c.pickers > 0) *out << " " << c.pickers << " pickers";
}

/// Factor of a channel of a token's key or value.
inline double factor_of(Content content, bool of_key, int64_t token, int64_t channel) {
  switch (content) {
    case Content::Normal:
      return 1.0;
    case Content::Zeros:
      return 0.0;
    case Content::Huge:
      return 1e15;
    case Content::SinkToken:
      return token == 0 && (channel == 0 || !of_key) ? 1e5 : 1.0;
    case Content::TinyChannel:
      return channel == 3 ? 1e-4 : 1.0;
    case Content::Growing:
      return std::ldexp(1.0, static_cast<int>(token / 16) * 4 - 30);
    case Content::Offset:
      return 1.0;
    case Content::FewLarge:
      return (token + channel) % 20 == 0 ? 1.0 : 0x1p-12;
  }
  return 0.0;
}

/// Queries that keep logits near one: the inverse of the factor of keys, that of the last one they see.
inline double query_factor(Content content, int64_t token, int64_t channel) {
  if (content == Content::Huge) return 1e-15;
  if (content == Content::SinkToken && channel == 0) return 1e-5;
  if (content == Content::TinyChannel && channel == 3) return 1e4;
  if (content == Content::Growing) return 1.0 / factor_of(content, true, token, channel);
  if (content == Content::FewLarge) return 4.0;
  return 1.0;
}

template <class Factor>
Values made(const Shape& shape, DType dtype, uint32_t seed, Factor factor, double first_channel = 0.0) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<size_t>(shape.elements()));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    x[i] = normal(random) * factor(at / (shape[1] * shape[2]), at % shape[2]);
    if (first_channel != 0.0 && at % shape[2] == 0) x[i] = first_channel;
  }
  return values(shape, dtype, x);
}

struct Inputs {
  Values q, k, v, norms, sinks;
  Storage picked;
  std::vector<int32_t> last_keys;
  float scale;

  Inputs(const SampleCase& c, DType t) : scale(static_cast<float>(1.0 / std::sqrt(double(c.key_dim)))) {
    q = made(
        {c.tokens, c.n_heads, c.key_dim}, t, 1,
        [&](int64_t token, int64_t d) { return 1.5 * query_factor(c.content, c.last_key(token), d); },
        c.content == Content::Offset ? 12.0 : 0.0);
    k = made(
        {c.tokens, c.n_kv_heads, c.key_dim}, t, 2,
        [&](int64_t token, int64_t d) { return factor_of(c.content, true, token, d); },
        c.content == Content::Offset ? 267.0 : 0.0);
    v = made({c.tokens, c.n_kv_heads, c.value_dim}, t, 3,
             [&](int64_t token, int64_t d) { return 0.3 * factor_of(c.content, false, token, d); });
    if (c.one_scale) v = first_columns(k, c.value_dim, t);
    norms = random_values({c.n_heads, c.value_dim}, DType::F32, 4);
    for (double& x : norms.real) x = std::fabs(x) + 0.1;
    norms = values({c.n_heads, c.value_dim}, DType::F32, norms.real);
    sinks = random_values({c.n_heads}, DType::F32, 5);
    if (c.pickers > 0) picked = picked_words(c.tokens, c.pickers);
    for (int64_t i = 0; c.block_end > 0 && i < c.tokens; ++i) last_keys.push_back(static_cast<int32_t>(c.last_key(i)));
  }

  /// Of rows [row, row + n) of the sequence.
  AttentionSpec spec(const SampleCase& c, int64_t row, int64_t n) const {
    AttentionSpec s{scale, c.window, c.softcap, c.sinks ? sinks.tensor() : Tensor{}, c.chunk};
    if (c.pickers > 0) s.picked = picked.tensor().rows(row, n);
    if (!last_keys.empty())
      s.last_keys = std::span(last_keys).subspan(static_cast<size_t>(row), static_cast<size_t>(n));
    return s;
  }

 private:
  static Values first_columns(const Values& rows, int64_t n, DType t) {
    const int64_t width = rows.tensor().dim(2);
    std::vector<double> x;
    for (size_t i = 0; i < rows.real.size(); ++i)
      if (static_cast<int64_t>(i) % width < n) x.push_back(rows.real[i]);
    return values({rows.tensor().dim(0), rows.tensor().dim(1), n}, t, x);
  }
};

}  // namespace kvcal::test
