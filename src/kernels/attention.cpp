#include "snake_ddp/kernels/attention.hpp"

#include <algorithm>
#include <cmath>

// The build lets the compiler reorder sums in this file, so that plain loops become vector instructions.
namespace snake_ddp::kernels {
namespace {

float dot(std::int64_t n, const float* a, const float* b) {
  float sum = 0.0F;
  for (std::int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
  return sum;
}

void add_times(std::int64_t n, float factor, const float* __restrict from, float* __restrict to) {
  for (std::int64_t j = 0; j < n; ++j) to[j] += factor * from[j];
}

}  // namespace

void attend(const AttentionSpan& s, std::int64_t heads, std::int64_t width, const float* query,
            const float* key_value, float* odds, float* mixed) {
  const std::int64_t each = width / heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(each));
  float* p = odds + s.odds;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < s.queries; ++i, p += s.keys) {
      const float* q = query + (s.query + i) * width + h * each;
      const float* key = key_value + s.key * 2 * width + h * each;
      float most = -HUGE_VALF, sum = 0.0F;
      for (std::int64_t k = 0; k < s.keys; ++k) {
        p[k] = dot(each, q, key + k * 2 * width) * scale;
        most = std::max(most, p[k]);
      }
      for (std::int64_t k = 0; k < s.keys; ++k) sum += p[k] = std::exp(p[k] - most);
      float* out = mixed + (s.query + i) * width + h * each;
      std::fill_n(out, each, 0.0F);
      for (std::int64_t k = 0; k < s.keys; ++k) {
        p[k] /= sum;
        add_times(each, p[k], key + width + k * 2 * width, out);
      }
    }
  }
}

void attend_backward(const AttentionSpan& s, std::int64_t heads, std::int64_t width, const float* query,
                     const float* key_value, const float* odds, const float* d_mixed, float* d_query,
                     float* d_key_value) {
  const std::int64_t each = width / heads;
  const float scale = 1.0F / std::sqrt(static_cast<float>(each));
  std::fill_n(d_key_value + s.key * 2 * width, s.keys * 2 * width, 0.0F);
  const float* p = odds + s.odds;
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < s.queries; ++i, p += s.keys) {
      const std::int64_t at = (s.query + i) * width + h * each, first = s.key * 2 * width + h * each;
      const float *q = query + at, *key = key_value + first, *d = d_mixed + at;
      float *d_q = d_query + at, *d_key = d_key_value + first;
      std::fill_n(d_q, each, 0.0F);
      float along = 0.0F;
      for (std::int64_t k = 0; k < s.keys; ++k) along += p[k] * dot(each, d, key + width + k * 2 * width);
      for (std::int64_t k = 0; k < s.keys; ++k) {
        const std::int64_t row = k * 2 * width;
        const float slope = scale * p[k] * (dot(each, d, key + width + row) - along);
        add_times(each, slope, key + row, d_q);
        add_times(each, slope, q, d_key + row);
        add_times(each, p[k], d, d_key + width + row);
      }
    }
  }
}

}  // namespace snake_ddp::kernels
