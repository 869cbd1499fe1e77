// What CudaOps asks of the .cu files: pointers into device memory, extents, a stream. Everything is queued on the
// stream; nothing waits. `t` is the dtype of activations, BF16 or F32; formulas and roundings are those of ops/ops.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/pick_keys.h"
#include "ops/ops.h"
#include "tensor/dtype.h"

namespace kvcal::cuda {

// ---------------------------------------------------------------- probe.cu

/// Throws Error where this library has no kernels for the device.
void probe(cudaStream_t stream);

/// Rows of `width` elements.
struct Rows {
  int64_t count, width;
};

// ---------------------------------------------------------------- elementwise.cu

void add(DType t, const void* x, const void* y, void* z, int64_t n, cudaStream_t stream);
void scale(DType t, const void* x, float factor, void* z, int64_t n, cudaStream_t stream);
void softcap(DType t, const void* x, float c, void* z, int64_t n, cudaStream_t stream);
struct ClampBounds {
  float least, most;
};
void clamp(DType t, const void* x, ClampBounds bounds, void* z, int64_t n, cudaStream_t stream);

/// y has n elements, or one for each row of x.
void mul(DType t, const void* x, const void* y, DType y_type, void* z, int64_t n, cudaStream_t stream);
void mul_rows(DType t, const void* x, const void* y, DType y_type, void* z, const Rows& rows, cudaStream_t stream);
void sigmoid_mul(DType t, const void* x, const void* gate, void* z, int64_t n, cudaStream_t stream);
void sigmoid_mul_rows(DType t, const void* x, const void* gate, void* z, const Rows& rows, cudaStream_t stream);

/// to[i] = from[rows[i]], rows of row_bytes bytes; rows are on the device.
void take_rows(const void* from, void* to, const int64_t* rows, int64_t n_rows, int64_t row_bytes, cudaStream_t stream);

/// Row r of the result: row r of a, then row r / sharing of b.
struct Joined {
  const void *a, *b;
  void* to;
  int64_t rows, a_bytes, b_bytes;  // bytes of a row
  int64_t sharing;
};
void join(const Joined& joined, cudaStream_t stream);

/// a, b [tokens, heads] -> g, beta F32 [tokens, heads]; a_log, dt_bias F32 [heads].
struct DeltaGateArrays {
  const void *a, *b;
  const float *a_log, *dt_bias;
  float *g, *beta;
};
void delta_gates(DType t, const DeltaGateArrays& arrays, int64_t tokens, int64_t heads, cudaStream_t stream);

// ---------------------------------------------------------------- glu.cu

void activate(DType t, const void* x, Activation act, void* z, int64_t n, cudaStream_t stream);
/// Parameters of xIELU, one number each, on the device.
struct XieluNumbers {
  const float *alpha_p, *alpha_n, *beta, *eps;
};
void xielu(DType t, const void* x, const XieluNumbers& w, void* z, int64_t n, cudaStream_t stream);
void glu(DType t, const void* gate, const void* up, Activation act, void* z, int64_t n, cudaStream_t stream);

/// gate_up has rows of 2 width: the gates of a row, then what they multiply.
void glu_halves(DType t, const void* gate_up, Activation act, void* z, const Rows& rows, cudaStream_t stream);

// ---------------------------------------------------------------- input_rounding.cu

void round_input(DType t, const void* x, const InputRounding& rounding, void* y, const Rows& rows, cudaStream_t stream);

// ---------------------------------------------------------------- cache_rounding.cu

/// n: of each, 1, one for each head, or one for each channel; write is null where scales are dynamic.
struct CacheScales {
  const float *write, *read;
  int64_t n;
};

/// Rows of `heads` heads, `count` in all.
struct CacheRows {
  int64_t count, heads, width;
};

void round_cache(DType t, const void* x, CacheFormat format, const CacheScales& scales, void* y, const CacheRows& rows,
                 cudaStream_t stream);

// ---------------------------------------------------------------- four_bit_rows.cu

/// in_four_bits() formats.
void round_in_four_bits(DType t, const void* x, CacheFormat format, void* y, const CacheRows& rows,
                        cudaStream_t stream);

// ---------------------------------------------------------------- norm.cu

/// gain: null, or of gain_type.
void rms_norm(DType t, const void* x, const void* gain, DType gain_type, float eps, void* y, const Rows& rows,
              cudaStream_t stream);
struct AddedNorm {
  const void *x, *y, *gain;
  DType gain_type;
  float eps;
  void *sum, *normed;
};
void add_rms_norm(DType t, const AddedNorm& norm, const Rows& rows, cudaStream_t stream);
void l2_norm(DType t, const void* x, float eps, void* y, const Rows& rows, cudaStream_t stream);

/// gain [turns, width] for rows that take turns, and bias [width], or null.
struct LayerNorm {
  const void* x;
  const float *gain, *bias;
  int64_t turns;
  float eps;
  void* y;
};
void layer_norm(DType t, const LayerNorm& norm, const Rows& rows, cudaStream_t stream);

/// Rows are those that are normed alone: of a part of a row of the tensor, where it has groups. gain [n_groups, width].
struct GatedNorm {
  const void *x, *z;
  const float* gain;
  int64_t n_groups;
  float eps;
  GateActivation activation;
  GateOrder order;
  void* y;
};
void gated_rms_norm(DType t, const GatedNorm& norm, const Rows& rows, cudaStream_t stream);

// ---------------------------------------------------------------- streams.cu

/// x [tokens, n, width], w [tokens, m n] -> y [tokens, m, width].
struct MixedStreams {
  const void *x, *w;
  void* y;
  int64_t n, m;
};
void mix_streams(DType t, const MixedStreams& mixed, int64_t tokens, int64_t width, cudaStream_t stream);
void match_rms(DType t, const void* x, const void* like, float least, void* y, const Rows& rows, cudaStream_t stream);
void keep_above(DType t, const void* x, float deviations, void* y, const Rows& rows, cudaStream_t stream);

// ---------------------------------------------------------------- rope.cu

/// positions I32 [n_axes, tokens], inverse_frequency F32 [half], axis I32 [half] -> table [tokens, 2, half].
struct RopeAngles {
  const int32_t* positions;
  const float* inverse_frequency;
  const int32_t* axis;
  float magnitude;
};
void rope_table(DType t, const RopeAngles& angles, void* table, int64_t tokens, int64_t half, cudaStream_t stream);

// ---------------------------------------------------------------- heads.cu

/// Heads [first_head, first_head + n_heads) of a row, in columns from first_column on -> to [tokens, n_heads,
/// head_dim].
struct HeadsArrays {
  int64_t first_head = 0, n_heads = 0, first_column = 0, head_dim = 0;
  const void* gain = nullptr;  // null: no norm
  bool turned = false;
  void* to = nullptr;
};
constexpr int kMostHeadsParts = 4;
struct HeadsParts {
  HeadsArrays part[kMostHeadsParts];
};
/// Rows of `columns` elements with `heads` heads in all; table [tokens, 2, half].
struct HeadsShape {
  int64_t tokens, columns, heads, half;
  bool interleaved;
  float eps;
};
void project_heads(DType t, const void* from, const void* table, DType gain_type, const HeadsParts& parts,
                   const HeadsShape& shape, cudaStream_t stream);

// ---------------------------------------------------------------- conv.cu

/// One span: its rows, and the inputs before it [kernel - 1, channels] (null = zeros). next: where the window after it
/// goes (null = not kept).
struct ConvSpan {
  int64_t row, n_tokens;
  const void* before;
  void* next;
};
/// Spans are on the device; `longest` is the largest of their n_tokens.
struct ConvShape {
  int64_t n_spans, longest, channels, kernel;
};
/// w F32 [channels, kernel], bias F32 [channels] or null.
struct ConvFilters {
  const float *w, *bias;
  bool silu;
};
void causal_conv(DType t, const void* x, const ConvFilters& filters, void* y, const ConvSpan* spans,
                 const ConvShape& shape, cudaStream_t stream);

// ---------------------------------------------------------------- routing.cu

struct RoutingShape {
  int64_t tokens, n_experts, k;
  Scoring scoring = Scoring::Softmax;
  float jitter = 0.0f;
  bool renormalize = false;
  float least_sum = 0.0f, scale = 1.0f;
  const float* bias = nullptr;  // [n_experts]
  int64_t n_groups = 1, k_groups = 1, group_best = 1;
  int64_t shared_floats = 0;  // of a token; set by route()
};
/// logits [tokens, n_experts] -> experts I32, weights F32 [tokens, k].
void route(DType t, const void* logits, int32_t* experts, float* weights, RoutingShape shape, cudaStream_t stream);

// ---------------------------------------------------------------- moe.cu

/// Slots: the choices (token, j) sorted by expert, then token.
struct ExpertSort {
  int32_t* counts;          // [sort_blocks, n_experts], scratch
  int32_t* offsets;         // [n_experts + 1]: the first slot of each expert
  int64_t* token_of_slot;   // [tokens * k]
  int32_t* slot_of_choice;  // [tokens, k]
};
int64_t sort_blocks(const RoutingShape& shape);
void sort_by_expert(const int32_t* experts, const ExpertSort& sort, const RoutingShape& shape, cudaStream_t stream);

/// results F32 [slots, dim] -> y [tokens, dim].
void combine_experts(DType t, const float* results, const float* weights, const int32_t* slots, void* y,
                     const RoutingShape& shape, int64_t dim, cudaStream_t stream);

// ---------------------------------------------------------------- grouped_product.cu

/// A weight [out, in] and its bias [out], F32 or BF16, or null.
struct GroupWeight {
  const void *w, *bias;
  bool bias_bf16;
};
/// y[r] = x[r] w_gᵀ + bias_g for the rows r of every group g. Row r of group g begins at x + row_of[r] x_stride +
/// g x_group and y + r y_stride + g y_group.
struct GroupedProduct {
  const void* x;
  void* y;
  DType t, y_type;             // BF16 or F32; F32, or as t
  const GroupWeight* weights;  // [n_groups]
  int64_t n_groups, in, out;
  int64_t rows;                                  // of all groups together; of each, where first is null
  const int32_t* first;                          // [n_groups + 1]: group g has rows [first[g], first[g + 1])
  const int64_t* row_of;                         // [rows]; null: r itself
  int64_t x_stride, x_group, y_stride, y_group;  // elements
  bool vectors;                                  // 16 bytes of a row can be read at once everywhere
  bool pairs;                                    // and two values of y written
  bool warpgroups;                               // has_warpgroups()
};
void grouped_product(const GroupedProduct& product, cudaStream_t stream);

// ---------------------------------------------------------------- grouped_warpgroups.cu

/// Whether this device multiplies by warpgroups, and the library has code for it.
bool has_warpgroups();
/// grouped_product() of bf16 where `vectors` and `warpgroups` are true.
void grouped_by_warpgroups(const GroupedProduct& product, cudaStream_t stream);

// ---------------------------------------------------------------- attention.cu

/// One span: its rows of the batch, and the keys and values of its sequence from position 0 on.
struct AttentionSpan {
  int64_t row, n_tokens, first_position;
  const void *key, *value;   // [first_position + n_tokens, n_kv_heads, key_dim], [.., value_dim]
  bool looks_ahead = false;  // Span's, or last_keys say so
  bool picks = false;        // sees what is picked, perhaps not all
};
/// Spans are on the device; `longest` is the largest of their n_tokens.
struct AttentionShape {
  int64_t n_spans, longest, n_heads, n_kv_heads, key_dim, value_dim, window;
  float scale, softcap = 0.0f;
  const float* sinks = nullptr;        // [n_heads]
  size_t shared_limit = 0;             // bytes of shared memory that a block may have
  int64_t chunk = 0;                   // keys of other chunks of so many positions are not seen; 0: one chunk
  bool kept = false;                   // key and value are what another layer has kept, none of this batch's rows
  const int32_t* last_keys = nullptr;  // [rows of the batch]: as in AttentionSpec, on the device; or null
  PickedKeys picked{};
};
void attention(DType t, const void* q, void* y, const AttentionSpan* spans, const AttentionShape& shape,
               cudaStream_t stream);

// ------------------------------------- sample_rungs.cu, attention_sample.cu, attention_sample_thorough.cu,
// ------------------------------------- sample_stream.cu

/// A sequence with sampled rows; those are rows [first_row, first_row + n_rows) of SampleArrays::rows.
struct SampledSequence {
  const void *key, *value;  // [n_tokens, n_kv_heads, key_dim], [.., value_dim]: from position 0 on
  int64_t n_tokens;
  int64_t first_absmax;  // of its positions, in SampleArrays
  int32_t first_row, n_rows;
};
/// A row of the batch, its place in the request, its sequence, the keys it sees, and whether it is thorough.
struct SampledRow {
  int32_t row, index, sequence, first_key, last_key, thorough;
};
/// Everything on the device; rungs and figures are AttentionSample's.
struct SampleArrays {
  const void* q;  // [tokens, n_heads, key_dim]
  const SampledSequence* sequences;
  const SampledRow* rows;
  const float* sinks;         // [n_heads] or null
  const float* column_norms;  // [n_heads, value_dim]
  PickedKeys picked;
  float *key_absmax, *value_absmax;  // by position of all sequences; scratch. The same array: one scale
  // Scratch, up to which rung keys (0) and values (1) are alike: of a sequence's block of 64 tokens
  // [n_positions / 64 + 1, n_kv_heads, 2], behind first_absmax / 64; of what a row of the request may see
  // [n, n_kv_heads, 2]; and queries [n, n_heads].
  int32_t *block_alike, *alike, *query_alike;
  int32_t* rungs;
  float* figures;
};
struct SampleShape {
  int64_t n_sequences, n_rows;
  int64_t longest, most_rows;  // the largest n_tokens, n_rows of a sequence
  int64_t n_heads, n_kv_heads, key_dim, value_dim;
  float scale, softcap;
  // As the SampleRequest says.
  SampleFormat format;
  RungLadder cache, query;
  int n_rungs, n_figures;                    // of a row: 2, or 3 where some row is thorough
  int output, key_divergence, value_change;  // where these figures are
  int query_divergence, key_change;
};
/// Writes the rungs; then, from these, the figures, which are zeros before: -1 for those of thorough rows.
void sample_rungs(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);
void sample_attention(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);
/// Then those of thorough rows, of which alone sequences and rows are.
void sample_thorough(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);

/// The residual stream, and where |x|² of its sampled rows go.
struct SampledStream {
  const void* x;  // [tokens, hidden]
  double* squares;
  int64_t hidden;
};
void sample_stream(DType t, const SampledStream& x, const SampledRow* rows, int64_t n_rows, cudaStream_t stream);

// ---------------------------------------------------------------- recurrence.cu, recurrence_tiles.cu

/// Gated delta rule (rate: β), or state-space duality (rate: Δ; q, k, v are C, B, x).
struct RecurrenceArrays {
  const void *q, *k, *v;  // [tokens, n_key_heads, dk] x2, [tokens, n_value_heads, dv]
  const float *g, *rate;  // [tokens, n_value_heads]
  const float* skip;      // D [n_value_heads], or null
  void* y;                // as v
};
struct RecurrenceSpan {
  int64_t row, n_tokens, first_position;
  float* state;  // [n_value_heads, dk, dv], read and written; null: zeros, not kept
};
struct RecurrenceShape {
  int64_t n_spans, n_key_heads, n_value_heads, dk, dv;
  float scale;     // of q
  bool corrected;  // the delta rule
};
/// shared_limit: bytes of shared memory that a block may have on this device.
void recurrence(DType t, const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& shape,
                size_t shared_limit, cudaStream_t stream);

/// The same in bf16 on tensor cores; false when it does not take these shapes.
bool recurrence_tiles(const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& shape,
                      size_t shared_limit, cudaStream_t stream);

/// dt [tokens, heads] -> g, rate F32 [tokens, heads]; a_log, dt_bias F32 [heads].
void ssd_gates(DType t, const void* dt, const float* a_log, const float* dt_bias, float* g, float* rate, int64_t tokens,
               int64_t heads, cudaStream_t stream);

// ---------------------------------------------------------------- channel_delta_rule.cu

/// The delta rule with g [tokens, n_value_heads, dk].
void channel_delta_rule(DType t, const RecurrenceArrays& arrays, const RecurrenceSpan* spans,
                        const RecurrenceShape& shape, size_t shared_limit, cudaStream_t stream);

/// a [tokens, heads, dk], b [tokens, heads] -> g as a, beta as b; a_log [heads], dt_bias [heads, dk].
void channel_delta_gates(DType t, const DeltaGateArrays& arrays, int64_t tokens, int64_t heads, int64_t dk,
                         cudaStream_t stream);

// ---------------------------------------------------------------- selective_scan.cu

struct ScanArrays {
  const void *x, *dt, *b, *c;        // [tokens, channels] x2, [tokens, n_state] x2
  const float *a_log, *dt_bias, *d;  // [channels, n_state], [channels] x2
  void* y;                           // as x
};
struct ScanSpan {
  int64_t row, n_tokens;
  float* state;  // [channels, n_state], read and written; null: zeros, not kept
};
struct ScanShape {
  int64_t n_spans, channels, n_state;
};
void selective_scan(DType t, const ScanArrays& arrays, const ScanSpan* spans, const ScanShape& shape,
                    cudaStream_t stream);

// ---------------------------------------------------------------- state_rounding.cu

struct StoredState {
  float* numbers;
  uint64_t seed;  // random_seed()
};
/// What all of them are, and which numbers share a scale: of all heads (`whole`), or of each head's `groups` of
/// `together` value channels.
struct StoredShape {
  int64_t heads, keys, values, key_step, value_step, together, groups;
  bool whole;
  StateType type;
  float largest;  // 0: no scale
};
/// In place.
void store_states(const StoredState* states, int64_t n, const StoredShape& shape, cudaStream_t stream);

// ---------------------------------------------------------------- statistics.cu

/// x [tokens, heads, width], tables and the descriptions of x's rows, all on the device.
struct TapCount {
  const void* x;
  uint64_t* words;
  const TapRows* rows;
  int64_t n_pieces, tokens;  // elements of `rows`, rows of x
  TapShape shape;
  TapLayout layout;
};
/// n_processors: multiprocessors of the device, for which the rows are divided.
void accumulate(DType t, const TapCount& job, int n_processors, cudaStream_t stream);

// ---------------------------------------------------------------- state_counts.cu

/// A state [heads, width], and what row of the tables it is.
struct StateRow {
  const float* numbers;
  TapRows row;
};
/// States and tables on the device.
struct StateCount {
  const StateRow* states;
  uint64_t* words;
  int64_t n_states;
  TapShape shape;
  TapLayout layout;
};
void count_states(const StateCount& job, cudaStream_t stream);

}  // namespace kvcal::cuda
