// CLIP or SigLIP on the tiles of a canvas and on the whole picture; behind the projector the patches that hold the
// picture are put side by side again, each line with a row of its own behind it (docs/model-notes.md, "Images").
#include "model/towers/llava_next_tower.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "model/config_reading.h"
#include "model/towers/clip_tower.h"
#include "model/towers/llava_projector.h"
#include "model/towers/siglip_tower.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr const char* kProjector = "multi_modal_projector.";
constexpr const char* kNewline = "image_newline";
constexpr int64_t kLongestCanvas = 65535;  // pixels, as of a picture

/// Lines of rows, behind each of which stands that of kNewline.
struct Lines {
  int64_t height, width;
  int64_t n_rows() const { return height * (width + 1); }
  bool operator==(const Lines&) const = default;
};

Lines shown(const PatchGrid& grid) { return {grid.shown_rows, grid.shown_columns}; }

/// a // b of Python.
int64_t floor_of(int64_t a, double b) {
  const auto x = static_cast<double>(a);
  return static_cast<int64_t>(std::round((x - std::fmod(x, b)) / b));
}

/// Of what is shown, as much as the patches of so many tiles; 0: all. A little more than that stays as it is.
Lines lines_of(const PatchGrid& grid, int64_t most_tiles) {
  const auto [height, width] = shown(grid);
  if (most_tiles == 0) return {height, width};
  const auto most = static_cast<double>(most_tiles * grid.width * grid.width);
  const double ratio = std::sqrt(static_cast<double>(height * width) / most);
  if (ratio <= 1.1) return {height, width};
  return {floor_of(height, ratio), floor_of(width, ratio)};
}

/// Where a row of fewer lies among those of a line, their middles at the same fraction of it.
struct Between {
  int64_t low, high;
  float share;  // of the high one
};
Between between(int64_t i, int64_t n, int64_t of) {
  const float scale = static_cast<float>(of) / static_cast<float>(n);
  const float at = std::max(0.0f, scale * (static_cast<float>(i) + 0.5f) - 0.5f);
  const auto low = static_cast<int64_t>(at);
  return {low, std::min(low + 1, of - 1), at - static_cast<float>(low)};
}

/// x [from, hidden] -> [to, hidden]: bilinear, in F32, rounded once.
Tensor interpolated(Ops& op, const Tensor& x, const Lines& from, const Lines& to) {
  const int64_t hidden = x.dim(1);
  const Storage all(x.shape, x.dtype), fewer({to.height * to.width, hidden}, x.dtype);
  op.download(x, all.tensor());
  std::vector<float> row(static_cast<size_t>(hidden)), sum(row.size());
  for (int64_t i = 0; i < to.height * to.width; ++i) {
    const Between y = between(i / to.width, to.height, from.height), x_ = between(i % to.width, to.width, from.width);
    std::fill(sum.begin(), sum.end(), 0.0f);
    const auto add = [&](int64_t line, int64_t column, float share) {
      convert_to_float(x.dtype, all.tensor().rows(line * from.width + column, 1).data, row.data(), row.size());
      for (size_t c = 0; c < row.size(); ++c) sum[c] += share * row[c];
    };
    add(y.low, x_.low, (1 - y.share) * (1 - x_.share));
    add(y.low, x_.high, (1 - y.share) * x_.share);
    add(y.high, x_.low, y.share * (1 - x_.share));
    add(y.high, x_.high, y.share * x_.share);
    const Tensor place = fewer.tensor().rows(i, 1);
    if (x.dtype == DType::F32) {
      std::copy(sum.begin(), sum.end(), place.as<float>());
    } else {
      convert_to_bf16(DType::F32, sum.data(), place.as<bf16>(), sum.size());
    }
  }
  return op.upload(fewer.tensor());
}

/// Rows of b [n, hidden] below those of a [m, hidden].
Tensor below(Ops& op, const Tensor& a, const Tensor& b) {
  return op.join(a.reshaped({1, a.elements()}), b.reshaped({1, b.elements()}))
      .reshaped({a.dim(0) + b.dim(0), a.dim(1)});
}

