// Training kernels of the demo model: token mixer, norm and gated unit, forward and backward. Inputs and outputs are
// bf16, the arithmetic is f32. Used by fused.py only; nothing of kvcal includes or links this file.
//
// Mixer input `projected` is [tokens, width] per sequence, width = conv channels | z | b | a, conv channels = q | k |
// v, every head kDim wide. The backward pass recomputes the forward of one sequence, keeps the state before every
// token, and walks the recurrence backwards.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

constexpr int kDim = 32;  // width of every head of the mixer
constexpr int kTaps = 4;  // of the convolution
using bf16 = std::uint16_t;
using Floats = std::vector<float>;

float widen(bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float y;
  std::memcpy(&y, &bits, 4);
  return y;
}

bf16 narrow(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }
float silu_slope(float x, float s) { return s * (1.f + x * (1.f - s)); }  // s = sigmoid(x)

float inverse_rms(const float* x, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  return 1.f / std::sqrt(sum / n + 1e-6f);
}

struct Shape {
  int n_tokens, n_key_heads, n_value_heads;
  int channels() const { return (2 * n_key_heads + n_value_heads) * kDim; }
  int z_width() const { return n_value_heads * kDim; }
  int width() const { return channels() + z_width() + 2 * n_value_heads; }
  int key_head(int value_head) const { return value_head / (n_value_heads / n_key_heads); }
};

struct Parameters {
  const float* conv;     // [kTaps, channels]
  const float* a_log;    // [value heads]
  const float* dt_bias;  // [value heads]
  const float* norm;     // [kDim]
};

// What the forward pass of one sequence leaves behind.
struct Forward {
  Floats input;         // [tokens, channels] before the convolution
  Floats convolved;     // [tokens, channels] before silu
  Floats active;        // [tokens, channels] after silu; q and k also normalised, q scaled
  Floats inverse_norm;  // [tokens, 2 * key heads]
  Floats log_decay;     // [tokens, value heads]
  Floats beta;          // [tokens, value heads]
  Floats z;             // [tokens, value heads, kDim]
  Floats out;           // [tokens, value heads, kDim] of the delta rule
};

void convolve(Forward& f, const bf16* projected, const Parameters& p, const Shape& s) {
  const int channels = s.channels(), z_width = s.z_width();
  const std::size_t all = static_cast<std::size_t>(s.n_tokens) * channels;
  f.input.resize(all);
  f.convolved.assign(all, 0.f);
  f.active.resize(all);
  f.z.resize(static_cast<std::size_t>(s.n_tokens) * z_width);
  for (int t = 0; t < s.n_tokens; t++) {
    const bf16* row = projected + static_cast<std::size_t>(t) * s.width();
    float* input = &f.input[static_cast<std::size_t>(t) * channels];
    float* sum = &f.convolved[static_cast<std::size_t>(t) * channels];
    float* active = &f.active[static_cast<std::size_t>(t) * channels];
    for (int c = 0; c < channels; c++) input[c] = widen(row[c]);
    for (int c = 0; c < z_width; c++) f.z[static_cast<std::size_t>(t) * z_width + c] = widen(row[channels + c]);
    for (int j = 0; j < kTaps; j++) {
      const int from = t - (kTaps - 1) + j;
      if (from < 0) continue;
      const float* x = &f.input[static_cast<std::size_t>(from) * channels];
      for (int c = 0; c < channels; c++) sum[c] += x[c] * p.conv[j * channels + c];
    }
    for (int c = 0; c < channels; c++) active[c] = sum[c] * sigmoid(sum[c]);
  }
}

void normalise_and_gate(Forward& f, const bf16* projected, const Parameters& p, const Shape& s) {
  const int n_norms = 2 * s.n_key_heads, nv = s.n_value_heads, gates = s.channels() + s.z_width();
  const float query_scale = 1.f / std::sqrt(static_cast<float>(kDim));
  f.inverse_norm.resize(static_cast<std::size_t>(s.n_tokens) * n_norms);
  f.log_decay.resize(static_cast<std::size_t>(s.n_tokens) * nv);
  f.beta.resize(static_cast<std::size_t>(s.n_tokens) * nv);
  for (int t = 0; t < s.n_tokens; t++) {
    const bf16* row = projected + static_cast<std::size_t>(t) * s.width();
    for (int h = 0; h < nv; h++) {
      const float u = widen(row[gates + nv + h]) + p.dt_bias[h];
      f.beta[t * nv + h] = sigmoid(widen(row[gates + h]));
      f.log_decay[t * nv + h] = -std::exp(p.a_log[h]) * (u > 20 ? u : std::log1p(std::exp(u)));
    }
    for (int h = 0; h < n_norms; h++) {
      float* x = &f.active[static_cast<std::size_t>(t) * s.channels() + h * kDim];
      float sum = 0;
      for (int j = 0; j < kDim; j++) sum += x[j] * x[j];
      const float inverse = 1.f / std::sqrt(sum + 1e-6f);
      f.inverse_norm[t * n_norms + h] = inverse;
      for (int j = 0; j < kDim; j++) x[j] *= h < s.n_key_heads ? inverse * query_scale : inverse;
    }
  }
}

