#include "benches.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "jobs.hpp"
#include "learners/buffer.hpp"
#include "learners/learner.hpp"
#include "learners/registry.hpp"
#include "nets/precision.hpp"
#include "products.hpp"
#include "train/plan.hpp"

namespace snake_ddp::bench {

std::vector<Row> measure_update(double seconds, std::vector<std::int64_t> batch_sizes,
                                const std::string& config_file, const std::string& algo,
                                const std::string& products) {
  const c10::NoGradGuard no_grad;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  nlohmann::json run = run_settings(config_file);
  if (!algo.empty()) run["algo"] = algo;
  if (!products.empty()) run["products"] = products;
  const train::TrainOptions settings = options_from(run);
  const train::Plan plan(settings);
  train::check_products(plan, at::kCPU);
  nets::set_product_precision(plan.precision);
  const learners::LearnerOptions options = train::learner_options(plan, at::kCPU);
  if (batch_sizes.empty()) batch_sizes = {settings.batch_size};
  std::vector<Row> rows;
  for (const std::int64_t batch_size : batch_sizes) {
    const auto learner = learners::make_learner(options);
    const learners::Batch batch = learners::random_batch(learner->columns(), batch_size);
    const double update = median_us(seconds, [&] { learner->update(batch, [](at::Tensor&) {}); });
    const ProductsTime alone = time_of(seconds, products_of(options, *learner, batch_size));
    rows.push_back({fmt::format("{}_update_batch_{}", options.algo, batch_size), update, "us", alone.fastest,
                    update / alone.fastest});
    rows.push_back({fmt::format("matrix_products_batch_{}", batch_size), alone.fastest, "us", alone.library,
                    alone.fastest / alone.library});
  }
  at::set_num_threads(threads);
  nets::set_product_precision(nets::Precision::kFloat32);
  return rows;
}

}  // namespace snake_ddp::bench
