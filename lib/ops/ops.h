// The op contract: what a model may ask of a device. Public methods check shapes and types once, for every backend;
// protected virtuals do the work, one file per group and backend.
//
// Activations have one dtype throughout: BF16 in Precision::BF16, F32 in Precision::F32. Each op says what it
// accumulates in and where it rounds. A result for a row never depends on which or how many other rows are in the call,
// nor on the number of threads; attention, convolution and the delta rule depend on the rows of
// their own sequence only. Results live in the batch arena until end_batch(), persistent things in Owned.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/attention_sample.h"
#include "ops/cache_rounding.h"
#include "ops/op_list.h"
#include "ops/recurrent_state.h"
#include "ops/tap_tables.h"
#include "ops/weight_loader.h"

namespace kvcal {

/// Prefill cuts sequences at multiples of this many positions; every chunk length of a recurrent layer divides it, so a
/// cut sequence gives the same bytes as a whole one.
constexpr int64_t kChunkAlignment = 256;

/// The rows of one sequence inside a batch: rows [row, row + n_tokens) hold its positions first_position and on.
struct Span {
  int64_t row = 0, n_tokens = 0, first_position = 0;
  bool looks_ahead = false;  // some row of the sequence, here or in another batch, sees keys behind it (last_keys)
};

/// Key and value rows of a sequence so far, as attention reads them. Filled by attention() itself.
struct KvRows {
  Owned key, value;        // [capacity, n_kv_heads, head_dim_k], [capacity, n_kv_heads, head_dim_v]
  int64_t n_tokens = 0;    // rows in use
  int64_t max_tokens = 0;  // capacity asked for at first use: the length of the sequence
};

/// What sample_attention() has found: where the op runs, kept beyond the batch.
struct AttentionSample {
  Owned rungs;  // I32 [n, 3]: the lowest rung of keys, of values, of the query that clips nothing
  // F32 [n, n_heads, n_figures()] (attention_sample.h). Where no row is thorough [n, 2] and
  // [n, n_heads, query_divergence()].
  Owned figures;
  Owned stream;  // F64 [n]: |x|² of the request's stream, summed in F64; absent where it is
};

/// Last inputs of a causal convolution, oldest first; absent = fresh sequence = zeros.
struct ConvState {
  Owned window;  // [kernel - 1, channels], activation dtype
};

/// A causal convolution, one filter for each channel: F32.
struct ConvWeights {
  Tensor w;          // [channels, kernel]
  Tensor bias{};     // [channels], or absent
  bool silu = true;  // what follows it; else nothing
};

/// Parameters of the activation xIELU, F32 [1] each.
struct XieluWeights {
  Tensor alpha_p, alpha_n, beta, eps;
};

constexpr int64_t kMostScanStates = 256;  // n_state of a selective scan

/// Rotary embedding of one layer kind.
struct RopeSpec {
  int64_t rotary_dim = 0;                // d: even; dims >= d pass through
  std::vector<float> inverse_frequency;  // [d / 2]
  float magnitude = 1.0f;                // multiplies cos and sin (yarn, longrope)
  bool interleaved = false;              // pairs (2i, 2i+1) (GPT-J); else (i, i + d/2) (NeoX)
  std::vector<int> axis;                 // [d / 2]: which row of the positions turns pair i (mRoPE); empty = row 0
};

/// Heads that one part of a projection consists of, and what becomes of them.
struct HeadsPart {
  int64_t head_dim;
  Tensor gain;  // rms_norm of every head with this gain [head_dim], unless absent
  bool turned;  // then rope
};
struct HeadsSpec {
  std::span<const HeadsPart> parts;
  float eps;
  Tensor table;  // of rope_table()
  const RopeSpec& rope;
};

struct AttentionSpec {
  float scale = 0.0f;    // multiplies q·k
  int64_t window = 0;    // key j is visible to query i iff i - window < j <= i; 0 = no window
  float softcap = 0.0f;  // c: logits become c tanh(logit / c); 0 = they stay
  Tensor sinks{};        // F32 [n_heads]: a logit of each head that takes its share of the softmax and has no value
  int64_t chunk = 0;     // key j is visible to query i only if j / chunk == i / chunk; 0 = one chunk
  // Host, [tokens]: the query of row t sees keys up to position last_keys[t] instead of its own. At least its own, at
  // most the last of its span, and never less than the row before: rows that all see to the end of their block. Not
  // together with chunks. Empty = the own.
  std::span<const int32_t> last_keys{};
  // I64 [tokens, pickers, words], of pick_keys(): of the keys above a query sees those whose bit is set, its key and
  // value heads being dealt to the pickers in order. Absent: all of them.
  Tensor picked{};
  std::span<const uint8_t> picks{};  // host, [spans]: 0 where all bits of the span are set; empty: perhaps nowhere
  // Against the largest logit so far, 32 keys at absolute positions at a time. On processors only: Error elsewhere.
  ProbabilityRounding probabilities{};

