// What stored_weights.cpp asks of dequantize.cu.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "tensor/encoded_weight.h"

namespace kvcal::cuda {

enum class GlobalScale : uint8_t { None, Multiplied, Divided };

/// Rows of codes, and from the first on the scales of their rectangles [.., n_scale_columns], all on the device.
struct StoredRows {
  WeightCode code;
  const void* codes;
  int64_t row_bytes;
  uint32_t n_rows, columns;
  DType scale_type;
  const void* scales;
  uint32_t row_in_scales;  // of the first row of codes in its rectangle
  uint32_t rows_of_scale, columns_of_scale, n_scale_columns;
  GlobalScale global;
  float global_scale;
};

/// Where their values go. Of every `group` rows the n_of_group at `offset` make rows, of which those from first_row on
/// are wanted; the first row of codes is row first_stored of the groups.
struct DecodedRows {
  void* data;
  DType dtype;  // BF16 or F32
  int64_t first_stored;
  uint32_t group, offset, n_of_group;
  int64_t first_row, n_rows, row_stride;
  int64_t first_column, n_columns, column_stride;
};
void dequantize(const StoredRows& stored, const DecodedRows& to, cudaStream_t stream);

}  // namespace kvcal::cuda
