#include "snake_ddp/encode/scaling.hpp"

#include <algorithm>
#include <iterator>

#include "snake_ddp/base/check.hpp"

namespace snake_ddp::encode {
namespace {

struct Range {
  float shift, scale;
};
constexpr Range kRow{4.5F, 1.0F / 5.0F};
constexpr Range kColumn{9.5F, 1.0F / 10.0F};
constexpr Range kCode{2.0F, 1.0F / 2.0F};
constexpr Range kDx{0.0F, 1.0F / 5.0F};
constexpr Range kDy{0.0F, 1.0F / 3.0F};
constexpr Range kDistance{4.0F, 1.0F / 4.0F};
constexpr Range kThreat{0.2F, 2.0F};

void put(Scaling& s, int feature, Range r) {
  s.shift[feature] = r.shift;
  s.scale[feature] = r.scale;
}

void put_cells(Scaling& s, int first, int cells) {
  for (int i = 0; i < cells; ++i) {
    put(s, first + 2 * i, kRow);
    put(s, first + 2 * i + 1, kColumn);
  }
}

}  // namespace

Scaling no_scaling() {
  Scaling s{};
  std::fill(std::begin(s.scale), std::end(s.scale), 1.0F);
  return s;
}

Scaling feature_scaling(ObsKind kind) {
  SD_CHECK(!is_view(kind), "the view is already scaled");
  Scaling s = no_scaling();
  put_cells(s, 0, 1);
  for (int i = 2; i < 6; ++i) put(s, i, kCode);
  if (kind == ObsKind::k26) {
    put_cells(s, 6, 10);  // five beans, five heads
    return s;
  }
  for (const int first : {6, 9}) {
    put(s, first, kDx);
    put(s, first + 1, kDy);
    put(s, first + 2, kDistance);
  }
  put(s, 12, kThreat);
  put(s, 13, kThreat);
  put_cells(s, 14, 5);
  put_cells(s, 26, 2);
  return s;
}

}  // namespace snake_ddp::encode
