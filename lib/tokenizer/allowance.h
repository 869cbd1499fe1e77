// What the steps of one tokenizer.json may make of one text. Files come from people nobody vouches for: forty times
// "a" -> "aa" is a short file. So steps pay for the text they make, before they make it, and for the bytes they look
// at.
#pragma once

#include <chrono>
#include <cstddef>

namespace kvcal {

class Allowance {
 public:
  /// For an input of that many bytes.
  explicit Allowance(size_t input_bytes);

  /// All the text there is after `step`, at one time: more than 4 MiB and 8 times the input is an Error.
  void check_size(const char* step, size_t bytes) const;
  /// The same for a part of the input, which then counts beside the parts that follow.
  void keep(const char* step, size_t bytes);
  /// Bytes looked at; 64 MiB and 128 times the input in all.
  void look_at(size_t bytes);

  /// The time that regular expressions take: 10 seconds in all, and one more for each MiB of the input. Steps cannot be
  /// counted instead, as Oniguruma does not say how many a search took.
  class Clock {
   public:
    explicit Clock(Allowance& allowance) : allowance_(allowance) {}
    /// Throws Error where the time since the last call was too long.
    void spend() {
      const auto now = std::chrono::steady_clock::now();
      allowance_.spend(now - since_);
      since_ = now;
    }

   private:
    Allowance& allowance_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  };

 private:
  void spend(std::chrono::steady_clock::duration time);

  size_t largest_, kept_ = 0, bytes_left_;
  std::chrono::steady_clock::duration time_left_;
};

}  // namespace kvcal
