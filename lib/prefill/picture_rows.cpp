#include "prefill/picture_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tensor/dtype.h"

namespace kvcal {
namespace {

int64_t n_rows(const Picture& picture, const TowerSpec& tower) {
  int64_t n = 0;
  for (const PicturePart& part : parts_of(tower.text, squares_of(picture.grid, tower.patches.merge))) n += part.n_rows;
  return n;
}

// Text takes the same position on all axes. A picture's squares take those of its rows and columns from where it
// begins; the text behind it goes on behind the larger of both.
class Positions {
 public:
  explicit Positions(size_t n_tokens) : all_(3 * n_tokens), n_tokens_(n_tokens) {}

  void add_text() {
    put(next_, next_, next_);
    ++next_;
  }
  void add_picture(const PatchGrid& grid, int64_t merge) {
    const int64_t height = grid.height / merge, width = grid.width / merge;
    for (int64_t row = 0; row < height; ++row)
      for (int64_t column = 0; column < width; ++column) put(next_, next_ + row, next_ + column);
    next_ += std::max(height, width);
  }
  std::vector<int32_t> take() { return std::move(all_); }

 private:
  void put(int64_t time, int64_t row, int64_t column) {
    all_[at_] = static_cast<int32_t>(time);
    all_[n_tokens_ + at_] = static_cast<int32_t>(row);
    all_[2 * n_tokens_ + at_] = static_cast<int32_t>(column);
    ++at_;
  }

