// A token that is decoded has products of one row: they read weights once only if their bytes are those of a panel.
#include <gtest/gtest.h>

#include "ops/cpu/panel_product.h"

namespace kvcal::cpu {
namespace {

TEST(RowProduct, HasTheBytesOfAPanelForWidthsOfModels) {
  const auto products = make_eigen_products();
  for (const DType activation : {DType::F32, DType::BF16})
    for (const int64_t n : {64, 128, 192, 256})
      for (const int64_t k : {64, 289, 1024, 3072})
        for (const int64_t x_stride : {k, k + 512})
          EXPECT_TRUE(products->get({n, k, x_stride, activation})->agrees_with_few(1)) << n << " x " << k;
}

}  // namespace
}  // namespace kvcal::cpu