  /// The first key that a position sees.
  int64_t first_key(int64_t position) const;
};

/// How pick_keys() chooses.
struct PickSpec {
  int64_t n_picked = 0;  // keys, or blocks of keys, that a query may see
  int64_t block = 1;     // keys of a block, which counts for as much as the best of those up to the query's own
  int64_t n_local = 0;   // blocks, the query's own and those before it, that are picked before any other
};
constexpr int64_t kPickBits = 64;  // keys of a word

/// Which experts a token goes to.
struct Routing {
  Tensor experts;  // I32 [tokens, k]
  Tensor weights;  // F32 [tokens, k]
};

/// How experts are chosen and weighted. score = softmax over all logits, σ of each, or the logit itself. By the latter
/// is chosen; the weight is the best's softmax among the logits that are left and near it: (best - logit) /
/// max(|logit|, best), rounded to the logits' type after each step as 2 jitter is, is at most that, or not a number.
enum class Scoring : uint8_t { Softmax, Sigmoid, NearBest };
struct RoutingSpec {
  int64_t k = 1;
  Scoring scoring = Scoring::Softmax;
  float jitter = 0.0f;       // of NearBest
  bool renormalize = false;  // weights are divided by max(their sum, least_sum)
  float least_sum = 0.0f;
  float scale = 1.0f;  // then multiplied by this
  Tensor bias{};       // F32 [n_experts]: added to the scores for the choice, not in the weights; or absent
  // Experts in n_groups equal groups: only those of the k_groups best are in the choice. A group is as good as the sum
  // of its group_best best biased scores.
  int64_t n_groups = 1, k_groups = 1, group_best = 2;
};

enum class GateActivation : uint8_t { Silu, Sigmoid };

/// Norm and gate of a recurrent layer's output. Whether the gate multiplies the normed row, or what is normed.
enum class GateOrder : uint8_t { AfterNorm, BeforeNorm };
struct GatedNormSpec {
  Tensor gain;  // F32 [n]
  float eps = 0.0f;
  GateActivation act = GateActivation::Silu;
  GateOrder order = GateOrder::AfterNorm;
  int64_t n_groups = 1;  // parts of a row that are normed alone
};

/// Statistics of one tapped site while its layer runs; the layout of the words is TapLayout.
struct TapTables {
  TapShape shape;
  Owned words;  // U64 [TapLayout::words]
};

/// A device's own memory; nothing for a backend that computes in the host's.
struct DeviceMemory {
  bool own = false;
  bool is_hosts = false;                               // an integrated GPU: its memory is the host's
  uint64_t free_bytes = 0;                             // now, beside what reserve() took
  uint64_t temporaries_peak = 0, persistent_peak = 0;  // the most in use of what reserve() took
};

/// What a run takes of it before it begins: room for the temporaries of one batch, and for everything persistent.
struct MemoryReserve {
  uint64_t temporaries = 0, persistent = 0;
};

/// The residual stream of some sequences: which of a device's memory and the host's holds it.
enum class ResidualPlace : uint8_t { Device, Host };
struct ResidualShape {
  int64_t n_tokens = 0, hidden = 0;
  int64_t most_rows = 0;  // of one batch
};
class ResidualRows;

/// What computes loads the weights that it multiplies.
class Ops : public WeightLoader {
 public:
  using WeightLoader::WeightLoader;

  /// The class of machine whose bytes these are: "avx512_bf16", "avx2", ... (recorded in artifacts).
  virtual std::string isa() const = 0;

  /// Choices made so far that somebody who asks for details wants to know, a line each.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Before other calls from a thread that did not open it, or that has called another device since. One thread at a
  /// time calls a device.
  virtual void enter_thread() {}

  // ---------------------------------------------------------------- memory

  /// Uninitialised memory until end_batch().
  virtual Tensor temporary(const Shape& shape, DType dtype) = 0;

  /// Forgets all temporaries. Tests have it fill them with NaN.
  virtual void end_batch() = 0;

  /// Persistent memory, zeroed.
  virtual Owned allocate(const Shape& shape, DType dtype) = 0;

  virtual DeviceMemory device_memory() const { return {}; }

  /// Takes the memory of a run at once. From then on temporaries and persistent memory beyond it are an Error. Throws
  /// Error when the device has not so much, or when persistent memory of an earlier reserve is still in use.
  virtual void reserve(const MemoryReserve&) {}

