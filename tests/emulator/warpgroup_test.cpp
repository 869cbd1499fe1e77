// Products of a warpgroup in the emulator: their numbers, and that it finds what they are used wrongly for.
#include "emulator/warpgroup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/device/mma.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/device/warpgroup.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kRows = 64, kColumns = 256, kThreads = 128;

enum class Fault { None, ReadsEarly, WritesEarly, NotShown, NotOpened, NotAligned, NotWaitedFor };

struct Tiles {
  bf16 x[kRows * kProductDepth], w[kColumns * kProductDepth], more[8];
};

void copy_rows(bf16* to, const bf16* from, int n_rows) {
  for (int i = static_cast<int>(threadIdx.x); i < n_rows * kProductDepth / 8; i += kThreads)
    copy_async(to + place_in_operand(i / 8, i % 8 * 8), from + i * 8, 16);
}

/// y [64, 256] = x [64, 64] w [256, 64]^T
void product_kernel(const bf16* x, const bf16* w, float* y, Fault fault) {
  auto address = reinterpret_cast<uintptr_t>(dynamic_shared<char>());
  address = (address + kProductAlignment - 1) / kProductAlignment * kProductAlignment;
  auto& tiles = *reinterpret_cast<Tiles*>(address + (fault == Fault::NotAligned ? 16 : 0));
  copy_rows(tiles.x, x, kRows);
  copy_rows(tiles.w, w, kColumns);
  commit_copies();
  wait_copies<0>();
  if (fault != Fault::NotShown) show_to_products();
  __syncthreads();
  float sums[kColumns / 2] = {};
  if (fault != Fault::NotOpened) open_products();
  for (int k = 0; k < kProductDepth; k += 16) begin_product(sums, tiles.x, tiles.w, k);
  commit_products();
  if (fault != Fault::ReadsEarly && fault != Fault::WritesEarly && fault != Fault::NotWaitedFor) wait_products<0>();
  if (fault == Fault::WritesEarly) {
    tiles.x[threadIdx.x] = bf16{0};
    wait_products<0>();
  }
  const int lane = static_cast<int>(threadIdx.x) % 32, row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
  for (int i = 0; i < kColumns / 2; ++i)
    y[(row + i / 2 % 2 * 8) * kColumns + i / 4 * 8 + lane % 4 * 2 + i % 2] = sums[i];
  if (fault == Fault::ReadsEarly) wait_products<0>();
}

class Product {
 public:
  Product() : x_(size_t{kRows} * kProductDepth), w_(size_t{kColumns} * kProductDepth) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (auto* m : {&x_, &w_})
      for (bf16& v : *m) v = to_bf16(normal(random));
  }

  /// The largest error of any value.
  double error(Fault fault) const {
    std::vector<float> y(size_t{kRows} * kColumns);
    launch(KVCAL_KERNEL(product_kernel), dim3(1), dim3(kThreads), sizeof(Tiles) + 2 * kProductAlignment, nullptr,
           x_.data(), w_.data(), y.data(), fault);
    double most = 0;
    for (size_t r = 0; r < kRows; ++r)
      for (size_t c = 0; c < kColumns; ++c) {
        double sum = 0;
        for (size_t k = 0; k < kProductDepth; ++k)
          sum += double{to_float(x_[r * kProductDepth + k])} * double{to_float(w_[c * kProductDepth + k])};
        most = std::max(most, std::abs(sum - double{y[r * kColumns + c]}));
      }
    return most;
  }
  /// What the emulator says to it.
  std::string message(Fault fault) const {
    try {
      error(fault);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "";
  }

 private:
  std::vector<bf16> x_, w_;
};

TEST(Warpgroup, MultipliesTiles) { EXPECT_LT(Product().error(Fault::None), 1e-4); }

TEST(Warpgroup, WorksAsLateAsItMay) {
  EXPECT_GT(Product().error(Fault::ReadsEarly), 1.0);
  EXPECT_GT(Product().error(Fault::WritesEarly), 0.1);
}

TEST(Warpgroup, WhatIsLeftOutIsAnError) {
  const Product product;
  EXPECT_NE(product.message(Fault::NotShown).find("not shown"), std::string::npos);
  EXPECT_NE(product.message(Fault::NotOpened).find("not opened"), std::string::npos);
  EXPECT_NE(product.message(Fault::NotAligned).find("multiple of 1024"), std::string::npos);
  EXPECT_NE(product.message(Fault::NotWaitedFor).find("nobody waited"), std::string::npos);
}

}  // namespace
}  // namespace kvcal::cuda
