// Our matrix products against ATen's.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "snake_ddp/kernels/bf16.hpp"
#include "snake_ddp/kernels/products.hpp"

namespace {

using namespace snake_ddp;

double scaled_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / (1.0 + b.abs().max().item<double>());
}

}  // namespace

TEST_CASE("products equal ATen's at every remainder of the register blocks", "[parity]") {
  at::manual_seed(5);
  for (const std::int64_t m : {1, 2, 5, 6, 7, 11, 12, 13, 31}) {
    for (const std::int64_t n : {1, 4, 15, 16, 31, 32, 33, 63, 64, 65, 130}) {
      for (const std::int64_t p : {1, 3, 31, 256, 257, 600}) {
        CAPTURE(m, n, p);
        const at::Tensor a = at::randn({m, p}), b = at::randn({p, n});
        const at::Tensor expected = at::mm(a, b);
        // Rows of `out` are longer than needed: the rest must not change.
        at::Tensor out = at::full({m, n + 3}, 7.0F);
        kernels::multiply(m, n, p, {a.data_ptr<float>(), p, 1}, {b.data_ptr<float>(), n, 1},
                          out.data_ptr<float>(), n + 3);
        REQUIRE(scaled_difference(out.narrow(1, 0, n), expected) < 1e-5);
        REQUIRE(at::equal(out.narrow(1, n, 3), at::full({m, 3}, 7.0F)));
        const at::Tensor transposed = a.t().contiguous();
        kernels::multiply(m, n, p, {transposed.data_ptr<float>(), 1, m}, {b.data_ptr<float>(), n, 1},
                          out.data_ptr<float>(), n + 3);
        REQUIRE(scaled_difference(out.narrow(1, 0, n), expected) < 1e-5);
        kernels::multiply(m, n, p, {a.data_ptr<float>(), p, 1}, {b.data_ptr<float>(), n, 1},
                          out.data_ptr<float>(), n + 3, /*add=*/true);
        REQUIRE(scaled_difference(out.narrow(1, 0, n), expected * 2) < 1e-5);
        at::Tensor plain = at::empty({m, n}), turned = at::empty({m, n});
        const at::Tensor b_turned = b.t().contiguous();
        kernels::multiply(m, n, p, {a.data_ptr<float>(), p, 1}, {b.data_ptr<float>(), n, 1},
                          plain.data_ptr<float>(), n);
        kernels::multiply(m, n, p, {a.data_ptr<float>(), p, 1}, {b_turned.data_ptr<float>(), 1, p},
                          turned.data_ptr<float>(), n);
        REQUIRE(at::equal(turned, plain));
      }
    }
  }
}

TEST_CASE("products that skip zeros have the same bits", "[parity]") {
  constexpr double kMixed = 2;  // some columns with many zeros, the others with few
  for (const double density : {0.0, 0.05, 0.3, 0.9, kMixed}) {
    for (const std::int64_t n : {1, 16, 40, 64, 200, 256, 300}) {
      for (const std::int64_t p : {1, 31, 256, 257, 600, 1100}) {
        for (const std::int64_t m : {7, 70}) {
          CAPTURE(density, n, p, m);
          const at::Tensor kept =
              at::rand({m, p + 2})
                  .lt(density == kMixed ? at::arange(p + 2).remainder(400).ge(256).to(at::kFloat) + 0.05
                                        : at::full({p + 2}, density));
          const at::Tensor a = at::randn({m, p + 2}).mul_(kept), b = at::randn({p, n});
          const float* left = a.data_ptr<float>();
          at::Tensor out = at::full({m, n + 3}, 7.0F), expected = out.clone();
          kernels::multiply(m, n, p, {left, p + 2, 1}, {b.data_ptr<float>(), n, 1},
                            expected.data_ptr<float>(), n + 3);
          kernels::multiply_sparse(m, n, p, left, p + 2, b.data_ptr<float>(), out.data_ptr<float>(), n + 3);
          REQUIRE(at::equal(out, expected));

          const at::Tensor upright = a.t().contiguous();  // [p + 2, m]
          at::Tensor product = at::full({m, n}, 7.0F), plain = product.clone();
          kernels::multiply(m, n, p, {upright.data_ptr<float>(), 1, m}, {b.data_ptr<float>(), n, 1},
                            plain.data_ptr<float>(), n);
          kernels::multiply_sparse_transposed(m, n, p, upright.data_ptr<float>(), m, b.data_ptr<float>(),
                                              product.data_ptr<float>());
          REQUIRE(at::equal(product, plain));
          kernels::multiply(m, n, p, {upright.data_ptr<float>(), 1, m}, {b.data_ptr<float>(), n, 1},
                            plain.data_ptr<float>(), n, /*add=*/true);
          kernels::multiply_sparse_transposed(m, n, p, upright.data_ptr<float>(), m, b.data_ptr<float>(),
                                              product.data_ptr<float>(), /*add=*/true);
          REQUIRE(at::equal(product, plain));
        }
      }
    }
  }
}