  /// Room for the residual stream, in the activation dtype. Backends that compute in the host's memory know one place.
  virtual std::unique_ptr<ResidualRows> residual_rows(const ResidualShape& shape, ResidualPlace place);

  /// Host rows -> temporary; temporary -> host rows (waits for the device). Same dtype and element count.
  virtual Tensor upload(const Tensor& host) = 0;
  virtual void download(const Tensor& from, const Tensor& host) = 0;

  /// A point in the order of work: behind all that was queued so far. Null where nothing is ever queued.
  using Mark = std::shared_ptr<const void>;
  virtual Mark mark() { return nullptr; }

  /// download() of what nothing behind the mark changes; waits only for what is before it.
  virtual void download_at(const Mark& mark, const Tensor& from, const Tensor& host) {
    static_cast<void>(mark);
    download(from, host);
  }

  // ---------------------------------------------------------------- ops

  /// y[t] = table[ids[t]]; table is a host tensor [vocab, dim]. Rounded to the activation dtype.
  Tensor embed(const Tensor& table, std::span<const int32_t> ids);

  /// y = x Wᵀ + b over the last dimension: x [.., in] -> [.., out]. Products accumulate in f32; the bias is added in
  /// f32; one rounding.
  Tensor linear(const Tensor& x, const Linear& w);

  /// linear() without its rounding: y is F32. Where W is F32 its products with x are of f32 numbers.
  Tensor linear_f32(const Tensor& x, const Linear& w);

  /// y = round( e4m3(x / scale) · scale ), with the scales that the rounding describes (tensor/input_rounding.h); x
  /// itself where it is none. A static scale's inverse multiplies, a dynamic scale divides.
  Tensor round_input(const Tensor& x, const InputRounding& rounding);

  /// x [tokens, heads, dim] as a cache stores it and gives it back (ops/cache_rounding.h), rounded to the activation
  /// dtype.
  Tensor round_cache(const Tensor& x, const CacheRounding& rounding);

  /// A linear for each head: x [tokens, heads, in] -> [tokens, heads, out]; roundings as linear(). No weight has an
  /// input rounding.
  Tensor linear_per_head(const Tensor& x, std::span<const Linear> heads);

  /// n = x / sqrt(mean(x²) + eps) over the last dimension, in f32. F32 gain: y = round(n · gain). BF16 gain:
  /// y = round(round(n) · gain). No gain: y = round(n).
  Tensor rms_norm(const Tensor& x, const Tensor& gain, float eps);

  /// y = round( (x - mean) / sqrt(variance + eps) · gain + bias ) over the last dimension, all f32 inside. gain F32
  /// [n], or [m, n] for rows that take turns (heads with gains of their own), or absent; bias F32 [n] or absent.
  Tensor layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps);

  /// y = round(x · factor), of the activation dtype or F32, as x is.
  Tensor scale(const Tensor& x, float factor);

  /// y = round(x · y); y has the shape of x, or one column per row of x; activation dtype or F32.
  Tensor mul(const Tensor& x, const Tensor& y);

  /// y = round(act(x)).
  Tensor activate(const Tensor& x, Activation act);

  /// y = round(c tanh(x / c)).
  Tensor softcap(const Tensor& x, float c);

  /// y = round( min(max(x, least), most) ); either bound may be infinite.
  Tensor clamp(const Tensor& x, float least, float most);

  /// y = round( x > 0 ? p x² + β x : (expm1(min(x, ε)) - x) n + β x ), with p = softplus(alpha_p) and
  /// n = β + softplus(alpha_n); all f32 or better inside.
  Tensor xielu(const Tensor& x, const XieluWeights& w);

  /// y = round(x + y), elementwise, f32 inside.
  Tensor add(const Tensor& x, const Tensor& y);

  /// y = round( round(act(gate)) · up ): the reference framework rounds the activation's result. Clamped rounds once.
  Tensor glu(const Tensor& gate, const Tensor& up, Activation act = Activation::Silu);

  /// y = round( x · round(σ(gate)) ); gate has the shape of x, or one column per row of x.
  Tensor sigmoid_mul(const Tensor& x, const Tensor& gate);

  /// y[t, i] = round( Σ_j w[t, i n + j] · x[t, j] ), summed in f32 in order of j: x [tokens, n, dim], w [tokens, m n]
  /// -> [tokens, m, dim].
  Tensor mix_streams(const Tensor& x, const Tensor& w);

  /// y = round( x · rms(like) / max(rms(x), least) ), with rms(x) = sqrt(mean(x²)) over the last dimension, in f32.
  Tensor match_rms(const Tensor& x, const Tensor& like, float least);