struct Heads {  // offsets of one value head's q, k and v in a row of Forward::active
  int q, k, v;
  Heads(int head, const Shape& s)
      : q(s.key_head(head) * kDim), k(q + s.n_key_heads * kDim), v((2 * s.n_key_heads + head) * kDim) {}
};

// The recurrence of one value head; states, if given, receives the state before every token, [tokens, kDim, kDim].
void scan(Forward& f, int head, const Shape& s, float* states) {
  const Heads at(head, s);
  alignas(64) float state[kDim][kDim] = {};
  for (int t = 0; t < s.n_tokens; t++) {
    if (states) std::memcpy(states + static_cast<std::size_t>(t) * kDim * kDim, state, sizeof state);
    const float* row = &f.active[static_cast<std::size_t>(t) * s.channels()];
    const float *q = row + at.q, *k = row + at.k, *v = row + at.v;
    const float kept = std::exp(f.log_decay[t * s.n_value_heads + head]), beta = f.beta[t * s.n_value_heads + head];
    alignas(64) float read[kDim] = {}, change[kDim], out[kDim] = {};
    for (int i = 0; i < kDim; i++)
      for (int j = 0; j < kDim; j++) read[j] += k[i] * state[i][j];
    for (int j = 0; j < kDim; j++) change[j] = beta * (v[j] - kept * read[j]);
    for (int i = 0; i < kDim; i++)
      for (int j = 0; j < kDim; j++) {
        state[i][j] = kept * state[i][j] + k[i] * change[j];
        out[j] += q[i] * state[i][j];
      }
    std::memcpy(&f.out[(static_cast<std::size_t>(t) * s.n_value_heads + head) * kDim], out, sizeof out);
  }
}

void run_forward(Forward& f, const bf16* projected, const Parameters& p, const Shape& s) {
  convolve(f, projected, p, s);
  normalise_and_gate(f, projected, p, s);
  f.out.resize(static_cast<std::size_t>(s.n_tokens) * s.z_width());
}

struct Gradients {  // of one sequence
  bf16* projected;  // [tokens, width]
  Floats conv, a_log, dt_bias, norm;
  Floats active;  // [tokens, channels]
  Gradients(bf16* projected, const Shape& s)
      : projected(projected),
        conv(kTaps * s.channels(), 0.f),
        a_log(s.n_value_heads, 0.f),
        dt_bias(s.n_value_heads, 0.f),
        norm(kDim, 0.f),
        active(static_cast<std::size_t>(s.n_tokens) * s.channels(), 0.f) {}
};

// Gated norm of one head at one token: from the gradient of its output to that of the delta rule's output (d_out).
void gated_norm_backward(const Forward& f, const Parameters& p, const bf16* d_y, std::size_t at, bf16* d_z,
                         Floats& d_norm, float* d_out) {
  const float *out = &f.out[at], *z = &f.z[at];
  const float inverse = inverse_rms(out, kDim);
  float mean = 0;
  for (int j = 0; j < kDim; j++) {
    const float n = out[j] * inverse, s = sigmoid(z[j]), dy = widen(d_y[j]);
    d_norm[j] += dy * n * z[j] * s;
    d_z[j] = narrow(dy * n * p.norm[j] * silu_slope(z[j], s));
    d_out[j] = dy * p.norm[j] * z[j] * s;
    mean += d_out[j] * n;
  }
  for (int j = 0; j < kDim; j++) d_out[j] = inverse * (d_out[j] - out[j] * inverse * mean / kDim);
}

