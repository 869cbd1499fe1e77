#include "model/towers/intern_vit.h"

#include <string>
#include <utility>

#include "model/config_reading.h"
#include "model/towers/patch_rows.h"

namespace kvcal {
namespace {

/// Each column by its factor.
Tensor scaled(Ops& op, const Tensor& x, const Tensor& factors) {
  return op.mul(x, op.embed(factors, std::vector<int32_t>(static_cast<size_t>(x.dim(0)), 0)));
}

}  // namespace

Norm::Kind read_intern_norm(const Json& vision, const char* fallback) {
  const std::string type = get_string_or(vision, "norm_type", fallback);
  if (type != "layer_norm" && type != "rms_norm")
    fail("norm_type is " + quoted(type) + ", expected layer_norm or rms_norm");
  return type == "layer_norm" ? Norm::Kind::Layer : Norm::Kind::Rms;
}

void check_downsampling(const Json& config) {
  if (const double ratio = get_number_or(config, "downsample_ratio", 0.5); ratio != 0.5)
    fail("downsample_ratio is " + std::to_string(ratio) + ", expected 0.5");
}

Norm load_rms_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, const InternVitDims& d, float eps) {
  return {Norm::Kind::Rms, eps, loader.load_gain(w(name + ".weight", {d.hidden}), Gain::Plain), {}};
}

Norm load_block_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, const InternVitDims& d) {
  return d.norm == Norm::Kind::Layer ? load_layer_norm(loader, w, name, d.hidden, d.eps)
                                     : load_rms_norm(loader, w, name, d, d.eps);
}

void check_intern_vit(const InternVitDims& d) {
  const PatchShape& p = d.patches;
  expect_size("hidden_size", d.hidden % d.n_heads == 0, d.hidden, "a multiple of " + std::to_string(d.n_heads));
  expect_size("patch_size", p.size <= 256, p.size, "at most 256");
  expect_size("image_size", p.side % p.merge == 0 && p.side <= 1024, p.side * p.size,
              "at most 1,024 whole patches, in squares of " + std::to_string(p.merge * p.size));
}

TowerSpec intern_vit_spec(const InternVitDims& dims, const ModelSpec& model) {
  TowerSpec spec;
  spec.token = model.placeholders.front();
  spec.patches = dims.patches;
  spec.hidden = dims.hidden + (dims.hidden - 1) / dims.tile() + 1;  // with the classes' share
  spec.activations = 18 * spec.hidden + 3 * dims.ffn + 2 * dims.patches.values();
  spec.n_blocks = static_cast<int>(dims.n_layers);
  return spec;
}

TileInput::TileInput(const InternVitDims& dims, Linear projection, const Tensor& of_class, const Tensor& positions)
    : dims_(dims), projection_(std::move(projection)), of_class_(of_class), positions_(positions), order_{0} {
  const PatchShape& p = dims.patches;
  for (int64_t i = 0; i < dims.tile(); ++i) {
    const PatchPlace place = place_of(i, {p.side, p.side}, p.merge);
    order_.push_back(static_cast<int32_t>(1 + place.row * p.side + place.column));
  }
}

Tensor TileInput::forward(Ops& op, const Tensor& x, const PatchGrid&) {
  const int64_t n_tiles = x.dim(0) / dims_.tile();
  const Tensor patches = op.linear(x, projection_).reshaped({n_tiles, dims_.tile() * dims_.hidden});
  const Tensor classes = op.embed(of_class_, std::vector<int32_t>(static_cast<size_t>(n_tiles), 0));
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < n_tiles; ++i) ids.insert(ids.end(), order_.begin(), order_.end());
  const Tensor rows = op.join(classes, patches).reshaped({n_tiles * dims_.tile_rows(), dims_.hidden});
  return op.add(rows, op.embed(positions_, ids));
}

InternVitBlock::InternVitBlock(const InternVitDims& dims, InternVitLayer weights)
    : dims_(dims), w_(std::move(weights)) {}

Tensor InternVitBlock::forward(Ops& op, const Tensor& x, const PatchGrid&) {
  const Tensor y = op.add(x, scaled(op, attend_in_tiles(op, w_.norm1.forward(op, x)), w_.scale1));
  return op.add(y, scaled(op, op.glu_mlp(w_.norm2.forward(op, y), w_.mlp), w_.scale2));
}

Tensor InternVitBlock::attend_in_tiles(Ops& op, const Tensor& x) const {
  const int64_t n = x.dim(0), rows = dims_.tile_rows(), head_dim = dims_.hidden / dims_.n_heads;
  const HeadsPart part = {dims_.hidden, {}, false}, parts[] = {part, part, part};
  auto qkv = op.project_heads(x, w_.qkv, {parts, dims_.eps, {}, RopeSpec{}});
  if (w_.q_norm.gain) {
    qkv[0] = w_.q_norm.forward(op, qkv[0]);
    qkv[1] = w_.k_norm.forward(op, qkv[1]);
  }
  for (Tensor& t : qkv) t = t.reshaped({n, dims_.n_heads, head_dim});
  std::vector<Span> spans;
  for (int64_t row = 0; row < n; row += rows) spans.push_back({row, rows, 0});
  return op.linear(attend_within(op, qkv, spans), w_.out);
}

TileOutput::TileOutput(const InternVitDims& dims, Norm norm, GluWeights mlp)
    : dims_(dims), norm_(std::move(norm)), mlp_(std::move(mlp)) {}

Tensor TileOutput::forward(Ops& op, const Tensor& x, const PatchGrid&) {
  const int64_t n_tiles = x.dim(0) / dims_.tile_rows(), patches = dims_.tile() * dims_.hidden;
  const Tensor tiles = x.reshaped({n_tiles, dims_.hidden + patches});
  const Tensor squares = op.columns(tiles, dims_.hidden, patches);
  return op.glu_mlp(norm_.forward(op, squares.reshaped({n_tiles * patches / dims_.merged(), dims_.merged()})), mlp_);
}

}  // namespace kvcal