  std::vector<int32_t> all_;  // [3][n_tokens]
  size_t n_tokens_, at_ = 0;
  int64_t next_ = 0;
};

std::vector<int32_t> positions_of(std::span<const int32_t> row_of, std::span<const Picture> pictures, int64_t merge) {
  Positions positions(row_of.size());
  size_t next = 0;
  for (size_t i = 0; i < row_of.size();) {
    if (row_of[i] < 0) {
      positions.add_text();
      ++i;
      continue;
    }
    const PatchGrid& grid = pictures[next++].grid;
    positions.add_picture(grid, merge);
    i += static_cast<size_t>(grid.n_patches() / (merge * merge));
  }
  return positions.take();
}

std::vector<int32_t> one_after_the_other(size_t n_tokens) {
  std::vector<int32_t> positions(n_tokens);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

/// Of each token the row that the tower makes for it, or -1.
std::vector<int32_t> rows_of(std::span<const int32_t> ids, std::span<const Picture> pictures, const TowerSpec& tower) {
  std::vector<int32_t> row_of;
  int32_t n = 0;
  size_t next = 0;
  while (row_of.size() < ids.size()) {
    if (ids[row_of.size()] != tower.token) {
      row_of.push_back(-1);
      continue;
    }
    if (next == pictures.size()) fail("more image tokens than pictures");
    const Picture& picture = pictures[next++];
    bool first = true;
    for (const PicturePart& part : parts_of(tower.text, squares_of(picture.grid, tower.patches.merge))) {
      const auto at_square = [&] { return row_of.size() < ids.size() && ids[row_of.size()] == tower.token; };
      if (!first && !part.text.empty() && part.n_rows > 0) {
        row_of.push_back(-1);
        while (row_of.size() < ids.size() && !at_square()) row_of.push_back(-1);
      }
      for (int64_t k = 0; k < part.n_rows; ++k) {
        if (!at_square()) fail("fewer image tokens than a picture has squares");
        row_of.push_back(n++);
      }
      first = false;
    }
  }
  if (next < pictures.size()) fail("fewer image tokens than pictures");
  return row_of;
}

/// A picture on its way through a tower.
struct Traveller {
  const Picture* picture;
  const EncoderRows* to;
  int64_t first_row;  // in `to`
  Storage stream;     // [patches, hidden], host
};

std::vector<Traveller> travellers(std::span<const PromptTokens> prompts, const TowerSpec& tower) {
  std::vector<Traveller> all;
  for (const PromptTokens& p : prompts) {
    int64_t row = 0;
    for (size_t i = 0; p.encoder && i < p.encoder->pictures.size(); ++i) {
      const Picture& picture = p.encoder->pictures[i];
      all.push_back({&picture, p.encoder.get(), row, {}});
      row += n_rows(picture, tower);
    }
  }
  return all;
}

Storage patches_of(const Picture& picture, const PatchProcessor& processor, DType dtype) {
  const std::vector<float> values = processor.patches_of(decode_image(*picture.bytes));
  const int64_t n = picture.grid.n_patches();
  Storage out({n, static_cast<int64_t>(values.size()) / n}, dtype);
  if (dtype == DType::F32) {
    std::memcpy(out.tensor().data, values.data(), out.tensor().bytes());
  } else {
    convert_to_bf16(DType::F32, values.data(), out.tensor().as<bf16>(), values.size());
  }
  return out;
}

Storage through(TowerPart& part, Ops& op, const Tensor& x, const PatchGrid& grid) {
  const Tensor y = part.forward(op, op.upload(x), grid);
  Storage out(y.shape, y.dtype);
  op.download(y, out.tensor());
  op.end_batch();
  return out;
}

void put_rows(TowerPart& part, Ops& op, const Traveller& t, const Tensor& to) {
  const Storage rows = through(part, op, t.stream.tensor(), t.picture->grid);
  const Tensor place = to.rows(t.first_row, rows.tensor().dim(0));
  convert_to_float(rows.tensor().dtype, rows.tensor().data, place.as<float>(), static_cast<size_t>(place.elements()));
}

}  // namespace

std::shared_ptr<const EncoderRows> plan_pictures(std::span<const int32_t> ids, std::vector<Picture> pictures,
                                                 const TowerSpec& tower, const ModelSpec& spec) {
  auto rows = std::make_shared<EncoderRows>();
  rows->pictures = std::move(pictures);
  rows->row_of = rows_of(ids, rows->pictures, tower);
  if (spec.images_seen_whole) rows->last_seen = ends_of_images(rows->row_of);
  rows->positions = spec.n_position_axes == 1 ? one_after_the_other(ids.size())
                                              : positions_of(rows->row_of, rows->pictures, tower.patches.merge);
  rows->n_axes = spec.n_position_axes;
  auto memory = std::make_shared<std::vector<Storage>>();
  const int64_t n = 1 + std::ranges::max(rows->row_of);
  for (int64_t i = 0; i <= spec.n_deepstack; ++i) memory->emplace_back(Shape{n, spec.hidden}, DType::F32);
  rows->embeddings = memory->front().tensor();
  for (size_t i = 1; i < memory->size(); ++i) rows->deepstack.push_back((*memory)[i].tensor());
  rows->memory = std::move(memory);
  return rows;
}

std::string tower_prefix(const Checkpoint& checkpoint, const TowerSpec& tower) {
  for (const std::string& prefix : tower.prefixes)
    if (checkpoint.has(prefix + tower.first)) return prefix;
  fail("the checkpoint has no tensor " + quoted(tower.prefixes.front() + tower.first) +
       ": its vision tower is missing, so pictures cannot be read; give \"embeddings\" instead");
}

void run_tower(const VisionTower& tower, const PatchProcessor& processor, Ops& op, WeightBinder weights,
               std::span<const PromptTokens> prompts) {
  const TowerSpec& spec = tower.spec();
  std::vector<Traveller> all = travellers(prompts, spec);
  const std::unique_ptr<TowerPart> input = tower.load_input(op, weights);
  for (Traveller& t : all) {
    const Storage patches = patches_of(*t.picture, processor, op.activation_dtype());
    t.stream = through(*input, op, patches.tensor(), t.picture->grid);
  }
  for (int block = 0; block < spec.n_blocks; ++block) {
    const std::unique_ptr<TowerPart> part = tower.load_block(block, op, weights);
    for (Traveller& t : all) t.stream = through(*part, op, t.stream.tensor(), t.picture->grid);
    for (size_t i = 0; i < spec.deepstack_after.size(); ++i) {
      if (spec.deepstack_after[i] != block) continue;
      const std::unique_ptr<TowerPart> stream = tower.load_deepstack(i, op, weights);
      for (const Traveller& t : all) put_rows(*stream, op, t, t.to->deepstack[i]);
    }
  }
  const std::unique_ptr<TowerPart> output = tower.load_output(op, weights);
  for (const Traveller& t : all) put_rows(*output, op, t, t.to->embeddings);
  for (const std::string& module : spec.modules) weights.at(module).release();
}

uint64_t tower_bytes(const TowerSpec& tower, std::span<const PromptTokens> prompts) {
  int64_t all = 0, most = 0;
  for (const PromptTokens& p : prompts)
    for (size_t i = 0; p.encoder && i < p.encoder->pictures.size(); ++i) {
      const int64_t n = p.encoder->pictures[i].grid.n_patches();
      all += n;
      most = std::max(most, n);
    }
  return static_cast<uint64_t>(all * tower.hidden + most * tower.activations) * sizeof(float);
}

}  // namespace kvcal
