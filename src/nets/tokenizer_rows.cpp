#include "snake_ddp/nets/tokenizer_rows.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "snake_ddp/base/simd.hpp"
#include "snake_ddp/kernels/products.hpp"
#include "snake_ddp/nets/dense_rows.hpp"
#include "tokenizer_blocks.hpp"

namespace snake_ddp::nets {
namespace {

using namespace tokenizer;
using base::IntVector;
using base::kLanes;
using base::load;
using base::Vector;

// Graphs of a chunk: the rows of all layers stay in the second-level cache, and gradients of weights, sums over rows, are
// not read and written for a few rows only.
constexpr std::int64_t kChunkGraphs = 24;
constexpr std::int64_t kMostNodes = 64;

constexpr int kColumns = static_cast<int>(kTorusColumns), kRows = static_cast<int>(kTorusRows);

int cell_along(float place, double per_unit, int side) {
  const int cell = static_cast<int>(std::lrint(place * static_cast<float>(per_unit))) % side;
  return cell < 0 ? cell + side : cell;
}

// to [columns, rows] = from^T * factor
void transpose_times(const float* from, std::int64_t rows, std::int64_t columns, float factor, float* to,
                     std::int64_t to_row) {
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r) to[c * to_row + r] = from[r * columns + c] * factor;
  }
}

void add_rows(std::int64_t rows, std::int64_t width, const float* from, std::int64_t from_row,
              float* __restrict sum) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < width; ++j) sum[j] += from[r * from_row + j];
  }
}

void fill_rows(std::int64_t rows, std::int64_t width, const float* row, float* to) {
  for (std::int64_t r = 0; r < rows; ++r) std::copy_n(row, width, to + r * width);
}

void relu(std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] < 0.0F ? 0.0F : values[i];
}

// The first place of the least value.
std::int64_t place_of_least(const float* values, std::int64_t count) {
  Vector best = base::all_lanes(HUGE_VALF);
  IntVector where{}, here;
  for (int i = 0; i < kLanes; ++i) here[i] = i;
  std::int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes, here += kLanes) {
    const Vector v = load(values + k);
    where = v < best ? here : where;
    best = v < best ? v : best;
  }
  std::int64_t place = 0;
  float least = HUGE_VALF;
  const auto look = [&](float value, std::int64_t at) {
    if (value < least || (value == least && at < place)) least = value, place = at;
  };
  for (int i = 0; i < kLanes; ++i) look(best[i], where[i]);
  for (; k < count; ++k) look(values[k], k);
  return place;
}

// The weights as products read them: right factors, whose columns are adjacent.
struct Maps {
  struct Layer {
    AlignedFloats own_and_near, all;  // [2 hidden, hidden], [hidden, hidden]
    AlignedFloats back;               // [hidden, 2 hidden], for the backward pass
    const float *bias, *all_weight;
  };

