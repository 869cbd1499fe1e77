#include "emulator/warpgroup.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "emulator/emulator.h"
#include "emulator/race.h"

namespace emulator {
namespace {

constexpr unsigned kDepth = 64, kStep = 16, kPart = 8;  // elements of a tile's row, of a product, of a part
constexpr size_t kAlignment = 1024;

struct Steps {
  float x[kStep];
};

/// Elements [k, k + 16) of a row of an operand.
Steps read_row(const void* tile, unsigned row, unsigned k, const void* site) {
  Steps values;
  for (unsigned part = 0; part < kStep / kPart; ++part) {
    const unsigned place = (k / kPart + part) ^ row % 8;
    const char* const at = static_cast<const char*>(tile) + (row * kDepth + place * kPart) * sizeof(uint16_t);
    race::access(at, kPart * sizeof(uint16_t), race::Access::Read, site);
    uint16_t bits[kPart];
    std::memcpy(bits, at, sizeof(bits));
    for (unsigned i = 0; i < kPart; ++i) {
      const uint32_t wide = uint32_t{bits[i]} << 16;
      std::memcpy(&values.x[part * kPart + i], &wide, sizeof(wide));
    }
  }
  return values;
}

void finish(const Product& p) {
  const unsigned thread = thread_index().x, lane = thread % 32, row = thread / 32 % 4 * 16 + lane / 4;
  const Steps rows[2] = {read_row(p.x, row, p.k, p.site), read_row(p.x, row + 8, p.k, p.site)};
  for (unsigned column = 0; column < p.columns; ++column) {
    if (column % 8 / 2 != lane % 4) continue;
    const Steps w = read_row(p.w, column, p.k, p.site);
    for (unsigned half = 0; half < 2; ++half) {
      float sum = 0;
      for (unsigned i = 0; i < kStep; ++i) sum += rows[half].x[i] * w.x[i];
      p.sums[column / 8 * 4 + half * 2 + column % 2] += sum;
    }
  }
}

}  // namespace

void show_to_products() { own_products().shown = true; }
void open_products() { own_products().open = true; }

void begin_product(float* sums, unsigned columns, const void* x, const void* w, unsigned k) {
  ThreadProducts& own = own_products();
  if (!own.shown) throw std::logic_error("a product of copies that were not shown to it");
  if (!own.open) throw std::logic_error("a product in a group that was not opened");
  for (const void* tile : {x, w})
    if (reinterpret_cast<uintptr_t>(tile) % kAlignment != 0)
      throw std::logic_error("a product of a tile at an address that is not a multiple of 1024");
  own.begun.push_back({sums, columns, x, w, k, __builtin_return_address(0)});
}

void commit_products() {
  ThreadProducts& own = own_products();
  own.groups.push_back(std::exchange(own.begun, {}));
  own.open = false;
}

void wait_products(size_t pending) {
  if (race::leaves_out(__builtin_return_address(0))) return;
  auto& groups = own_products().groups;
  for (; groups.size() > pending; groups.pop_front())
    for (const Product& p : groups.front()) finish(p);
}

}  // namespace emulator