TEST_CASE("elements go to the rows of their places, with their signs", "[parity]") {
  at::manual_seed(4);
  for (const std::int64_t rows : {1, 3, 400}) {
    for (const std::int64_t n : {1, 16, 40, 128, 192}) {
      for (const std::int64_t p : {1, 31, 309, 1100}) {
        for (const std::int64_t m : {7, 70}) {
          CAPTURE(rows, n, p, m);
          const at::Tensor a = at::randn({m, p + 2}).mul_(at::rand({m, p + 2}).lt(0.3)),
                           b = at::randn({rows, n});
          const at::Tensor place = at::randint(-1, rows, {p}, at::kInt),
                           sign = at::randint(0, 2, {p}, at::kFloat).mul_(2).sub_(1);
          const at::Tensor placed = b.index_select(0, place.clamp_min(0)) * (sign * place.ge(0)).unsqueeze(1);
          at::Tensor out = at::full({m, n + 3}, 7.0F);
          kernels::multiply_sparse_placed(m, n, p, a.data_ptr<float>(), p + 2,
                                          {place.data_ptr<std::int32_t>(), sign.data_ptr<float>(), rows},
                                          b.data_ptr<float>(), out.data_ptr<float>(), n + 3);
          const at::Tensor expected = at::mm(a.narrow(1, 0, p), placed);
          REQUIRE((out.narrow(1, 0, n) - expected).abs().max().item<double>() < 1e-4);
          REQUIRE(out.narrow(1, n, 3).eq(7.0F).all().item<bool>());
        }
      }
    }
  }
}

TEST_CASE("products in bfloat16 are those of rounded factors, by vectors, by tiles and without either",
          "[parity]") {
  at::manual_seed(6);
  for (const auto& [by, name] : {std::pair{core::Bf16By::kFloats, "floats"},
                                 {core::Bf16By::kVectors, "vectors"},
                                 {core::Bf16By::kTiles, "tiles"}}) {
    if (!core::has_bf16(by)) {
      WARN("this processor has no " << name << ": not tested");
      continue;
    }
    for (const std::int64_t m : {1, 5, 6, 15, 16, 17, 31, 32, 33, 70}) {
      for (const std::int64_t n : {1, 16, 17, 32, 47, 64, 130, 256}) {
        for (const std::int64_t p : {1, 2, 31, 32, 33, 309, 512, 513, 1100}) {
          CAPTURE(name, m, n, p);
          // Rows are longer than needed: what lies behind them must neither be read nor written.
          const at::Tensor a = at::randn({m, p + 3}), b = at::randn({p, n + 1});
          a.narrow(1, p, 3).fill_(NAN);
          b.narrow(1, n, 1).fill_(NAN);
          const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
          const at::Tensor expected = at::mm(rounded(a.narrow(1, 0, p)), rounded(b.narrow(1, 0, n)));
          kernels::Bf16Matrix right;
          right.set(n, p, {b.data_ptr<float>(), n + 1, 1}, by);
          at::Tensor out = at::full({m, n + 3}, 7.0F);
          const auto multiply = [&](const at::Tensor& left, kernels::MatrixView view, bool add) {
            view.data = left.data_ptr<float>();
            kernels::multiply_bf16(m, view, right, out.data_ptr<float>(), n + 3, add);
            return out.narrow(1, 0, n).clone();
          };
          const at::Tensor upright = multiply(a, {nullptr, p + 3, 1}, false);
          REQUIRE(scaled_difference(upright, expected) < 1e-5);
          REQUIRE(scaled_difference(multiply(a, {nullptr, p + 3, 1}, true), expected * 2) < 1e-5);
          const at::Tensor turned = a.t().contiguous();  // [p + 3, m]
          REQUIRE(at::equal(multiply(turned, {nullptr, 1, m}, false), upright));
          REQUIRE(at::equal(out.narrow(1, n, 3), at::full({m, 3}, 7.0F)));
          // A row has the same bits in any batch.
          at::Tensor row = at::empty({1, n});
          kernels::multiply_bf16(1, {a.data_ptr<float>() + (m - 1) * (p + 3), p + 3, 1}, right,
                                 row.data_ptr<float>(), n);
          REQUIRE(at::equal(row[0], upright[m - 1]));
        }
      }
    }
    // Ties go to the even neighbour; NaN and infinity stay.
    const float one[] = {1.0F, 1.0F + 0x1p-8F, 1.0F + 0x3p-8F, -(1.0F + 0x1p-8F), INFINITY, NAN};
    const float wanted[] = {1.0F, 1.0F, 1.0F + 0x1p-6F, -1.0F, INFINITY, NAN};
    for (int k = 0; k < 6; ++k) {
      const float unit = 1.0F;
      float product = 0;
      kernels::Bf16Matrix right;
      right.set(1, 1, {&unit, 1, 1}, by);
      kernels::multiply_bf16(1, {one + k, 1, 1}, right, &product, 1);
      CHECK((product == wanted[k] || (std::isnan(product) && std::isnan(wanted[k]))));
    }
  }
}