  Maps(const TokenizerShape& s, const Weights& w)
      : in(s.features * s.hidden),
        node_bias(s.nodes * s.hidden),
        latent(s.nodes * s.hidden * s.tokens * s.code_size),
        codes(s.tokens * s.codes * s.code_size),
        code_squares(s.tokens * s.codes),
        decode(s.tokens * s.code_size * kDecoderWidth),
        out(kDecoderWidth * s.nodes * s.features) {
    const auto block = [&](std::size_t i) { return w[i].data_ptr<float>(); };
    const std::int64_t h = s.hidden, width = s.tokens * s.code_size;
    transpose_times(block(kIn), h, s.features, 1.0F, in.data(), h);
    fill_rows(s.nodes, h, block(kInBias), node_bias.data());
    for (std::int64_t i = 0; i < s.nodes * h; ++i) node_bias.data()[i] += block(kPlaces)[i];
    for (std::size_t l = 0; l < kLayers; ++l) {
      const std::size_t begin = kLayer + l * kLayerBlocks;
      Layer layer{AlignedFloats(2 * h * h), AlignedFloats(h * h), AlignedFloats(2 * h * h),
                  block(begin + kLayerBias), block(begin + kAll)};
      const float *own = block(begin + kOwn), *near = block(begin + kNear);
      transpose_times(own, h, h, 1.0F, layer.own_and_near.data(), h);
      transpose_times(near, h, h, 1.0F, layer.own_and_near.data() + h * h, h);
      transpose_times(layer.all_weight, h, h, 1.0F, layer.all.data(), h);
      for (std::int64_t j = 0; j < h; ++j) {
        std::copy_n(own + j * h, h, layer.back.data() + j * 2 * h);
        std::copy_n(near + j * h, h, layer.back.data() + j * 2 * h + h);
      }
      layers.push_back(std::move(layer));
    }
    transpose_times(block(kLatent), width, s.nodes * h, 1.0F, latent.data(), width);
    latent_bias = block(kLatentBias);
    // |z - e|^2 less |z|^2, which is the same for all codes, is |e|^2 - 2 z e.
    books = block(kCodes);
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      const std::int64_t first = t * s.codes * s.code_size;
      transpose_times(books + first, s.codes, s.code_size, -2.0F, codes.data() + first, s.codes);
    }
    for (std::int64_t c = 0; c < s.tokens * s.codes; ++c) {
      float sum = 0.0F;
      for (std::int64_t j = 0; j < s.code_size; ++j) {
        const float value = books[c * s.code_size + j];
        sum += value * value;
      }
      code_squares.data()[c] = sum;
    }
    transpose_times(block(kDecode), kDecoderWidth, width, 1.0F, decode.data(), kDecoderWidth);
    decode_bias = block(kDecodeBias);
    decode_weight = block(kDecode);
    transpose_times(block(kOut), s.nodes * s.features, kDecoderWidth, 1.0F, out.data(), s.nodes * s.features);
    out_bias = block(kOutBias);
    out_weight = block(kOut);
    latent_weight = block(kLatent);
  }

  AlignedFloats in, node_bias;
  std::vector<Layer> layers;
  AlignedFloats latent, codes, code_squares, decode, out;
  const float *latent_bias, *latent_weight, *books, *decode_bias, *decode_weight, *out_bias, *out_weight;
};

// One chunk of graphs through the network. A layer's input is a row for each present node: what the node has, then the
// mean of its neighbours.
class ChunkPass {
 public:
  ChunkPass(const TokenizerShape& s, const Maps& maps)
      : s_(s),
        maps_(maps),
        h_(s.hidden),
        width_(s.tokens * s.code_size),
        floats_(s.nodes * s.features),
        rows_at_most_(kChunkGraphs * s.nodes),
        x_(rows_at_most_ * s.features),
        dense_(kChunkGraphs * s.nodes * h_),
        around_(kChunkGraphs * h_),
        latent_(kChunkGraphs * width_),
        scores_(kChunkGraphs * s.codes),
        near_(static_cast<std::size_t>(rows_at_most_)),
        share_(static_cast<std::size_t>(rows_at_most_)),
        node_of_(static_cast<std::size_t>(rows_at_most_)),
        row_of_(static_cast<std::size_t>(rows_at_most_)) {
    for (std::int64_t l = 0; l < kLayers; ++l) {
      inputs_.emplace_back(rows_at_most_ * 2 * h_);
      added_.emplace_back(rows_at_most_ * h_);
      pools_.emplace_back(kChunkGraphs * h_);
    }
  }

  // Up to kChunkGraphs pointers to [nodes, features].
  void encode(const std::vector<const float*>& graphs) {
    take(graphs);
    float* first = inputs_[0].data();
    for (std::int64_t r = 0; r < rows_; ++r)
      std::copy_n(maps_.node_bias.data() + node_of_[static_cast<std::size_t>(r)] * h_, h_,
                  first + r * 2 * h_);
    kernels::multiply(rows_, h_, s_.features, {x_.data(), s_.features, 1}, {maps_.in.data(), h_, 1}, first,
                      2 * h_, true);
    for (std::int64_t r = 0; r < rows_; ++r) relu(h_, first + r * 2 * h_);
    for (std::size_t l = 0; l < kLayers; ++l) pass_layer(l);
    fill_rows(count_, width_, maps_.latent_bias, latent_.data());
    kernels::multiply(count_, width_, s_.nodes * h_, {dense_.data(), s_.nodes * h_, 1},
                      {maps_.latent.data(), width_, 1}, latent_.data(), width_, true);
  }

