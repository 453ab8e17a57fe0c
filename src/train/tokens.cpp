#include "snake_ddp/train/tokens.hpp"

#include <utility>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/snake_graph.hpp"
#include "snake_ddp/files/state_dict.hpp"
#include "snake_ddp/play/sight.hpp"
#include "snake_ddp/rollout/board_graphs.hpp"

namespace snake_ddp::train {

learners::TokenSource token_source(const std::string& folder, int view_radius, at::Device device) {
  const std::string tokenizer = folder + "/tokenizer_best.pth",
                    predictor = folder + "/mask_predictor_best.pth";
  nets::FrozenTokenizer first = nets::frozen_tokenizer(files::load_state_dict(tokenizer), device, tokenizer);
  nets::TokenReader reader(std::move(first),
                           nets::frozen_mask_predictor(files::load_state_dict(predictor), device, predictor),
                           folder);
  if (reader.graph_floats() != encode::kGraphsFloats)
    throw base::FileError(folder + ": made for graphs of another version: run pretrain again");
  return {std::move(reader), play::kBoardFloats,
          [view_radius](const at::Tensor& boards) { return rollout::board_graphs(view_radius, boards); }};
}

}  // namespace snake_ddp::train