  /// y = round( max(x - (mean + deviations · σ), 0) ), with the mean of the last dimension and σ² its mean squared
  /// distance from it, in f32.
  Tensor keep_above(const Tensor& x, float deviations);

  /// Columns [from, from + n) of the last dimension, copied to be contiguous.
  Tensor columns(const Tensor& x, int64_t from, int64_t n);

  /// [a | b] in the last dimension. b may have one head where a has several: a [tokens, heads, n], b [tokens, 1, m].
  Tensor join(const Tensor& a, const Tensor& b);

  /// The given rows of x [rows, ..], copied.
  Tensor take_rows(const Tensor& x, std::span<const int64_t> rows);

  /// cos and sin of position · inverse frequency for each row: [tokens, 2, d / 2] in the activation dtype. The angle is
  /// an f32 product; cos and sin are correctly rounded to f32, multiplied by the magnitude, rounded to the activation
  /// dtype. positions: [n_axes][tokens], host.
  Tensor rope_table(std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec);

  /// Rotates x [tokens, heads, head_dim] by a table of rope_table(). f32 inside; one rounding.
  Tensor rope(const Tensor& x, const Tensor& table, const RopeSpec& spec);

  /// Causal softmax attention with grouped heads: q [tokens, n_heads, Dk], k [tokens, n_kv_heads, Dk],
  /// v [tokens, n_kv_heads, Dv] -> [tokens, n_heads · Dv]. rows[i] belongs to spans[i]: earlier rows of that sequence
  /// are read from it and the span's k and v are appended to it; null = the whole sequence is this span. Logits and
  /// softmax in f32 over key blocks at absolute positions (multiples of 64); in BF16 the probabilities are rounded to
  /// bf16 before they meet v; one rounding at the end.
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                   std::span<KvRows* const> rows, const AttentionSpec& spec);

  /// Attention of a layer without a cache of its own: q [tokens, n_heads, Dk] meets the rows that another layer has
  /// kept, which hold at least every position up to the span's last. Otherwise as attention().
  Tensor attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                     const AttentionSpec& spec);

  /// Which keys up to its own each query may see: I64 [tokens, pickers, words], bit j % 64 of word j / 64 for key j of
  /// its sequence, as many words as the last position of all spans needs. The n_picked best of
  ///   Σ_h weights_h max(0, q_h · k_j)   weights [tokens, heads]: one picker
  ///   q_h · k_j                         weights absent: a picker for each head
  /// all f32 inside; among equals the first. q [tokens, heads, dim], k [tokens, 1, dim]; rows as sample_attention() has
  /// them. Where the op runs, kept beyond the batch.
  Owned pick_keys(const Tensor& q, const Tensor& weights, const Tensor& k, std::span<const Span> spans,
                  std::span<const KvRows* const> rows, const PickSpec& spec);

  /// Appends the spans' rows of k and v to what is kept of their sequences, as attention() does; null rows are left. v
  /// may be absent, always for a sequence or never.
  void keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans, std::span<KvRows* const> rows);

  /// What rounding of keys and values would do to attention, for some rows (attention_sample.h). rows[i] holds the rows
  /// of the sequence of spans[i] up to the span's last, as after attention(), or null = the span is the whole sequence
  /// and its rows are those of k [tokens, n_kv_heads, Dk] and v. k and v may be absent where no rows[i] is null.
  /// Logits, softmax and sums in f32, over key blocks at absolute positions, whatever the activations are.
  AttentionSample sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                   std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                   const SampleRequest& request);

  /// c[t] = act( Σ_j w[:, j] · x[t - (kernel-1) + j] + bias ), per channel; x [tokens, channels]. Inputs before the
  /// sequence are zeros, or the state's window; the state is advanced. f32 inside; one rounding.
  Tensor causal_conv(const Tensor& x, const ConvWeights& w, std::span<const Span> spans,
                     std::span<ConvState* const> states);

  /// y = x / sqrt(Σ x² + eps) over the last dimension, f32 inside, rounded.
  Tensor l2_norm(const Tensor& x, float eps);

  /// β = σ(b), g = -exp(A_log) · softplus(a + dt_bias): F32 [tokens, heads] each, from activations a, b [tokens, heads]
  /// and F32 A_log, dt_bias [heads].
  struct DeltaGates {
    Tensor g, beta;
  };
  DeltaGates delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias);

  /// The same with a decay for every channel of a key (Kimi delta attention): a [tokens, heads · dk], b [tokens,
  /// heads], a_log [heads], dt_bias [heads · dk] -> g [tokens, heads, dk], beta [tokens, heads].
  DeltaGates channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias);

  /// Gated delta rule. q, k [tokens, n_key_heads, dk] (l2-normalised), v [tokens, n_value_heads, dv], gates as above.
  /// Value head h uses key head h / (n_value_heads / n_key_heads). Per value head, with S [dk, dv] in f32:
  ///   S <- e^g S;  e = β (v - kᵀ S);  S <- S + k ⊗ e;  o = (dk^-1/2 q)ᵀ S
  /// with e^g for each row of S where the gates are by channel, computed in chunks of 64 absolute positions. ->
  /// [tokens, n_value_heads, dv], rounded. The states are advanced, and rounded where StateFormat says that they are
  /// stored.
  Tensor gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                          std::span<const Span> spans, std::span<DeltaState* const> states);

  /// State-space duality (Mamba-2). x [tokens, heads, head_dim], dt [tokens, heads], b, c [tokens, groups, n_state];
  /// a_log, dt_bias, d [heads]. Head h uses group h / (heads / groups). Per head, with S [n_state, head_dim] in f32:
  ///   Δ = softplus(dt + dt_bias);  S <- e^(-exp(a_log) Δ) S + b ⊗ Δ x;  y = cᵀ S + d x
  /// computed in chunks of 64 absolute positions. -> as x, rounded. The states are advanced, as above.
  Tensor ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans, std::span<SsmState* const> states);

  /// Selective scan (Mamba-1). x, dt [tokens, channels], b, c [tokens, n_state]; a_log [channels, n_state], dt_bias, d
  /// [channels]. Per channel, with S [n_state] in f32, token after token:
  ///   Δ = softplus(dt + dt_bias);  S <- e^(-exp(a_log) Δ) S + Δ b x;  y = c · S + d x
  /// -> as x, rounded. The states are advanced.
  Tensor selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                        std::span<SsmState* const> states);

  /// AfterNorm: y = round( n(x) · gain · act(z) ), BeforeNorm: y = round( n(x · act(z)) · gain ), over the last
  /// dimension in equal groups, with n(x) = x / sqrt(mean(x²) + eps); all f32 inside.
  Tensor gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec);

  /// The k best experts of each row of logits [tokens, n_experts], activations or F32, best first (ties: lower index),
  /// all in f32.
  Routing route(const Tensor& logits, const RoutingSpec& spec);

  /// y[t] = Σ_j weight[t, j] · expert[t, j](x[t]), summed in f32 in order of the expert's index, rounded once.
  Tensor experts(const Tensor& x, const Routing& routing, std::span<const GluWeights> experts);

  // ---------------------------------------------------------------- statistics

  /// Tables that have seen nothing.
  TapTables tap_tables(const TapShape& shape);

  /// Counts x [tokens, heads, width], BF16 or F32 (rounded to bf16), into the tables. `rows` describe the rows of x, in
  /// order, without gaps.
  void accumulate(const Tensor& x, const TapTables& tables, std::span<const TapRows> rows);

  /// Counts recurrent states, F32 (rounded to bf16), each of heads * width numbers, heads outermost, into tables
  /// without sums. `rows` describe one each: as many tokens as it has seen, less one, are its position.
  void count_states(std::span<const Tensor> states, const TapTables& tables, std::span<const TapRows> rows);

  // ---------------------------------------------------------------- ops that belong together
  // Each is the composition of the ops above that its comment gives, with all their roundings; a backend may do it in
  // one pass over the data.

  /// sum = add(x, y), normed = rms_norm(sum, gain, eps).
  struct SumAndNorm {
    Tensor sum, normed;
  };
  SumAndNorm add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& gain, float eps);

  /// linear(glu(linear(x, gate), linear(x, up), act), down), or linear(activate(linear(x, up), act), down).
  Tensor glu_mlp(const Tensor& x, const GluWeights& w);

  /// For every part: linear(x [tokens, in], part) as [tokens, heads, head_dim], then rms_norm and rope as the part
  /// wants.
  std::vector<Tensor> project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& spec);

 protected:
  // Inputs of these are rounded already; what is between two products of one op they round themselves.
#define KVCAL_COMPUTED(Result, name, parameters, ...) virtual Result do_##name parameters = 0;
  KVCAL_OPS(KVCAL_COMPUTED)
#undef KVCAL_COMPUTED

  // Compositions, unless a backend knows better (fused.cpp).
#define KVCAL_COMPOSED(Result, name, parameters, ...) virtual Result do_##name parameters;
  KVCAL_COMPOSED_OPS(KVCAL_COMPOSED)
#undef KVCAL_COMPOSED
};

}  // namespace kvcal