  // Of the graphs that were encoded; `tokens` by graph.
  void choose(const std::vector<std::int64_t*>& tokens) {
    for (std::int64_t t = 0; t < s_.tokens; ++t) {
      fill_rows(count_, s_.codes, maps_.code_squares.data() + t * s_.codes, scores_.data());
      kernels::multiply(count_, s_.codes, s_.code_size, {latent_.data() + t * s_.code_size, width_, 1},
                        {maps_.codes.data() + t * s_.codes * s_.code_size, s_.codes, 1}, scores_.data(),
                        s_.codes, true);
      for (std::int64_t g = 0; g < count_; ++g)
        tokens[static_cast<std::size_t>(g)][t] = place_of_least(scores_.data() + g * s_.codes, s_.codes);
    }
  }

 protected:
  [[nodiscard]] std::int64_t first_row(std::int64_t g) const { return first_[static_cast<std::size_t>(g)]; }
  [[nodiscard]] std::int64_t rows_of(std::int64_t g) const { return first_row(g + 1) - first_row(g); }
  // Where node `node` of graph `g` lies among all its nodes.
  [[nodiscard]] float* place_in(const AlignedFloats& dense, std::int64_t g, std::int64_t r) const {
    return dense.data() + (g * s_.nodes + node_of_[static_cast<std::size_t>(r)]) * h_;
  }
  template <class Use>
  void for_neighbours(std::int64_t g, std::int64_t r, const Use& use) const {
    for (std::uint64_t left = near_[static_cast<std::size_t>(r)]; left != 0; left &= left - 1)
      use(row_of_[static_cast<std::size_t>(g * s_.nodes + std::countr_zero(left))]);
  }
  // What each neighbour counts in a row's mean.
  [[nodiscard]] float share_of_neighbour(std::int64_t r) const { return share_[static_cast<std::size_t>(r)]; }

  const TokenizerShape s_;
  const Maps& maps_;
  const std::int64_t h_, width_, floats_, rows_at_most_;
  std::int64_t count_ = 0, rows_ = 0;
  std::vector<const float*> graphs_;
  AlignedFloats x_, dense_, around_, latent_, scores_;
  std::vector<AlignedFloats> inputs_, added_, pools_;  // of each layer
  std::vector<std::uint64_t> near_;                    // by row: the nodes next to it
  std::vector<float> share_;
  std::vector<std::int64_t> node_of_, row_of_;
  std::vector<std::int64_t> first_;  // the graphs' first rows, and the end

 private:
  void take(const std::vector<const float*>& graphs) {
    graphs_ = graphs;
    count_ = static_cast<std::int64_t>(graphs.size());
    rows_ = 0;
    first_.assign(1, 0);
    for (std::int64_t g = 0; g < count_; ++g) {
      const float* graph = graphs[static_cast<std::size_t>(g)];
      std::uint64_t at[kColumns][kRows] = {};  // nodes in each cell
      int columns[kMostNodes], rows[kMostNodes];
      const std::int64_t begin = rows_;
      for (std::int64_t n = 0; n < s_.nodes; ++n) {
        const float* node = graph + n * s_.features;
        if (node[0] == 0.0F) continue;
        const std::int64_t k = rows_ - begin;
        columns[k] = cell_along(node[1], kColumnsPerUnit, kColumns);
        rows[k] = cell_along(node[2], kRowsPerUnit, kRows);
        at[columns[k]][rows[k]] |= std::uint64_t{1} << n;
        std::copy_n(node, s_.features, x_.data() + rows_ * s_.features);
        node_of_[static_cast<std::size_t>(rows_)] = n;
        row_of_[static_cast<std::size_t>(g * s_.nodes + n)] = rows_++;
      }
      for (std::int64_t r = begin; r < rows_; ++r) {
        const int c = columns[r - begin], y = rows[r - begin];
        const std::uint64_t near = at[(c + 1) % kColumns][y] | at[(c + kColumns - 1) % kColumns][y] |
                                   at[c][(y + 1) % kRows] | at[c][(y + kRows - 1) % kRows];
        near_[static_cast<std::size_t>(r)] = near;
        share_[static_cast<std::size_t>(r)] = 1.0F / static_cast<float>(std::max(1, std::popcount(near)));
      }
      first_.push_back(rows_);
    }
  }