TEST_CASE("sparse products in bfloat16 are those of rounded factors, a row's in any batch", "[parity]") {
  at::manual_seed(8);
  if (!core::has_bf16(core::Bf16By::kVectors))
    WARN("this processor has no vectors of bfloat16: only the emulation is tested");
  const auto rounded = [](const at::Tensor& t) { return t.to(at::kBFloat16).to(at::kFloat); };
  for (const std::int64_t m : {1, 2, 3, 4, 70, 300}) {
    for (const std::int64_t n : {1, 20, 64, 96, 128, 256}) {
      for (const std::int64_t p : {1, 17, 309, 1100}) {
        for (const double share : {0.0, 0.2, 1.0}) {
          CAPTURE(m, n, p, share);
          const at::Tensor a = at::randn({m, p + 2}).mul_(at::rand({m, p + 2}).lt(share)),
                           b = at::randn({p, n}), x = a.narrow(1, 0, p);
          a.narrow(1, p, 2).fill_(NAN);
          const auto run = [&](const kernels::Placing* placing, const at::Tensor& weights, std::int64_t first,
                               std::int64_t rows) {
            kernels::Bf16Rows right;
            right.set(n, weights.size(0), weights.data_ptr<float>());
            at::Tensor out = at::full({rows, n + 3}, 7.0F);
            kernels::multiply_sparse_bf16(rows, p, a.data_ptr<float>() + first * (p + 2), p + 2, placing,
                                          right, out.data_ptr<float>(), n + 3);
            REQUIRE(out.narrow(1, n, 3).eq(7.0F).all().item<bool>());
            return out.narrow(1, 0, n).clone();
          };
          const at::Tensor whole = run(nullptr, b, 0, m);
          REQUIRE(scaled_difference(whole, at::mm(rounded(x), rounded(b))) < 1e-5);
          REQUIRE(at::equal(run(nullptr, b, m - 1, 1)[0], whole[m - 1]));

          const std::int64_t rows = p / 2 + 1;
          const at::Tensor place = at::randint(-1, rows, {p}, at::kInt), weights = at::randn({rows, n}),
                           sign = at::randint(0, 2, {p}, at::kFloat).mul_(2).sub_(1);
          const kernels::Placing placing{place.data_ptr<std::int32_t>(), sign.data_ptr<float>(), rows};
          const at::Tensor placed =
              rounded(weights).index_select(0, place.clamp_min(0)) * (sign * place.ge(0)).unsqueeze(1);
          REQUIRE(scaled_difference(run(&placing, weights, 0, m), at::mm(rounded(x), placed)) < 1e-5);

          const at::Tensor d = at::randn({m, n}), wanted = at::mm(rounded(x).t(), rounded(d));
          at::Tensor gradient = at::full({p, n}, 7.0F);
          for (const bool add : {false, true}) {
            kernels::multiply_sparse_transposed_bf16(p, n, m, a.data_ptr<float>(), p + 2, d.data_ptr<float>(),
                                                     gradient.data_ptr<float>(), add);
            REQUIRE(scaled_difference(gradient, wanted * (add ? 2 : 1)) < 1e-5);
          }
        }
      }
    }
  }
}
