// cuDNN's grouped product of routed rows with the weights of 256 experts: is it there for bf16 on this device, and how
// fast? Rows lie by expert already, as after our sort.
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include "bench/probes/probe.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the headers look functions up in it
}

namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

constexpr int64_t kExperts = 256;

void run(cudnnHandle_t handle, int64_t rows, int64_t n, int64_t k) {
  const std::string name =
      "cuDNN experts, " + std::to_string(rows) + " rows each, " + std::to_string(n) + " x " + std::to_string(k);
  const int64_t all = kExperts * rows;
  fe::graph::Graph graph;
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  const auto x = graph.tensor(Tensor_attributes().set_uid(1).set_dim({1, all, k}).set_stride({all * k, k, 1}));
  const auto w = graph.tensor(Tensor_attributes().set_uid(2).set_dim({kExperts, k, n}).set_stride({k * n, 1, k}));
  const auto first = graph.tensor(Tensor_attributes()
                                      .set_uid(3)
                                      .set_dim({kExperts, 1, 1})
                                      .set_stride({1, 1, 1})
                                      .set_data_type(fe::DataType_t::INT32));
  const auto y =
      graph.moe_grouped_matmul(x, w, first, nullptr, nullptr,
                               fe::graph::Moe_grouped_matmul_attributes().set_mode(fe::MoeGroupedMatmulMode_t::NONE));
  y->set_output(true).set_uid(4);
  auto error = graph.build(handle, {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  int64_t bytes = 0;
  if (error.is_good()) error = graph.get_workspace_size(bytes);
  if (error.is_bad()) return probe::print_not_run(name, error.get_message());

  uint16_t *from = probe::random_rows(all * k), *weights = probe::random_rows(kExperts * n * k),
           *to = probe::random_rows(all * n);
  std::vector<int32_t> offsets;
  for (int64_t e = 0; e < kExperts; ++e) offsets.push_back(static_cast<int32_t>(e * rows));
  void *table = nullptr, *workspace = nullptr;
  probe::check(cudaMalloc(&table, offsets.size() * sizeof(int32_t)));
  probe::check(cudaMemcpy(table, offsets.data(), offsets.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  probe::check(cudaMalloc(&workspace, static_cast<size_t>(bytes) + 1));
  std::unordered_map<int64_t, void*> memory = {{1, from}, {2, weights}, {3, table}, {4, to}};
  const auto ms = probe::milliseconds(
      [&] { probe::require(graph.execute(handle, memory, workspace).is_good(), "running the graph"); });
  probe::print(name, "TFLOP/s", probe::tera(2.0 * static_cast<double>(all) * static_cast<double>(n * k), ms));
  for (void* p : {static_cast<void*>(from), static_cast<void*>(weights), static_cast<void*>(to), table, workspace})
    probe::check(cudaFree(p));
}

}  // namespace

int main() {
  fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  cudnnHandle_t handle = nullptr;
  if (!fe::cudnn_dlhandle || fe::detail::create_handle(&handle) != CUDNN_STATUS_SUCCESS) {
    probe::print_not_run("cuDNN experts", "libcudnn.so.9 cannot be used");
    return 0;
  }
  try {
    run(handle, 4096, 1024, 2048);
    run(handle, 4096, 2048, 512);
    run(handle, 16384, 1024, 2048);
  } catch (const std::exception& e) {  // of the headers, where a function is missing
    probe::print_not_run("cuDNN experts", e.what());
  }
  return 0;
}
