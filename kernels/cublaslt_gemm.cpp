#include "kernels/cublaslt_gemm.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "base/error.h"
#include "kernels/gemm_kernels.h"
#include "kernels/runtime/memory.h"

namespace kvcal::cuda {
namespace {

constexpr size_t kWorkspace = size_t{64} << 20;  // what the library's own documentation wants for Hopper is 32 MiB
constexpr int64_t kStandardRows = 4096;          // of a chunk of a calibration

// Choosing has to cost little beside the batch that waits for it, which may have 256 Ki rows: a rate shows in the first
// waves of tiles, and what the library proposes late is seldom the fastest.
constexpr int64_t kTimedRows = 8192;
constexpr size_t kMostCandidates = 8;
constexpr int kTimed = 3;                   // runs of a candidate
constexpr float kMostMilliseconds = 50.0f;  // of all of them: no further candidate then

/// The library may read 16 bytes at once from rows, and rows must begin where their length lets them.
constexpr uint32_t kLeastAlignment = 16;

bool begins_well(const Tensor& t) {
  const uint32_t alignment = alignment_of_rows(t.dim(-1), t.dtype);
  return alignment >= kLeastAlignment && reinterpret_cast<uintptr_t>(t.data) % alignment == 0;
}

bool suits_the_library(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y) {
  return begins_well(x) && begins_well(w) && begins_well(y) &&
         reinterpret_cast<uintptr_t>(bias.data) % kLeastAlignment == 0;
}

int64_t bucket_of(int64_t rows) {
  constexpr uint64_t kLeast = 16, kMost = kTimedRows;  // below: one tile; above: many waves of tiles
  return static_cast<int64_t>(std::clamp(std::bit_ceil(static_cast<uint64_t>(rows)), kLeast, kMost));
}

std::string rows_text(int64_t bucket) {
  return bucket < kTimedRows ? "up to " + std::to_string(bucket) + " rows"
                             : "more than " + std::to_string(kTimedRows / 2) + " rows";
}

}  // namespace

CublasLtGemm::CublasLtGemm(size_t wide_bytes)
    : library_(make_cublaslt()),
      memory_(allocate_bytes(kWorkspace)),
      checksum_(allocate_bytes(sizeof(unsigned long long))),
      workspace_{memory_.get(), kWorkspace},
      before_(make_timer()),
      after_(make_timer()),
      wide_bytes_(wide_bytes) {}

std::vector<std::string> CublasLtGemm::notes() const { return notes_; }

void CublasLtGemm::multiply(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                            cudaStream_t stream) {
  if (y.elements() == 0) return;
  if (bias && bias.dtype != y.dtype && suits_the_library(x, w, bias, y)) {
    multiply_wide(x, w, bias, y, stream);
    return;
  }
  if (suits_the_library(x, w, bias, y)) {
    const Operands operands{x.data, w.data, y.data};
    Shape& shape = shape_of({w.dim(1), w.dim(0), x.dtype, y.dtype, static_cast<bool>(bias)}, bias.data);
    const Call& call = call_of(shape, x.dim(0), operands, stream);
    if (call.algorithm) {
      shape.product.run(*call.algorithm, call.rows, operands, workspace_, stream);
      return;
    }
  }
  simple_product(x, w, bias, y, stream);
}

/// A bias that is no bf16 number: the library adds to bf16 results only a bf16 bias, so the sums leave it in f32.
void CublasLtGemm::multiply_wide(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                                 cudaStream_t stream) {
  const int64_t rows = x.dim(0), out = w.dim(0);
  const auto row_bytes = static_cast<int64_t>(static_cast<size_t>(out) * sizeof(float));
  if (bias.dtype != DType::F32 || row_bytes > static_cast<int64_t>(wide_bytes_)) {
    simple_product(x, w, bias, y, stream);
    return;
  }
  if (!wide_.get()) wide_ = allocate_bytes(wide_bytes_);
  const int64_t most = static_cast<int64_t>(wide_bytes_) / row_bytes;
  for (int64_t row = 0; row < rows; row += most) {
    const int64_t n = std::min(most, rows - row);
    const Tensor sums{wide_.get(), {n, out}, DType::F32, Device::Cuda};
    multiply(x.rows(row, n), w, bias, sums, stream);
    round_values(static_cast<const float*>(sums.data), static_cast<bf16*>(y.rows(row, n).data), sums.elements(),
                 stream);
  }
}

// ---------------------------------------------------------------- choosing

CublasLtGemm::Shape& CublasLtGemm::shape_of(const ProductShape& name, const void* bias) {
  const auto known = shapes_.find(name);
  if (known != shapes_.end()) {
    known->second.product.set_bias(bias);
    return known->second;
  }
  Shape shape{Product(library_.get(), name), {}, {}, {}};
  shape.product.set_bias(bias);
  const auto proposals = shape.product.proposals(shape.product.rows(kStandardRows), workspace_.bytes);
  if (!proposals.empty()) shape.reference = proposals.front();
  return shapes_.emplace(name, std::move(shape)).first->second;
}

const CublasLtGemm::Call& CublasLtGemm::call_of(Shape& shape, int64_t rows, const Operands& operands,
                                                cudaStream_t stream) {
  const auto known = shape.calls.find(rows);
  if (known != shape.calls.end()) return known->second;
  Call call{shape.product.rows(rows), {}};
  const int64_t bucket = bucket_of(rows);
  if (!shape.chosen.contains(bucket))
    shape.chosen[bucket] = choose(shape, std::min(rows, kTimedRows), operands, stream);
  for (const std::optional<Algorithm>& candidate : {shape.chosen[bucket], shape.reference}) {
    if (call.algorithm || !candidate) continue;
    Algorithm a = *candidate;
    if (shape.product.fits(a, call.rows, workspace_.bytes)) call.algorithm = a;
  }
  return shape.calls.emplace(rows, std::move(call)).first->second;
}

std::vector<Algorithm> CublasLtGemm::candidates_for(const Shape& shape, const Product::Rows& rows) const {
  std::vector<Algorithm> candidates = shape.product.proposals(rows, workspace_.bytes);
  if (std::optional<Algorithm> first = shape.reference; first && shape.product.fits(*first, rows, workspace_.bytes)) {
    std::erase_if(candidates, [&](const Algorithm& a) { return same(a, *first); });
    candidates.insert(candidates.begin(), *first);
  }
  if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
  return candidates;
}

/// Runs candidates on the first n rows of the operands, so y holds some result there afterwards.
std::optional<Algorithm> CublasLtGemm::choose(const Shape& shape, int64_t n, const Operands& operands,
                                              cudaStream_t stream) {
  const Product::Rows rows = shape.product.rows(n);
  const std::vector<Algorithm> candidates = candidates_for(shape, rows);
  const Tensor y{operands.y, {n, shape.product.shape().out}, shape.product.shape().y, Device::Cuda};
  std::optional<unsigned long long> expected;
  std::optional<Algorithm> best;
  float least = 0.0f, spent = 0.0f;
  size_t equal = 0;
  for (const Algorithm& a : candidates) {
    if (spent > kMostMilliseconds) break;
    shape.product.run(a, rows, operands, workspace_, stream);
    const unsigned long long sum = checksum(y, stream);
    if (!expected) expected = sum;
    if (sum != *expected) continue;
    ++equal;
    const float time = milliseconds(shape.product, a, rows, operands, stream);
    spent += (kTimed + 1) * time;
    if (best && time >= least) continue;
    best = a;
    least = time;
  }
  if (!best) return {};
  char time[64];
  std::snprintf(time, sizeof time, "%.3f ms for %lld rows", static_cast<double>(least), static_cast<long long>(n));
  notes_.push_back("product " + str(shape.product.shape()) + ", " + rows_text(bucket_of(n)) + ": algorithm " +
                   str(*best) + ", " + time + ", the fastest of " + std::to_string(equal) + " with equal bits of " +
                   std::to_string(candidates.size()));
  return best;
}

unsigned long long CublasLtGemm::checksum(const Tensor& y, cudaStream_t stream) {
  unsigned long long sum = 0;
  check(cudaMemsetAsync(checksum_.get(), 0, sizeof(sum), stream), "clearing a checksum");
  add_checksum(y, static_cast<unsigned long long*>(checksum_.get()), stream);
  check(cudaMemcpyAsync(&sum, checksum_.get(), sizeof(sum), cudaMemcpyDeviceToHost, stream), "reading a checksum");
  check(cudaStreamSynchronize(stream), "waiting for the device");
  return sum;
}

float CublasLtGemm::milliseconds(const Product& product, const Algorithm& algorithm, const Product::Rows& rows,
                                 const Operands& operands, cudaStream_t stream) {
  float least = 0.0f;
  for (int i = 0; i < kTimed; ++i) {
    float time = 0.0f;
    check(cudaEventRecord(before_.get(), stream), "recording an event");
    product.run(algorithm, rows, operands, workspace_, stream);
    check(cudaEventRecord(after_.get(), stream), "recording an event");
    check(cudaEventSynchronize(after_.get()), "waiting for an event");
    check(cudaEventElapsedTime(&time, before_.get(), after_.get()), "timing a product");
    least = i == 0 ? time : std::min(least, time);
  }
  return least;
}

}  // namespace kvcal::cuda
