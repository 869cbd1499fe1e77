#include "checkpoint/formats/scale_grid.h"

#include "base/error.h"
#include "checkpoint/formats/bit_stream.h"

namespace kvcal {
namespace {

const std::vector<std::array<int64_t, 2>> kUsualBlocks = {{128, 128}};

int64_t blocks_in(int64_t n, int64_t size) { return (n + size - 1) / size; }

/// Extents of one expert's scales: without the experts in front, and without the ones between ModelOpt's four.
std::vector<int64_t> extents_of(const WeightRequest& request, const TensorInfo& scales) {
  std::vector<int64_t> extents;
  for (int i = 0; i < scales.shape.rank(); ++i) extents.push_back(scales.shape[i]);
  if (request.shape.rank() == 3 && !extents.empty() && extents[0] == request.experts()) extents.erase(extents.begin());
  if (extents.size() == 4 && extents[1] == 1 && extents[3] == 1) return {extents[0], extents[2]};
  if (extents.size() == 1) extents.push_back(1);
  return extents;
}

/// Whether scales with as many extents as the weight are one where the blocks in config.json would be several.
bool lacks_blocks(const WeightRequest& request, const TensorInfo& scales) {
  const auto& blocks = request.facts.blocks;
  if (blocks.empty() || scales.shape.rank() != request.shape.rank()) return false;
  return std::ranges::none_of(blocks, [&](const std::array<int64_t, 2>& block) {
    return blocks_in(request.out(), block[0]) * blocks_in(request.in(), block[1]) == 1;
  });
}

}  // namespace

ScaleGrid grid_of(const WeightRequest& request, const TensorInfo& scales, std::string_view format) {
  const int64_t out = request.out(), in = request.in(), n = scales.shape.elements();
  const auto grid = [&](int64_t rows, int64_t columns) {
    return ScaleGrid{out, in, rows, columns, blocks_in(out, rows), blocks_in(in, columns)};
  };
  const bool whole = !lacks_blocks(request, scales);
  if (whole && n == request.experts()) return grid(out, in);
  if (whole && n == 1) return ScaleGrid{request.experts() * out, in, request.experts() * out, in, 1, 1};
  const std::vector<int64_t> extents = extents_of(request, scales);
  if (extents.size() == 2 && n == request.experts() * extents[0] * extents[1]) {
    const auto [a, b] = std::pair(extents[0], extents[1]);
    // First, since the scales of a single row look like groups of columns.
    for (const auto& [rows, columns] : request.facts.blocks.empty() ? kUsualBlocks : request.facts.blocks)
      if (a == blocks_in(out, rows) && b == blocks_in(in, columns)) return grid(rows, columns);
    if (a == out && b > 0 && in % b == 0) return grid(1, in / b);
    if (a == 1 && b == in) return grid(out, 1);
    // Transposed experts of Llama 4 in fbgemm_fp8: a scale for each output of down_proj, laid as if it were not.
    if (request.shape.rank() == 3 && a == in && b == 1) return grid(out, 1);
  }
  fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as " + std::string(format) +
       ", but its scales " + quoted(scales.name) + " are " + str(scales) +
       ": neither one, nor one a row, nor groups of columns, nor blocks of the size in config.json; is config.json "
       "from another checkpoint?");
}

std::vector<float> read_scales(const Checkpoint& checkpoint, const std::string& name) {
  const Tensor t = checkpoint.tensor(name);
  return scales_of(name, t.dtype, t.data, {0, t.elements()});
}

WeightCodes codes_of(const Checkpoint& checkpoint, const ScaleGrid& grid, WeightCode code, const std::string& name,
                     const std::string& scales_name) {
  const Tensor codes = checkpoint.tensor(name);
  const int64_t row_bytes =
      codes.dtype == DType::I32 ? words_for(grid.in, bits_of(code)) * 4 : grid.in * bits_of(code) / 8;
  return {
      code, static_cast<const std::byte*>(codes.data), row_bytes, grid, scales_name, checkpoint.tensor(scales_name)};
}

InputFactors find_input_factors(const WeightRequest& request, StoredWeight& stored) {
  const TensorInfo* found = request.checkpoint.find(request.module("pre_quant_scale"));
  if (!found) return {};
  check_shape(request, *found, {request.in()}, stored.format);
  stored.parts.push_back(found->name);
  return {found->name};
}

std::vector<float> InputFactors::read(const Checkpoint& checkpoint) const {
  return name.empty() ? std::vector<float>{} : read_scales(checkpoint, name);
}

std::vector<int64_t> read_groups(const Checkpoint& checkpoint, const std::string& name, int64_t columns,
                                 int64_t group_size, int64_t n_groups) {
  std::vector<int64_t> groups(static_cast<size_t>(columns));
  if (name.empty()) {
    for (int64_t c = 0; c < columns; ++c) groups[static_cast<size_t>(c)] = c / group_size;
    return groups;
  }
  const Tensor t = checkpoint.tensor(name);
  for (int64_t c = 0; c < columns; ++c) {
    const int64_t g = t.dtype == DType::I64 ? t.as<int64_t>()[c] : t.as<int32_t>()[c];
    if (g < 0 || g >= n_groups)
      fail("column " + std::to_string(c) + " is in group " + std::to_string(g) + " by " + quoted(name) +
           ", but there are " + std::to_string(n_groups) + " groups of scales; is the checkpoint damaged?");
    groups[static_cast<size_t>(c)] = g;
  }
  return groups;
}

}  // namespace kvcal