// Backwards through the recurrence of one value head. d_state is the gradient of the state after token t.
void scan_backward(Forward& f, const bf16* projected, const Parameters& p, const bf16* d_y, int head, const Shape& s,
                   Floats& states, Gradients& g) {
  scan(f, head, s, states.data());
  const Heads at(head, s);
  const int nv = s.n_value_heads, gates = s.channels() + s.z_width();
  alignas(64) float d_state[kDim][kDim] = {};
  for (int t = s.n_tokens - 1; t >= 0; t--) {
    const float* row = &f.active[static_cast<std::size_t>(t) * s.channels()];
    const float *q = row + at.q, *k = row + at.k, *v = row + at.v;
    float* d_row = &g.active[static_cast<std::size_t>(t) * s.channels()];
    bf16* d_projected = g.projected + static_cast<std::size_t>(t) * s.width();
    const std::size_t out_at = (static_cast<std::size_t>(t) * nv + head) * kDim;
    alignas(64) float d_out[kDim];
    gated_norm_backward(f, p, d_y + out_at, out_at, d_projected + s.channels() + head * kDim, g.norm, d_out);

    const float kept = std::exp(f.log_decay[t * nv + head]), beta = f.beta[t * nv + head];
    const float* before = &states[static_cast<std::size_t>(t) * kDim * kDim];
    alignas(64) float read[kDim] = {}, d_change[kDim] = {}, change[kDim], d_read[kDim], d_kept[kDim] = {};
    for (int i = 0; i < kDim; i++)
      for (int j = 0; j < kDim; j++) {
        read[j] += k[i] * before[i * kDim + j];
        d_state[i][j] += q[i] * d_out[j];
        d_change[j] += k[i] * d_state[i][j];
      }
    float change_dot_out = 0, d_beta = 0;
    for (int j = 0; j < kDim; j++) {
      const float error = v[j] - kept * read[j];
      change[j] = beta * error;
      d_beta += d_change[j] * error;
      d_read[j] = -beta * d_change[j];
      d_row[at.v + j] += beta * d_change[j];
      change_dot_out += change[j] * d_out[j];
    }
    for (int i = 0; i < kDim; i++) {
      float dq = 0, dk = 0;
      for (int j = 0; j < kDim; j++) {
        const float decayed = kept * before[i * kDim + j];
        dq += decayed * d_out[j];
        dk += d_state[i][j] * change[j] + decayed * d_read[j];
        const float total = d_state[i][j] + k[i] * d_read[j];
        d_kept[j] += total * decayed;
        d_state[i][j] = total * kept;
      }
      d_row[at.q + i] += dq + k[i] * change_dot_out;
      d_row[at.k + i] += dk;
    }
    float d_log_decay = 0;
    for (int j = 0; j < kDim; j++) d_log_decay += d_kept[j];
    const float u = widen(projected[static_cast<std::size_t>(t) * s.width() + gates + nv + head]) + p.dt_bias[head];
    const float du = -d_log_decay * std::exp(p.a_log[head]) * sigmoid(u);
    g.a_log[head] += d_log_decay * f.log_decay[t * nv + head];
    g.dt_bias[head] += du;
    d_projected[gates + head] = narrow(d_beta * beta * (1.f - beta));
    d_projected[gates + nv + head] = narrow(du);
  }
}

// From the gradient of the normalised q, k and of v back through norm, silu and convolution.
void convolve_backward(const Forward& f, const Parameters& p, const Shape& s, Gradients& g) {
  const int channels = s.channels(), n_norms = 2 * s.n_key_heads;
  const float query_scale = 1.f / std::sqrt(static_cast<float>(kDim));
  Floats d_input(static_cast<std::size_t>(s.n_tokens) * channels, 0.f);
  for (int t = 0; t < s.n_tokens; t++) {
    const float* active = &f.active[static_cast<std::size_t>(t) * channels];
    const float* sum = &f.convolved[static_cast<std::size_t>(t) * channels];
    float* d = &g.active[static_cast<std::size_t>(t) * channels];
    for (int h = 0; h < n_norms; h++) {
      const float scale = h < s.n_key_heads ? query_scale : 1.f, inverse = f.inverse_norm[t * n_norms + h];
      const float* x = active + h * kDim;
      float* dx = d + h * kDim;
      float dot = 0;
      for (int j = 0; j < kDim; j++) dot += x[j] * dx[j];
      for (int j = 0; j < kDim; j++) dx[j] = (dx[j] * scale - x[j] / scale * dot) * inverse;
    }
    for (int c = 0; c < channels; c++) d[c] *= silu_slope(sum[c], sigmoid(sum[c]));
    for (int j = 0; j < kTaps; j++) {
      const int from = t - (kTaps - 1) + j;
      if (from < 0) continue;
      const float* x = &f.input[static_cast<std::size_t>(from) * channels];
      float* dx = &d_input[static_cast<std::size_t>(from) * channels];
      for (int c = 0; c < channels; c++) {
        g.conv[j * channels + c] += x[c] * d[c];
        dx[c] += p.conv[j * channels + c] * d[c];
      }
    }
  }
  for (int t = 0; t < s.n_tokens; t++)
    for (int c = 0; c < channels; c++)
      g.projected[static_cast<std::size_t>(t) * s.width() + c] =
          narrow(d_input[static_cast<std::size_t>(t) * channels + c]);
}