  void pass_layer(std::size_t l) {
    float *in = inputs_[l].data(), *added = added_[l].data(), *pool = pools_[l].data();
    const Maps::Layer& map = maps_.layers[l];
    std::fill_n(pool, count_ * h_, 0.0F);
    for (std::int64_t g = 0; g < count_; ++g) {
      for (std::int64_t r = first_row(g); r < first_row(g + 1); ++r) {
        float* mean = in + r * 2 * h_ + h_;
        std::fill_n(mean, h_, 0.0F);
        const float share = share_of_neighbour(r);
        for_neighbours(g, r, [&](std::int64_t other) {
          const float* from = in + other * 2 * h_;
          for (std::int64_t j = 0; j < h_; ++j) mean[j] += share * from[j];
        });
      }
      add_rows(rows_of(g), h_, in + first_row(g) * 2 * h_, 2 * h_, pool + g * h_);
      const float share = 1.0F / static_cast<float>(std::max<std::int64_t>(1, rows_of(g)));
      for (std::int64_t j = 0; j < h_; ++j) pool[g * h_ + j] *= share;
    }
    fill_rows(count_, h_, map.bias, around_.data());
    kernels::multiply(count_, h_, h_, {pool, h_, 1}, {map.all.data(), h_, 1}, around_.data(), h_, true);
    for (std::int64_t g = 0; g < count_; ++g)
      fill_rows(rows_of(g), h_, around_.data() + g * h_, added + first_row(g) * h_);
    kernels::multiply(rows_, h_, 2 * h_, {in, 2 * h_, 1}, {map.own_and_near.data(), h_, 1}, added, h_, true);
    relu(rows_ * h_, added);
    const bool last = l + 1 == kLayers;
    if (last) std::fill_n(dense_.data(), count_ * s_.nodes * h_, 0.0F);
    for (std::int64_t g = 0; g < count_; ++g) {
      for (std::int64_t r = first_row(g); r < first_row(g + 1); ++r) {
        float* to = last ? place_in(dense_, g, r) : inputs_[l + 1].data() + r * 2 * h_;
        const float *before = in + r * 2 * h_, *more = added + r * h_;
        for (std::int64_t j = 0; j < h_; ++j) to[j] = before[j] + more[j];
      }
    }
  }
};

// The rest of the autoencoder, and back.
class ErrorPass : public ChunkPass {
 public:
  ErrorPass(const TokenizerShape& s, const Maps& maps, FlatParameters* gradient)
      : ChunkPass(s, maps),
        codes_(kChunkGraphs * width_),
        wide_(kChunkGraphs * kDecoderWidth),
        made_(kChunkGraphs * floats_),
        d_wide_(kChunkGraphs * kDecoderWidth),
        d_latent_(kChunkGraphs * width_),
        d_dense_(kChunkGraphs * s.nodes * h_),
        d_pool_(kChunkGraphs * h_),
        d_rows_(rows_at_most_ * h_),
        d_next_(rows_at_most_ * h_),
        d_inputs_(rows_at_most_ * 2 * h_),
        d_both_(kLayers * 2 * h_ * h_),
        d_in_(s.features * h_) {
    for (std::size_t i = 0; gradient != nullptr && i < kBlocks; ++i)
      to_[i] = gradient->block(i).data_ptr<float>();
  }

  // Of the graphs that were encoded, whose tokens were chosen.
  void decode(const std::vector<std::int64_t*>& tokens, const std::vector<float>& weights,
              const std::vector<float*>& reconstruction, const std::vector<float*>& distance) {
    for (std::int64_t g = 0; g < count_; ++g) {
      for (std::int64_t t = 0; t < s_.tokens; ++t) {
        const std::int64_t code = t * s_.codes + tokens[static_cast<std::size_t>(g)][t];
        std::copy_n(maps_.books + code * s_.code_size, s_.code_size,
                    codes_.data() + g * width_ + t * s_.code_size);
      }
      float squares = 0.0F;
      for (std::int64_t j = g * width_; j < (g + 1) * width_; ++j) {
        const float apart = codes_.data()[j] - latent_.data()[j];
        squares += apart * apart;
      }
      *distance[static_cast<std::size_t>(g)] = squares / static_cast<float>(width_);
    }
    fill_rows(count_, kDecoderWidth, maps_.decode_bias, wide_.data());
    kernels::multiply(count_, kDecoderWidth, width_, {codes_.data(), width_, 1},
                      {maps_.decode.data(), kDecoderWidth, 1}, wide_.data(), kDecoderWidth, true);
    relu(count_ * kDecoderWidth, wide_.data());
    fill_rows(count_, floats_, maps_.out_bias, made_.data());
    kernels::multiply(count_, floats_, kDecoderWidth, {wide_.data(), kDecoderWidth, 1},
                      {maps_.out.data(), floats_, 1}, made_.data(), floats_, true);
    for (std::int64_t g = 0; g < count_; ++g) {
      const float* graph = graphs_[static_cast<std::size_t>(g)];
      float* made = made_.data() + g * floats_;
      const float scale = 2.0F * weights[static_cast<std::size_t>(g)] / static_cast<float>(floats_);
      float squares = 0.0F;
      for (std::int64_t n = 0; n < floats_; n += s_.features) {
        for (std::int64_t f = 0; f < s_.features; ++f) {
          const float error = f == 0 || graph[n] != 0.0F ? made[n + f] - graph[n + f] : 0.0F;
          squares += error * error;
          made[n + f] = error * scale;  // from here on the gradient
        }
      }
      *reconstruction[static_cast<std::size_t>(g)] = squares / static_cast<float>(floats_);
    }
  }

