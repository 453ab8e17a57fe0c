// The mask predictor on the CPU by rows: one for each place that counts.
#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "snake_ddp/kernels/layer_norm.hpp"
#include "snake_ddp/nets/mask_predictor.hpp"
#include "snake_ddp/nets/row_functions.hpp"
#include "weight_reader.hpp"

namespace snake_ddp::nets {
namespace {

using Spans = std::vector<kernels::AttentionSpan>;

// Places by sample: the first one of each sample, and the end.
using Starts = std::vector<std::int64_t>;

at::Tensor linear_of(WeightReader& read, const at::Tensor& x) {
  const at::Tensor& weight = read.next();
  return linear_rows(x, weight, read.next());
}

at::Tensor norm_of_rows(WeightReader& read, const at::Tensor& x) {
  const at::Tensor& weight = read.next();
  return at::layer_norm(x, {x.size(1)}, weight, read.next(), kernels::kNormEpsilon);
}

at::Tensor pass_rows_between(WeightReader& read, const at::Tensor& x) {
  const at::Tensor wide = at::gelu(linear_of(read, norm_of_rows(read, x)));
  return x + linear_of(read, wide);
}

// Each sample's queries attend to its keys.
Spans spans_of(const Starts& queries, const Starts& keys, std::int64_t heads) {
  Spans spans;
  std::int64_t odds = 0;
  for (std::size_t n = 0; n + 1 < queries.size(); ++n) {
    const kernels::AttentionSpan span{queries[n], queries[n + 1] - queries[n], keys[n], keys[n + 1] - keys[n],
                                      odds};
    odds += heads * span.queries * span.keys;
    spans.push_back(span);
  }
  return spans;
}

Starts starts_of(const at::Tensor& positions, std::int64_t samples, std::int64_t places) {
  const auto* first = positions.data_ptr<std::int64_t>();
  const auto* last = first + positions.numel();
  Starts starts;
  for (std::int64_t n = 0; n <= samples; ++n)
    starts.push_back(std::lower_bound(first, last, n * places) - first);
  return starts;
}

// x + attention of the queries among the normed x to its rows. `asked`: the rows that are queries; undefined: all.
at::Tensor look_among(WeightReader& read, const MaskPredictorShape& s, const at::Tensor& x,
                      const Spans& spans, const at::Tensor& asked) {
  const auto those = [&](const at::Tensor& t) { return asked.defined() ? t.index_select(0, asked) : t; };
  const at::Tensor normed = norm_of_rows(read, x);
  const at::Tensor query = linear_of(read, those(normed)), key_value = linear_of(read, normed);
  return those(x) + linear_of(read, attend_rows(query, key_value, s.heads, spans));
}

// x + attention of the normed x to the memory. `copies`: x's rows are those of another matrix, repeated so.
at::Tensor look_at_memory(WeightReader& read, const MaskPredictorShape& s, const at::Tensor& x,
                          const at::Tensor& memory, const Spans& spans, const at::Tensor& copies) {
  const auto all = [&](const at::Tensor& t) { return copies.defined() ? t.index_select(0, copies) : t; };
  const at::Tensor query = all(linear_of(read, norm_of_rows(read, x))), key_value = linear_of(read, memory);
  return all(x) + linear_of(read, attend_rows(query, key_value, s.heads, spans));
}

}  // namespace

at::Tensor places_to_ask(const at::Tensor& places) {
  const at::Tensor found = places.flatten().gt(0).nonzero().flatten().to(at::kCPU);
  return found.numel() > 0 ? found : at::zeros({1}, at::kLong);
}

at::Tensor predict_asked(const MaskPredictorShape& s, const Weights& weights, const at::Tensor& tokens,
                         const at::Tensor& unseen, const at::Tensor& asked) {
  const std::int64_t samples = tokens.size(0);
  if (!tokens.device().is_cpu()) {
    return predict_tokens(s, weights, tokens, unseen)
        .flatten(0, 1)
        .index_select(0, asked.to(tokens.device(), true));
  }
  WeightReader read(weights);
  const at::Tensor seen = unseen.flatten().le(0).nonzero().flatten();
  const Starts seen_starts = starts_of(seen, samples, s.places),
               asked_starts = starts_of(asked, samples, s.places);
  Starts all_starts;
  for (std::int64_t n = 0; n <= samples; ++n) all_starts.push_back(n * s.places);

  const at::Tensor first = at::arange(s.tokens, at::kLong) * s.codes;
  const at::Tensor places_tokens = (tokens.flatten(0, 1).index_select(0, seen) + first).flatten();
  const at::Tensor& vectors = read.next();
  const at::Tensor token_sum =
      vectors.index_select(0, places_tokens).view({seen.numel(), s.tokens, s.hidden}).sum(1);
  at::Tensor memory = token_sum + read.next().index_select(0, seen.remainder(s.places));
  at::Tensor answer = read.next();  // until the decoder looks at the memory it is the same for all samples
  const Spans among_seen = spans_of(seen_starts, seen_starts, s.heads);
  for (std::int64_t l = 0; l < s.encoder_layers; ++l) {
    memory = look_among(read, s, memory, among_seen, {});
    memory = pass_rows_between(read, memory);
  }
  memory = norm_of_rows(read, memory);
  for (std::int64_t l = 0; l < s.decoder_layers; ++l) {
    const bool last = l + 1 == s.decoder_layers;
    const Starts& rows = last ? asked_starts : all_starts;
    at::Tensor copies;
    if (l == 0) {
      answer = look_among(read, s, answer, spans_of({0, s.places}, {0, s.places}, s.heads), {});
      copies = (last ? asked : at::arange(samples * s.places, at::kLong)).remainder(s.places);
    } else {
      answer = look_among(read, s, answer, spans_of(rows, all_starts, s.heads), last ? asked : at::Tensor());
    }
    answer = look_at_memory(read, s, answer, memory, spans_of(rows, seen_starts, s.heads), copies);
    answer = pass_rows_between(read, answer);
  }
  const at::Tensor logits = linear_of(read, norm_of_rows(read, answer));
  read.check_end();
  return logits.view({asked.numel(), s.tokens, s.codes});
}

}  // namespace snake_ddp::nets
