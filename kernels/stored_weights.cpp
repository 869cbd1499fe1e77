// Weights that a checkpoint stores as codes with scales: their bytes go to the device as they are, where dequantize.cu
// makes the values. What that has no form for is decoded by the reader's threads.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/cuda_backend.h"
#include "ops/column_norms.h"
#include "tensor/encoded_weight.h"

namespace kvcal::cuda {
namespace {

using Sending = BackgroundReader::Sending;
using Parts = std::vector<const std::byte*>;

constexpr uint64_t kReadRoom = 2 * DirectFile::kAlignment;  // that a read takes beyond its bytes

/// Rows of codes of one expert that fit a slot, with their scales, and what is made of them.
struct CodedRows {
  BackgroundReader::Source codes, scales;  // of the whole weight
  std::shared_ptr<const EncodedWeight> weight;
  WeightCodes form;
  WeightRows rows;  // of the weight
  std::shared_ptr<const std::vector<DecodedRows>> results;
};

uint64_t scale_row_bytes(const WeightCodes& form) {
  return static_cast<uint64_t>(form.grid.n_columns) * size_of(form.scales.dtype);
}

/// Rows that a slot has room for, with their scales; 0: none.
int64_t rows_of_slot(const WeightCodes& form, uint64_t slot_bytes) {
  const uint64_t scale_row = scale_row_bytes(form), fixed = 2 * (kReadRoom + kAlignment) + 2 * scale_row;
  if (slot_bytes <= fixed) return 0;
  const auto rectangle = static_cast<uint64_t>(form.grid.rows);
  const uint64_t row = static_cast<uint64_t>(form.row_bytes) + (scale_row + rectangle - 1) / rectangle;
  return static_cast<int64_t>((slot_bytes - fixed) / row);
}

/// Scales of the rectangles that the rows lie in.
WeightRows scales_of_rows(const ScaleGrid& grid, WeightRows rows) {
  const int64_t first = grid.index(rows.first, 0), end = grid.index(rows.first + rows.n - 1, 0) + grid.n_columns;
  return {first, end - first};
}

uint64_t code_bytes(const CodedRows& w) { return static_cast<uint64_t>(w.rows.n * w.form.row_bytes); }

/// Its codes and its scales, which are checked.
Parts read(const CodedRows& w, std::byte* host) {
  const WeightRows scales = scales_of_rows(w.form.grid, w.rows);
  const uint64_t scale_size = size_of(w.form.scales.dtype), n = code_bytes(w);
  const std::byte* const codes = w.codes.read(static_cast<uint64_t>(w.rows.first * w.form.row_bytes), n, host);
  const uint64_t room = (n + kReadRoom) / DirectFile::kAlignment * DirectFile::kAlignment;
  const std::byte* const factors = w.scales.read(static_cast<uint64_t>(scales.first) * scale_size,
                                                 static_cast<uint64_t>(scales.n) * scale_size, host + room);
  while_doing(w.weight->form().reading, [&] { scales_of(w.form.scales_name, w.form.scales.dtype, factors, scales); });
  return {codes, factors};
}

void decode_on_device(const CodedRows& w, const Sending& sending) {
  const WeightCodes& form = w.form;
  const ScaleGrid& grid = form.grid;
  const int64_t expert = w.rows.first / grid.out, row = w.rows.first % grid.out;
  const float global = while_doing(w.weight->form().reading, [&] { return form.global ? form.global(expert) : 1.0f; });
  std::byte* const codes = sending.room;
  std::byte* const device_scales = codes + padded_bytes(code_bytes(w));
  sending.target.copy(codes, sending.parts[0], code_bytes(w));
  sending.target.copy(device_scales, sending.parts[1],
                      static_cast<uint64_t>(scales_of_rows(grid, w.rows).n) * size_of(form.scales.dtype));
  const auto u32 = [](int64_t n) { return static_cast<uint32_t>(n); };
  const StoredRows stored{form.code,
                          codes,
                          form.row_bytes,
                          u32(w.rows.n),
                          u32(grid.in),
                          form.scales.dtype,
                          device_scales,
                          u32(row % grid.rows),
                          u32(grid.rows),
                          u32(grid.columns),
                          u32(grid.n_columns),
                          !form.global   ? GlobalScale::None
                          : form.divided ? GlobalScale::Divided
                                         : GlobalScale::Multiplied,
                          global};
  for (DecodedRows result : *w.results) {
    result.first_stored += w.rows.first;
    dequantize(stored, result, sending.target.copies.get());
  }
}

/// Where a part of a weight goes on the device; first_stored is of row 0.
DecodedRows result_of(const EncodedPart& part, const Tensor& device) {
  const auto& g = part.groups;
  return {device.data,
          device.dtype,
          -g.first,
          static_cast<uint32_t>(g.group),
          static_cast<uint32_t>(g.offset),
          static_cast<uint32_t>(g.n),
          part.first_row,
          part.n_rows,
          part.transposed ? 1 : part.n_columns,
          part.first_column,
          part.n_columns,
          part.transposed ? part.n_rows : 1};
}

/// The rows of the weight that a part needs: whole groups, so that parts that share them are made by one reading.
WeightRows rows_needed(const EncodedPart& part) {
  const RowGroups& g = part.groups;
  if (g.all()) return {g.first + part.first_row, part.n_rows};
  const int64_t first = part.first_row / g.n, last = (part.first_row + part.n_rows - 1) / g.n;
  return {g.first + first * g.group, (last + 1 - first) * g.group};
}

}  // namespace

/// Jobs for the rows, each within one expert.
void CudaBackend::read_codes(const EncodedPart& part, const WeightCodes& form, const Tensor& device) {
  const WeightRows rows = rows_needed(part);
  const DecodedRows result = result_of(part, device);
  if (coded_.weight == part.weight && coded_.rows.first == rows.first && coded_.rows.n == rows.n &&
      coded_.collected == reader_.n_collected())
    return coded_.results->push_back(result);
  auto results = std::make_shared<std::vector<DecodedRows>>(1, result);
  coded_ = {part.weight, rows, reader_.n_collected(), results};
  const int64_t experts = part.weight->form().rows / form.grid.out;
  const CodedRows all{
      reader_.source_of(form.codes, static_cast<uint64_t>(part.weight->form().rows * form.row_bytes)),
      reader_.source_of(form.scales.data, static_cast<uint64_t>(form.grid.size(experts)) * size_of(form.scales.dtype)),
      part.weight,
      form,
      {},
      results};
  const int64_t most = rows_of_slot(form, reader_.slot_bytes());
  for (int64_t at = rows.first; at < rows.first + rows.n;) {
    const int64_t n = std::min({most, rows.first + rows.n - at, form.grid.out - at % form.grid.out});
    CodedRows some = all;
    some.rows = {at, n};
    reader_.add_work(static_cast<uint64_t>(at * form.row_bytes), code_bytes(some),
                     {[some](std::byte* host) { return read(some, host); },
                      [some](const Sending& sending) { decode_on_device(some, sending); }});
    at += n;
  }
}

/// Decoded into slots by the reader's threads.
void CudaBackend::read_decoded(const EncodedPart& part, const Tensor& device) {
  const int64_t columns = part.n_columns;
  const uint64_t row_bytes = static_cast<uint64_t>(columns) * size_of(device.dtype);
  const int64_t step = std::max<int64_t>(static_cast<int64_t>(reader_.slot_bytes() / row_bytes), 1);
  for (int64_t at = 0; at < part.n_rows; at += step) {
    const WeightRows rows{at, std::min(step, part.n_rows - at)};
    char* const to = static_cast<char*>(device.data) + static_cast<uint64_t>(at) * row_bytes;
    const uint64_t bytes = static_cast<uint64_t>(rows.n) * row_bytes;
    const auto fill = [part, rows, as = device.dtype](std::byte* host) -> Parts {
      const auto n = static_cast<size_t>(rows.n * part.n_columns);
      if (as == DType::BF16) {
        decode(part, rows, reinterpret_cast<bf16*>(host));
      } else {
        std::vector<bf16> values(n);
        decode(part, rows, values.data());
        convert_to_float(DType::BF16, values.data(), reinterpret_cast<float*>(host), n);
      }
      return {host};
    };
    const auto send = [to, bytes](const Sending& s) { s.target.copy(to, s.parts[0], bytes); };
    reader_.add_work(static_cast<uint64_t>(at) * row_bytes, bytes, {fill, send});
  }
}

void CudaBackend::load_stored(const Tensor& device, const Tensor& stored) {
  const EncodedPart part = part_of(stored);
  if (const auto& codes = part.weight->form().codes) {
    const WeightCodes form = codes();
    if (rows_of_slot(form, reader_.slot_bytes()) > 0) return read_codes(part, form, device);
  }
  // A column of a weight that is transposed takes all of its rows.
  if (part.transposed) return load_into(device, decoded(stored).tensor(), 0.0f);
  read_decoded(part, device);
}

/// Of weights that are only stored: by a reader thread, beside the work of the layer before.
std::shared_ptr<const ColumnNorms> CudaBackend::do_load_column_norms(const Tensor& weight, const Tensor& expansion,
                                                                     int64_t n_heads) {
  if (weight.device != Device::Stored || (expansion && expansion.device != Device::Stored))
    return Ops::do_load_column_norms(weight, expansion, n_heads);
  const auto on_host = std::make_shared<std::vector<float>>();
  const int64_t width = expansion ? expansion.dim(1) : weight.dim(1) / n_heads;
  const Owned values = uninitialised({n_heads, width}, DType::F32);
  const EncodedPart part = part_of(weight), expanding = expansion ? part_of(expansion) : EncodedPart{};
  const auto fill = [part, expanding, n_heads](std::byte* host) -> Parts {
    const auto again = [](const EncodedPart& p) { return standing_for(p, {p.n_rows, p.n_columns}); };
    const Storage w = again(part), e = expanding.weight ? again(expanding) : Storage();
    const std::vector<float> norms = column_norms(w.tensor(), e.tensor(), n_heads);
    std::memcpy(host, norms.data(), norms.size() * sizeof(float));
    return {host};
  };
  const auto send = [on_host, to = values.view](const Sending& s) {
    const auto* const norms = reinterpret_cast<const float*>(s.parts[0]);
    on_host->assign(norms, norms + to.bytes() / sizeof(float));
    s.target.copy(to.data, norms, to.bytes());
  };
  reader_.add_work(0, values.view.bytes(), {fill, send});
  return std::make_shared<const ColumnNorms>(ColumnNorms{values, on_host});
}

}  // namespace kvcal::cuda