  void backward(const std::vector<std::int64_t*>& tokens, const std::vector<float>& weights,
                float commitment_weight) {
    const std::int64_t wide = s_.nodes * h_;
    kernels::multiply(floats_, kDecoderWidth, count_, {made_.data(), 1, floats_},
                      {wide_.data(), kDecoderWidth, 1}, to(kOut), kDecoderWidth, true);
    add_rows(count_, floats_, made_.data(), floats_, to(kOutBias));
    kernels::multiply(count_, kDecoderWidth, floats_, {made_.data(), floats_, 1},
                      {maps_.out_weight, kDecoderWidth, 1}, d_wide_.data(), kDecoderWidth);
    close(count_ * kDecoderWidth, wide_.data(), d_wide_.data());
    kernels::multiply(kDecoderWidth, width_, count_, {d_wide_.data(), 1, kDecoderWidth},
                      {codes_.data(), width_, 1}, to(kDecode), width_, true);
    add_rows(count_, kDecoderWidth, d_wide_.data(), kDecoderWidth, to(kDecodeBias));
    kernels::multiply(count_, width_, kDecoderWidth, {d_wide_.data(), kDecoderWidth, 1},
                      {maps_.decode_weight, width_, 1}, d_latent_.data(), width_);
    pull_together(tokens, weights, commitment_weight);
    kernels::multiply(width_, wide, count_, {d_latent_.data(), 1, width_}, {dense_.data(), wide, 1},
                      to(kLatent), wide, true);
    add_rows(count_, width_, d_latent_.data(), width_, to(kLatentBias));
    kernels::multiply(count_, wide, width_, {d_latent_.data(), width_, 1}, {maps_.latent_weight, wide, 1},
                      d_dense_.data(), wide);
    for (std::int64_t g = 0; g < count_; ++g) {
      for (std::int64_t r = first_row(g); r < first_row(g + 1); ++r)
        std::copy_n(place_in(d_dense_, g, r), h_, d_rows_.data() + r * h_);
    }
    for (std::size_t l = kLayers; l-- > 0;) layer_backward(l);
    const float* first = inputs_[0].data();
    for (std::int64_t r = 0; r < rows_; ++r) {
      float *d = d_rows_.data() + r * h_, *places = to(kPlaces) + node_of_[static_cast<std::size_t>(r)] * h_;
      for (std::int64_t j = 0; j < h_; ++j) {
        d[j] = first[r * 2 * h_ + j] > 0.0F ? d[j] : 0.0F;
        places[j] += d[j];
      }
    }
    if (rows_ > 0) {
      kernels::multiply(s_.features, h_, rows_, {x_.data(), 1, s_.features}, {d_rows_.data(), h_, 1},
                        d_in_.data(), h_, true);
    }
  }

  // Sums that backward keeps in another order than the gradient has; to be called once, after the last chunk.
  void finish() {
    transpose_add(s_.features, h_, d_in_.data(), to(kIn));
    add_rows(s_.nodes, h_, to(kPlaces), h_, to(kInBias));
    for (std::size_t l = 0; l < kLayers; ++l) {
      const std::size_t begin = kLayer + l * kLayerBlocks;
      const float* both = d_both_.data() + static_cast<std::int64_t>(l) * 2 * h_ * h_;
      for (std::int64_t j = 0; j < h_; ++j) {
        add_rows(1, h_, both + j * 2 * h_, 0, to(begin + kOwn) + j * h_);
        add_rows(1, h_, both + j * 2 * h_ + h_, 0, to(begin + kNear) + j * h_);
      }
    }
  }

