// y = x Wᵀ + b as a grid of fixed-shape panel products.
//
// W is cut once, at load, into n_blocks x k_blocks panels by its shape alone; x is cut into panels of kRows rows, and
// the rest into smaller ones where those give the same bytes, the last filled up with zeros. One worker computes one
// (row panel, block of W's rows), adding the blocks along k in ascending order. So neither the number of rows in a
// call, nor a row's place among them, nor the number of threads is visible in the result.
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/finish_rows.h"

namespace kvcal::cpu {
namespace {

constexpr int64_t kMaxDepth = 4096;  // of k: libraries block poorly beyond
constexpr int64_t kMaxWidth = 256;   // of n: a panel and its f32 result stay in the second-level cache
constexpr int64_t kGranule = 64;     // panels but the last are multiples of the libraries' own blocks

struct Cut {
  int64_t blocks, width;
};

/// Nearly equal blocks of at most `most`.
Cut cut(int64_t n, int64_t most) {
  const int64_t blocks = (n + most - 1) / most;
  const int64_t width = ((n + blocks - 1) / blocks + kGranule - 1) / kGranule * kGranule;
  return {(n + width - 1) / width, width};
}

}  // namespace

std::shared_ptr<const PanelProduct> PanelProducts::get(const PanelShape& shape) {
  const std::lock_guard lock(mutex_);
  auto& product = products_[shape];
  if (!product) product = make(shape);
  return product;
}

bool PanelProduct::agrees_with_few(int64_t rows) const {
  if (rows == kFewRows) return true;
  const size_t i = panel_rows_index(rows);
  std::call_once(tried_[i], [&] { agrees_[i] = try_few(rows); });
  return agrees_[i];
}

bool PanelProduct::try_few(int64_t rows) const {
  const int64_t most = std::max(rows, kFewRows), least = std::min(rows, kFewRows);
  const Storage x({most, shape_.x_stride}, shape_.activation), w({shape_.n, shape_.k}, shape_.activation);
  uint32_t state = 1;
  for (const Storage* s : {&x, &w})
    visit_activation(shape_.activation, [&](auto tag) {
      using T = decltype(tag);
      for (int64_t i = 0; i < s->tensor().elements(); ++i) {
        state = state * 1664525u + 1013904223u;  // a linear congruential generator
        store(s->tensor().as<T>() + i, splat(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f), 1);
      }
    });
  const Storage packed({static_cast<int64_t>(packed_bytes())}, DType::U8);
  pack(w.tensor().data, packed.tensor().data);
  const Storage whole({most, shape_.n}, DType::F32), part({least, shape_.n}, DType::F32);
  const auto multiply = [&](int64_t first, int64_t n, const Storage& y, bool accumulate) {
    const Storage scratch({static_cast<int64_t>(scratch_bytes(n, accumulate))}, DType::U8);
    run(n, x.tensor().rows(first, n).data, packed.tensor().data, y.tensor().as<float>(), accumulate,
        scratch.tensor().data);
  };
  const bool one_of_several = shape_.k < shape_.x_stride;  // panels along k: the others add to it
  multiply(0, most, whole, false);
  if (one_of_several) multiply(0, most, whole, true);
  for (int64_t row = 0; row < most; row += least) {
    multiply(row, least, part, false);
    if (one_of_several) multiply(row, least, part, true);
    if (std::memcmp(part.tensor().data, whole.tensor().rows(row, least).data, part.tensor().bytes()) != 0) return false;
  }
  return true;
}

bool PackedWeight::agree(int64_t rows, int64_t others) const {
  return rows == others || std::all_of(panels.begin(), panels.end(), [&](const Panel& p) {
           return p.product->agrees_with_few(rows) && p.product->agrees_with_few(others);
         });
}

std::vector<RowPanel> row_panels(int64_t first, int64_t last, const PackedWeight& w, int64_t like) {
  std::vector<RowPanel> panels;
  int64_t row = first;
  for (const int64_t size : kPanelRows)
    if (size >= kFewRows && last - row >= size && w.agree(size, like))
      for (; last - row >= size; row += size) panels.push_back({row, size, size});
  if (row == last) return panels;
  // `like` itself holds the rest.
  const auto rest = std::find_if(kPanelRows.rbegin(), kPanelRows.rend(),
                                 [&](int64_t size) { return size >= last - row && w.agree(size, like); });
  panels.push_back({row, last - row, *rest});
  return panels;
}

Linear CpuBackend::do_load_linear(const Tensor& weight, const Tensor& bias) {
  return pack(weight, bias, activation_dtype());
}

Linear CpuBackend::do_load_linear_f32(const Tensor& weight, const Tensor& bias) {
  return pack(weight, bias, weight.dtype == DType::BF16 ? activation_dtype() : DType::F32);
}

Linear CpuBackend::pack(const Tensor& weight, const Tensor& bias, DType as) {
  PanelProducts& products = as == activation_dtype() ? *products_ : *f32_products_;
  const int64_t out = weight.dim(0), in = weight.dim(1);
  auto packed = std::make_shared<PackedWeight>();
  packed->out = out;
  packed->in = in;
  const Cut n_cut = cut(out, kMaxWidth), k_cut = cut(in, kMaxDepth);
  packed->n_blocks = n_cut.blocks;
  packed->k_blocks = k_cut.blocks;
  size_t bytes = 0;
  for (int64_t n0 = 0; n0 < out; n0 += n_cut.width)
    for (int64_t k0 = 0; k0 < in; k0 += k_cut.width) {
      const int64_t n = std::min(n_cut.width, out - n0), k = std::min(k_cut.width, in - k0);
      auto product = products.get({n, k, in, as});
      packed->panels.push_back({n0, n, k0, k, product, bytes});
      bytes += (product->packed_bytes() + 63) / 64 * 64;
    }
  packed->memory = Storage({static_cast<int64_t>(bytes)}, DType::U8);

  const size_t element = size_of(weight.dtype);
  parallel(static_cast<int64_t>(packed->panels.size()), [&](int64_t task, Arena& scratch) {
    const PackedWeight::Panel& p = packed->panels[static_cast<size_t>(task)];
    void* to = static_cast<char*>(packed->memory.tensor().data) + p.offset;
    if (weight.dtype == as && p.k == in)  // rows as they are stored
      return p.product->pack(static_cast<const char*>(weight.data) + static_cast<size_t>(p.n0 * in) * element, to);
    const Tensor w = scratch.allocate({p.n, p.k}, as);
    for (int64_t r = 0; r < p.n; ++r) {
      const void* from = static_cast<const char*>(weight.data) + static_cast<size_t>((p.n0 + r) * in + p.k0) * element;
      if (w.dtype == DType::BF16)
        convert_to_bf16(weight.dtype, from, w.as<bf16>() + r * p.k, static_cast<size_t>(p.k));
      else
        convert_to_float(weight.dtype, from, w.as<float>() + r * p.k, static_cast<size_t>(p.k));
    }
    p.product->pack(w.data, to);
  });

  Linear linear{in, out, packed, {}};
  if (bias) linear.bias = do_load_vector(bias, DType::F32, 0.0f);
  return linear;
}

const float* multiply_panel(const void* x, DType dtype, const RowPanel& rows, const PackedWeight& w, int64_t n_block,
                            Arena& scratch) {
  const size_t row_bytes = static_cast<size_t>(w.in) * size_of(dtype);
  const char* source = static_cast<const char*>(x) + static_cast<size_t>(rows.row) * row_bytes;
  if (rows.n < rows.panel) {
    const Tensor padded = scratch.allocate({rows.panel, w.in}, dtype);
    std::memcpy(padded.data, source, static_cast<size_t>(rows.n) * row_bytes);
    std::memset(static_cast<char*>(padded.data) + static_cast<size_t>(rows.n) * row_bytes, 0,
                static_cast<size_t>(rows.panel - rows.n) * row_bytes);
    source = static_cast<const char*>(padded.data);
  }
  const PackedWeight::Panel* panels = &w.panels[static_cast<size_t>(n_block * w.k_blocks)];
  float* y = scratch.allocate({rows.panel, panels[0].n}, DType::F32).as<float>();
  for (int64_t b = 0; b < w.k_blocks; ++b) {
    const PackedWeight::Panel& p = panels[b];
    const size_t room = p.product->scratch_bytes(rows.panel, b > 0);
    const Tensor work = scratch.allocate({static_cast<int64_t>(room)}, DType::U8);
    p.product->run(rows.panel, source + static_cast<size_t>(p.k0) * size_of(dtype),
                   static_cast<const char*>(w.memory.tensor().data) + p.offset, y, b > 0, work.data);
  }
  return y;
}

Tensor CpuBackend::do_linear(const Tensor& x, const Linear& w) { return multiply(x, w, activation_dtype()); }

Tensor CpuBackend::do_linear_f32(const Tensor& x, const Linear& w) {
  const bool f32_weight = static_cast<const PackedWeight*>(w.packed.get())->dtype() == DType::F32;
  if (!f32_weight || x.dtype == DType::F32) return multiply(x, w, DType::F32);
  const Tensor wide = temporary(x.shape, DType::F32);
  parallel_rows(x.elements(), 1, [&](int64_t begin, int64_t end) {
    convert_to_float(x.dtype, x.as<bf16>() + begin, wide.as<float>() + begin, static_cast<size_t>(end - begin));
  });
  return multiply(wide, w, DType::F32);
}

Tensor CpuBackend::multiply(const Tensor& x, const Linear& w, DType result) {
  std::vector<int64_t> extents;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) extents.push_back(x.dim(i));
  extents.push_back(w.out);
  const Tensor y = temporary(Shape(extents), result);
  multiply(x, w, y, 0, w.out);
  return y;
}