void add(const Floats& from, float* to) {
  for (std::size_t i = 0; i < from.size(); i++) to[i] += from[i];
}

}  // namespace

extern "C" {

void mixer_forward(const bf16* projected, const float* conv, const float* a_log, const float* dt_bias,
                   const float* norm, bf16* out, int n_batch, int n_tokens, int n_key_heads, int n_value_heads) {
  const Shape s{n_tokens, n_key_heads, n_value_heads};
  const Parameters p{conv, a_log, dt_bias, norm};
#pragma omp parallel for schedule(dynamic)
  for (int b = 0; b < n_batch; b++) {
    Forward f;
    run_forward(f, projected + static_cast<std::size_t>(b) * n_tokens * s.width(), p, s);
    for (int h = 0; h < n_value_heads; h++) scan(f, h, s, nullptr);
    bf16* y = out + static_cast<std::size_t>(b) * n_tokens * s.z_width();
    for (std::size_t at = 0; at < f.out.size(); at += kDim) {
      const float inverse = inverse_rms(&f.out[at], kDim);
      for (int j = 0; j < kDim; j++)
        y[at + j] = narrow(f.out[at + j] * inverse * norm[j] * f.z[at + j] * sigmoid(f.z[at + j]));
    }
  }
}

void mixer_backward(const bf16* projected, const float* conv, const float* a_log, const float* dt_bias,
                    const float* norm, const bf16* d_out, bf16* d_projected, float* d_conv, float* d_a_log,
                    float* d_dt_bias, float* d_norm, int n_batch, int n_tokens, int n_key_heads, int n_value_heads) {
  const Shape s{n_tokens, n_key_heads, n_value_heads};
  const Parameters p{conv, a_log, dt_bias, norm};
#pragma omp parallel for schedule(dynamic)
  for (int b = 0; b < n_batch; b++) {
    const std::size_t first = static_cast<std::size_t>(b) * n_tokens;
    const bf16* rows = projected + first * s.width();
    Forward f;
    run_forward(f, rows, p, s);
    Gradients g(d_projected + first * s.width(), s);
    Floats states(static_cast<std::size_t>(n_tokens) * kDim * kDim);
    for (int h = 0; h < n_value_heads; h++) scan_backward(f, rows, p, d_out + first * s.z_width(), h, s, states, g);
    convolve_backward(f, p, s, g);
#pragma omp critical
    {
      add(g.conv, d_conv);
      add(g.a_log, d_a_log);
      add(g.dt_bias, d_dt_bias);
      add(g.norm, d_norm);
    }
  }
}

// x [rows, n] f32 -> y bf16, gain 1 + weight.
void rms_norm_forward(const float* x, const float* weight, bf16* y, int rows, int n) {
  for (int r = 0; r < rows; r++, x += n, y += n) {
    const float inverse = inverse_rms(x, n);
    for (int i = 0; i < n; i++) y[i] = narrow(x[i] * inverse * (1.f + weight[i]));
  }
}

void rms_norm_backward(const float* x, const float* weight, const bf16* dy, float* dx, float* d_weight, int rows,
                       int n) {
  Floats d(n);
  for (int r = 0; r < rows; r++, x += n, dy += n, dx += n) {
    const float inverse = inverse_rms(x, n);
    float mean = 0;
    for (int i = 0; i < n; i++) {
      const float y = widen(dy[i]), normed = x[i] * inverse;
      d_weight[i] += y * normed;
      d[i] = y * (1.f + weight[i]);
      mean += d[i] * normed;
    }
    for (int i = 0; i < n; i++) dx[i] = inverse * (d[i] - x[i] * inverse * mean / n);
  }
}

// x [rows, gate n | up n] -> y [rows, n].
void gated_unit_forward(const bf16* x, bf16* y, int rows, int n) {
  for (int r = 0; r < rows; r++, x += 2 * n, y += n)
    for (int i = 0; i < n; i++) {
      const float gate = widen(x[i]);
      y[i] = narrow(gate * sigmoid(gate) * widen(x[n + i]));
    }
}

void gated_unit_backward(const bf16* x, const bf16* dy, bf16* dx, int rows, int n) {
  for (int r = 0; r < rows; r++, x += 2 * n, dx += 2 * n, dy += n)
    for (int i = 0; i < n; i++) {
      const float gate = widen(x[i]), up = widen(x[n + i]), y = widen(dy[i]), s = sigmoid(gate);
      dx[i] = narrow(y * up * silu_slope(gate, s));
      dx[n + i] = narrow(y * gate * s);
    }
}

}  // extern "C"
