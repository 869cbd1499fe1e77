// The factory, memory, and the ops that only copy. Compiled for the base machine: the check below must itself run.
#include "ops/cpu/cpu_ops.h"

#include <cstring>

#include "base/error.h"
#include "ops/cpu/cpu_backend.h"

namespace kvcal {

std::unique_ptr<Ops> make_cpu_ops(const CpuOptions& options) {
#ifdef KVCAL_NEEDS_AVX2
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    fail("this processor has no AVX2 and FMA; the CPU backend needs them (x86-64 processors from about 2013 on)");
#endif
  return std::make_unique<cpu::CpuBackend>(options);
}

namespace cpu {

CpuBackend::CpuBackend(const CpuOptions& options)
    : Ops(options.precision), pool_(options.threads > 0 ? options.threads : available_processors()) {
  constexpr size_t kScratchBlock = size_t{1} << 20;
  for (int i = 0; i < pool_.n_threads(); ++i) scratch_.emplace_back(kScratchBlock);
  arena_.poison_on_reset(options.poison_temporaries);
  for (Arena& a : scratch_) a.poison_on_reset(options.poison_temporaries);
#ifdef KVCAL_ONEDNN
  if (options.precision == Precision::BF16) products_ = make_onednn_products();
  pairs_ = products_ != nullptr;  // both its ISA classes have AVX-512 BF16
  tiles_ = pairs_ && products_->isa() == "amx_bf16";
#endif
  if (!products_) products_ = make_eigen_products();
  f32_products_ = make_eigen_products();
}

std::string CpuBackend::isa() const { return products_->isa(); }

// ---------------------------------------------------------------- memory

Tensor CpuBackend::temporary(const Shape& shape, DType dtype) { return arena_.allocate(shape, dtype); }

void CpuBackend::end_batch() { arena_.reset(); }

Owned CpuBackend::allocate(const Shape& shape, DType dtype) {
  auto storage = std::make_shared<Storage>(shape, dtype);
  std::memset(storage->tensor().data, 0, storage->tensor().bytes());
  const Tensor view = storage->tensor();
  return {view, std::move(storage)};
}

Tensor CpuBackend::upload(const Tensor& host) {
  const Tensor t = temporary(host.shape, host.dtype);
  if (host.bytes() > 0) std::memcpy(t.data, host.data, host.bytes());
  return t;
}

void CpuBackend::download(const Tensor& from, const Tensor& host) {
  if (from.dtype != host.dtype || from.elements() != host.elements())
    fail("download: " + str(from) + " does not fit " + str(host));
  if (host.bytes() > 0) std::memcpy(host.data, from.data, host.bytes());
}

// ---------------------------------------------------------------- weights and copies

Owned CpuBackend::do_load_vector(const Tensor& weight, DType as, float plus) {
  Owned o = allocate(weight.shape, as);
  const auto n = static_cast<size_t>(weight.elements());
  if (as == DType::BF16) {
    convert_to_bf16(weight.dtype, weight.data, o.view.as<bf16>(), n);
    return o;
  }
  float* values = o.view.as<float>();
  convert_to_float(weight.dtype, weight.data, values, n);
  if (plus != 0.0f)
    for (size_t i = 0; i < n; ++i) values[i] = plus + values[i];
  return o;
}

Tensor CpuBackend::do_embed(const Tensor& table, std::span<const int32_t> ids) {
  const int64_t dim = table.dim(1), rows = static_cast<int64_t>(ids.size());
  const Tensor y = activation({rows, dim});
  const size_t table_row = static_cast<size_t>(dim) * size_of(table.dtype);
  parallel_rows(rows, dim, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const char* row =
          static_cast<const char*>(table.data) + static_cast<size_t>(ids[static_cast<size_t>(t)]) * table_row;
      if (y.dtype == DType::BF16)
        convert_to_bf16(table.dtype, row, y.as<bf16>() + t * dim, static_cast<size_t>(dim));
      else
        convert_to_float(table.dtype, row, y.as<float>() + t * dim, static_cast<size_t>(dim));
    }
  });
  return y;
}

Tensor CpuBackend::do_join(const Tensor& a, const Tensor& b) {
  const int64_t n = a.dim(-1), m = b.dim(-1);
  int64_t rows = 1;
  for (int i = 0; i + 1 < a.shape.rank(); ++i) rows *= a.dim(i);
  const int64_t repeats = b.elements() > 0 ? rows * m / b.elements() : 1;  // rows of a that share one of b
  std::vector<int64_t> extents;
  for (int i = 0; i + 1 < a.shape.rank(); ++i) extents.push_back(a.dim(i));
  extents.push_back(n + m);
  const Tensor y = activation(Shape(extents));
  const size_t element = size_of(a.dtype), left = static_cast<size_t>(n) * element,
               right = static_cast<size_t>(m) * element;
  parallel_rows(rows, n + m, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      char* to = static_cast<char*>(y.data) + static_cast<size_t>(r) * (left + right);
      if (left > 0) std::memcpy(to, static_cast<const char*>(a.data) + static_cast<size_t>(r) * left, left);
      if (right > 0)
        std::memcpy(to + left, static_cast<const char*>(b.data) + static_cast<size_t>(r / repeats) * right, right);
    }
  });
  return y;
}

Tensor CpuBackend::do_columns(const Tensor& x, int64_t from, int64_t n) {
  const int64_t width = x.dim(-1), rows = width > 0 ? x.elements() / width : 0;
  Shape shape = x.shape;
  std::vector<int64_t> extents;
  for (int i = 0; i + 1 < shape.rank(); ++i) extents.push_back(shape[i]);
  extents.push_back(n);
  const Tensor y = temporary(Shape(extents), x.dtype);
  const size_t element = size_of(x.dtype);
  parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(static_cast<char*>(y.data) + static_cast<size_t>(r * n) * element,
                  static_cast<const char*>(x.data) + static_cast<size_t>(r * width + from) * element,
                  static_cast<size_t>(n) * element);
  });
  return y;
}

Tensor CpuBackend::do_take_rows(const Tensor& x, std::span<const int64_t> rows) {
  std::vector<int64_t> extents;
  for (int i = 0; i < x.shape.rank(); ++i) extents.push_back(x.dim(i));
  extents[0] = static_cast<int64_t>(rows.size());
  const Tensor y = temporary(Shape(extents), x.dtype);
  const int64_t width = x.dim(0) > 0 ? x.elements() / x.dim(0) : 0;
  const size_t row_bytes = static_cast<size_t>(width) * size_of(x.dtype);
  parallel_rows(static_cast<int64_t>(rows.size()), width, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(static_cast<char*>(y.data) + static_cast<size_t>(r) * row_bytes,
                  static_cast<const char*>(x.data) + static_cast<size_t>(rows[static_cast<size_t>(r)]) * row_bytes,
                  row_bytes);
  });
  return y;
}

}  // namespace cpu
}  // namespace kvcal