void CpuBackend::multiply(const Tensor& x, const Linear& linear, const Tensor& y, int64_t y_column, int64_t y_row) {
  const auto& w = *static_cast<const PackedWeight*>(linear.packed.get());
  const std::vector<RowPanel> panels = row_panels(0, x.elements() / w.in, w, kRows);
  const auto n_panels = static_cast<int64_t>(panels.size());
  const float* bias = linear.bias ? linear.bias.view.as<float>() : nullptr;

  parallel(n_panels * w.n_blocks, [&](int64_t task, Arena& scratch) {
    const RowPanel& r = panels[static_cast<size_t>(task % n_panels)];
    const int64_t n_block = task / n_panels;
    const PackedWeight::Panel& p = w.panels[static_cast<size_t>(n_block * w.k_blocks)];
    const float* product = multiply_panel(x.data, x.dtype, r, w, n_block, scratch);
    visit_activation(y.dtype, [&](auto tag) {
      finish_rows(product, r.n, p.n, bias ? bias + p.n0 : nullptr,
                  y.as<decltype(tag)>() + r.row * y_row + y_column + p.n0, y_row, pairs_);
    });
  });
}

Tensor CpuBackend::do_linear_per_head(const Tensor& x, std::span<const Linear> heads) {
  const int64_t tokens = x.dim(0), n_heads = x.dim(1), in = x.dim(2), out = heads[0].out;
  const Tensor y = activation({tokens, n_heads, out});
  for (int64_t h = 0; h < n_heads; ++h)
    multiply(do_columns(x.reshaped({tokens, n_heads * in}), h * in, in), heads[static_cast<size_t>(h)], y, h * out,
             n_heads * out);
  return y;
}

}  // namespace kvcal::cpu