std::vector<int64_t> numbers(int64_t first, int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// Of the patches behind each other, the whole picture's first, those of the tiles that hold it, line by line.
std::vector<int64_t> shown_patches(const PatchGrid& grid) {
  const int64_t side = grid.width, n_tiles = grid.height / side - 1;
  const int64_t top = (n_tiles / grid.tile_columns * side - grid.shown_rows) / 2;
  const int64_t left = (grid.tile_columns * side - grid.shown_columns) / 2;
  std::vector<int64_t> all;
  for (int64_t y = top; y < top + grid.shown_rows; ++y)
    for (int64_t x = left; x < left + grid.shown_columns; ++x) {
      const int64_t tile = 1 + y / side * grid.tile_columns + x / side;
      all.push_back((tile * side + y % side) * side + x % side);
    }
  return all;
}

struct PackDims {
  LlavaProjector projector;
  int64_t of_class = 0;    // rows in front of a tile's patches that stand for none
  int64_t most_tiles = 0;  // lines_of()
};

class LlavaNextOutput final : public TowerPart {
 public:
  LlavaNextOutput(const PackDims& dims, WeightLoader& loader, WeightBinder& w) : dims_(dims) {
    WeightBinder projector = w.at(kProjector);
    mlp_ = load_llava_projector(dims.projector, loader, projector);
    newline_ = w(kNewline, {dims.projector.out}).reshaped({1, dims.projector.out});
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    Tensor rows = op.glu_mlp(dims_.of_class > 0 ? op.take_rows(x, without_classes(grid)) : x, mlp_);
    const int64_t whole = grid.width * grid.width;
    const Lines lines = lines_of(grid, dims_.most_tiles);
    std::vector<int64_t> patches = shown_patches(grid);
    if (lines != shown(grid)) {
      const Tensor fewer = interpolated(op, op.take_rows(rows, patches), shown(grid), lines);
      rows = below(op, op.take_rows(rows, numbers(0, whole)), fewer);
      patches = numbers(whole, fewer.dim(0));
    }
    const int64_t newline = rows.dim(0);
    const int32_t first[] = {0};
    rows = below(op, rows, op.embed(newline_, first));
    std::vector<int64_t> order = numbers(0, whole);
    for (int64_t line = 0; line < lines.height; ++line) {
      const auto begin = patches.begin() + line * lines.width;
      order.insert(order.end(), begin, begin + lines.width);
      order.push_back(newline);
    }
    return op.take_rows(rows, order);
  }

 private:
  std::vector<int64_t> without_classes(const PatchGrid& grid) const {
    const int64_t tile = grid.width * grid.width;
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < grid.n_patches(); ++i) rows.push_back(i + (i / tile + 1) * dims_.of_class);
    return rows;
  }

  PackDims dims_;
  GluWeights mlp_;
  Tensor newline_;  // [1, out], host
};

/// What both say of their names and rows.
void complete(TowerSpec& spec, const PackDims& dims) {
  spec.text.parts = [most_tiles = dims.most_tiles](const PatchGrid& grid) {
    return std::vector<PicturePart>{{{}, grid.width * grid.width + lines_of(grid, most_tiles).n_rows()}};
  };
  spec.activations = std::max(spec.activations, 8 * dims.projector.out);
  spec.prefixes = {"", "model."};
  spec.modules = {kNewline, kProjector, "vision_tower."};
  spec.first = kNewline;
}

class LlavaNextTower final : public ClipTower {
 public:
  LlavaNextTower(const ClipDims& dims, const PackDims& pack, const ModelSpec& model)
      : ClipTower(dims, model), pack_(pack) {
    complete(spec_, pack);
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<LlavaNextOutput>(pack_, loader, w);
  }

 private:
  PackDims pack_;
};

class LlavaOnevisionTower final : public SiglipTower {
 public:
  LlavaOnevisionTower(SiglipDims dims, const PackDims& pack, const ModelSpec& model)
      : SiglipTower(std::move(dims), model), pack_(pack) {
    complete(spec_, pack);
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<LlavaNextOutput>(pack_, loader, w);
  }