 private:
  [[nodiscard]] float* to(std::size_t block) const { return to_[block]; }

  static void close(std::int64_t count, const float* out, float* d) {
    for (std::int64_t i = 0; i < count; ++i) d[i] = out[i] > 0.0F ? d[i] : 0.0F;
  }

  static void transpose_add(std::int64_t rows, std::int64_t columns, const float* from, float* sum) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r) sum[c * rows + r] += from[r * columns + c];
    }
  }

  // Codes towards latents and, by the commitment, latents towards codes.
  void pull_together(const std::vector<std::int64_t*>& tokens, const std::vector<float>& weights,
                     float commitment_weight) {
    for (std::int64_t g = 0; g < count_; ++g) {
      const float scale = 2.0F * weights[static_cast<std::size_t>(g)] / static_cast<float>(width_);
      for (std::int64_t t = 0; t < s_.tokens; ++t) {
        const std::int64_t at = g * width_ + t * s_.code_size;
        float* code = to(kCodes) + (t * s_.codes + tokens[static_cast<std::size_t>(g)][t]) * s_.code_size;
        for (std::int64_t j = 0; j < s_.code_size; ++j) {
          const float apart = scale * (codes_.data()[at + j] - latent_.data()[at + j]);
          code[j] += apart;
          d_latent_.data()[at + j] -= commitment_weight * apart;
        }
      }
    }
  }

  void layer_backward(std::size_t l) {
    const std::size_t begin = kLayer + l * kLayerBlocks;
    const Maps::Layer& map = maps_.layers[l];
    float *d = d_rows_.data(), *d_added = d_next_.data(), *d_around = around_.data();
    // Gradient at the ReLU's input; `d` itself goes on past the layer.
    const float* added = added_[l].data();
    for (std::int64_t i = 0; i < rows_ * h_; ++i) d_added[i] = added[i] > 0.0F ? d[i] : 0.0F;
    std::fill_n(d_around, count_ * h_, 0.0F);
    for (std::int64_t g = 0; g < count_; ++g)
      add_rows(rows_of(g), h_, d_added + first_row(g) * h_, h_, d_around + g * h_);
    add_rows(count_, h_, d_around, h_, to(begin + kLayerBias));
    kernels::multiply(h_, h_, count_, {d_around, 1, h_}, {pools_[l].data(), h_, 1}, to(begin + kAll), h_,
                      true);
    kernels::multiply(count_, h_, h_, {d_around, h_, 1}, {map.all_weight, h_, 1}, d_pool_.data(), h_);
    if (rows_ == 0) return;
    kernels::multiply(h_, 2 * h_, rows_, {d_added, 1, h_}, {inputs_[l].data(), 2 * h_, 1},
                      d_both_.data() + static_cast<std::int64_t>(l) * 2 * h_ * h_, 2 * h_, true);
    kernels::multiply(rows_, 2 * h_, h_, {d_added, h_, 1}, {map.back.data(), 2 * h_, 1}, d_inputs_.data(),
                      2 * h_);
    const float* d_in = d_inputs_.data();
    for (std::int64_t g = 0; g < count_; ++g) {
      const float share_of_all = 1.0F / static_cast<float>(std::max<std::int64_t>(1, rows_of(g)));
      const float* d_pool = d_pool_.data() + g * h_;
      for (std::int64_t r = first_row(g); r < first_row(g + 1); ++r) {
        float* sum = d + r * h_;
        for (std::int64_t j = 0; j < h_; ++j) sum[j] += d_in[r * 2 * h_ + j] + share_of_all * d_pool[j];
        for_neighbours(g, r, [&](std::int64_t other) {  // being neighbours is mutual
          const float share = share_of_neighbour(other);
          const float* from = d_in + other * 2 * h_ + h_;
          for (std::int64_t j = 0; j < h_; ++j) sum[j] += share * from[j];
        });
      }
    }
  }

  std::array<float*, kBlocks> to_{};  // the gradient's blocks
  AlignedFloats codes_, wide_, made_;
  AlignedFloats d_wide_, d_latent_, d_dense_, d_pool_, d_rows_, d_next_, d_inputs_;
  AlignedFloats d_both_, d_in_;  // sums over all chunks: [layers, hidden, 2 hidden], [features, hidden]
};

Weights views_over(const FlatParameters& parameters) {
  Weights weights;
  for (std::size_t i = 0; i < kBlocks; ++i) weights.push_back(parameters.block(i));
  return weights;
}

}  // namespace

bool has_tokenizer_rows(const TokenizerShape& shape, at::Device device) {
  return device.is_cpu() && shape.nodes <= kMostNodes && shape.features > 2;
}

at::Tensor tokens_by_rows(const TokenizerShape& s, const Weights& weights, const at::Tensor& graphs) {
  const at::Tensor all = graphs.contiguous();
  const std::int64_t n = all.size(0), floats = s.nodes * s.features;
  at::Tensor tokens = at::empty({n, s.tokens}, at::kLong);
  const float* from = all.data_ptr<float>();
  auto* to = tokens.data_ptr<std::int64_t>();
  const Maps maps(s, weights);
  at::parallel_for(0, n, 4 * kChunkGraphs, [&](std::int64_t begin, std::int64_t end) {
    ChunkPass pass(s, maps);
    for (std::int64_t first = begin; first < end; first += kChunkGraphs) {
      std::vector<const float*> some;
      std::vector<std::int64_t*> theirs;
      for (std::int64_t i = first; i < std::min(end, first + kChunkGraphs); ++i) {
        some.push_back(from + i * floats);
        theirs.push_back(to + i * s.tokens);
      }
      pass.encode(some);
      pass.choose(theirs);
    }
  });
  return tokens;
}

TokenizerErrors tokenizer_errors(const TokenizerShape& s, const FlatParameters& parameters,
                                 const at::Tensor& graphs, const at::Tensor& graph_weights,
                                 double commitment_weight, FlatParameters* gradient) {
  const at::Tensor all = graphs.contiguous(), weights_of = graph_weights.contiguous();
  const std::int64_t n = all.size(0), floats = s.nodes * s.features;
  TokenizerErrors errors{at::zeros({n}), at::zeros({n}), at::zeros({n, s.tokens}, at::kLong)};
  const float *from = all.data_ptr<float>(), *weight = weights_of.data_ptr<float>();
  auto* chosen = errors.tokens.data_ptr<std::int64_t>();
  float *reconstructions = errors.reconstruction.data_ptr<float>(),
        *distances = errors.distance.data_ptr<float>();
  std::vector<std::int64_t> looked_at;
  for (std::int64_t i = 0; i < n; ++i)
    if (weight[i] != 0.0F) looked_at.push_back(i);
  const auto chunks = static_cast<std::int64_t>((looked_at.size() + kChunkGraphs - 1) / kChunkGraphs);
  const std::int64_t parts = std::min<std::int64_t>(at::get_num_threads(), chunks);
  std::vector<FlatParameters> sums;  // of all parts but the first
  for (std::int64_t p = 1; gradient != nullptr && p < parts; ++p) sums.push_back(gradient->like());
  const Maps maps(s, views_over(parameters));
  const auto work = [&](std::int64_t part) {
    FlatParameters* sum =
        gradient == nullptr || part == 0 ? gradient : &sums[static_cast<std::size_t>(part - 1)];
    ErrorPass pass(s, maps, sum);
    for (std::int64_t c = part * chunks / parts; c < (part + 1) * chunks / parts; ++c) {
      std::vector<const float*> some;
      std::vector<std::int64_t*> tokens;
      std::vector<float> weights;
      std::vector<float*> reconstruction, distance;
      const auto end = std::min(looked_at.size(), static_cast<std::size_t>((c + 1) * kChunkGraphs));
      for (auto k = static_cast<std::size_t>(c * kChunkGraphs); k < end; ++k) {
        const std::int64_t i = looked_at[k];
        some.push_back(from + i * floats);
        tokens.push_back(chosen + i * s.tokens);
        weights.push_back(weight[i]);
        reconstruction.push_back(reconstructions + i);
        distance.push_back(distances + i);
      }
      pass.encode(some);
      pass.choose(tokens);
      pass.decode(tokens, weights, reconstruction, distance);
      if (sum != nullptr) pass.backward(tokens, weights, static_cast<float>(commitment_weight));
    }
    if (sum != nullptr) pass.finish();
  };
  at::parallel_for(0, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) work(part);
  });
  for (const FlatParameters& sum : sums) gradient->flat().add_(sum.flat());
  return errors;
}

}  // namespace snake_ddp::nets