 private:
  PackDims pack_;
};

void expect_type(const Json& vision, std::string_view wanted) {
  const std::string type = get_string_or(vision, "model_type", wanted);
  if (type != wanted) fail("model_type is " + quoted(type) + ", expected " + std::string(wanted));
}

/// image_grid_pinpoints: heights and widths.
Canvases read_canvases(const Json& config, int64_t tile, std::vector<CanvasSize> fallback) {
  const std::string key = "image_grid_pinpoints";
  Canvases out{tile, std::move(fallback)};
  if (const Json* given = find_member(config, key)) {
    out.sizes.clear();
    if (!given->is_array() || given->empty()) fail(key + " is not a list of sizes");
    for (const Json& size : *given) {
      if (!size.is_array() || size.size() != 2 || !size[0].is_number_integer() || !size[1].is_number_integer())
        fail(key + " holds " + size.dump() + ", expected height and width");
      out.sizes.push_back({size[0].get<int64_t>(), size[1].get<int64_t>()});
    }
  }
  for (const CanvasSize& c : out.sizes)
    for (const int64_t edge : {c.height, c.width})
      if (edge < 1 || edge > kLongestCanvas || edge % tile != 0)
        fail(key + " holds " + std::to_string(edge) + ", expected whole tiles of " + std::to_string(tile));
  return out;
}

/// "anyres_max_9": the patches of nine tiles.
int64_t read_most_tiles(const Json& config) {
  constexpr std::string_view kKey = "vision_aspect_ratio", kAnyres = "anyres_max_";
  const std::string given = get_string_or(config, kKey.data(), "anyres_max_9");
  const std::string number = given.starts_with(kAnyres) ? given.substr(kAnyres.size()) : "";
  const bool known = !number.empty() && number.size() <= 4 && number.find_first_not_of("0123456789") == number.npos;
  const int64_t most = known ? std::stoll(number) : 0;
  if (most < 1)
    fail(std::string(kKey) + " is " + quoted(given) + ", expected " + std::string(kAnyres) + "9 or the like");
  return most;
}

std::vector<CanvasSize> onevision_canvases() {
  constexpr int64_t kTile = 384, kMost = 6;
  std::vector<CanvasSize> all;
  for (int64_t rows = 1; rows <= kMost; ++rows)
    for (int64_t columns = 1; columns <= kMost; ++columns) all.push_back({rows * kTile, columns * kTile});
  return all;
}

}  // namespace

std::unique_ptr<VisionTower> read_llava_next_tower(const Json& config, const ModelSpec& model) {
  expect_type(vision_config(config), "clip_vision_model");
  expect_strategy(config, "default", "default");
  ClipDims dims = read_clip(config, -2);
  dims.patches.processor = kLlavaNextProcessor;
  dims.patches.canvases = read_canvases(config, dims.patches.side * dims.patches.size,
                                        {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}});
  const PackDims pack = {read_llava_projector(config, dims.layers.hidden, Bias::Present, model), 1, 0};
  return std::make_unique<LlavaNextTower>(dims, pack, model);
}

std::unique_ptr<VisionTower> read_llava_onevision_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  expect_type(vision, "siglip_vision_model");
  expect_strategy(config, "full", "full");
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 16);
  expect_tile_patches(image, size);
  SiglipDims dims;
  dims.layers = read_clip_layers(vision, {1e-6});
  dims.layers.n_layers = read_n_seen(config, "vision_feature_layer", dims.layers.n_layers, -1);
  dims.patches = {
      size, 1, 1, kLlavaOnevisionProcessor, image / size, read_canvases(config, image, onevision_canvases())};
  dims.act = read_activation(vision, "hidden_act", dims.act);
  dims.along.resize(static_cast<size_t>(dims.patches.side));
  std::iota(dims.along.begin(), dims.along.end(), 0);
  const PackDims pack = {read_llava_projector(config, dims.layers.hidden, Bias::Present, model), 0,
                         read_most_tiles(config)};
  return std::make_unique<LlavaOnevisionTower>(std::move(dims), pack, model);
}

}  // namespace kvcal
