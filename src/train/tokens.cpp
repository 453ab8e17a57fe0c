#include "snake_ddp/train/tokens.hpp"

#include <utility>

#include "snake_ddp/base/error.hpp"
#include "snake_ddp/encode/snake_graph.hpp"
#include "snake_ddp/files/state_dict.hpp"

namespace snake_ddp::train {

nets::TokenReader token_reader(const std::string& folder, at::Device device) {
  const std::string tokenizer = folder + "/tokenizer_best.pth",
                    predictor = folder + "/mask_predictor_best.pth";
  nets::FrozenTokenizer first = nets::frozen_tokenizer(files::load_state_dict(tokenizer), device, tokenizer);
  nets::TokenReader reader(std::move(first),
                           nets::frozen_mask_predictor(files::load_state_dict(predictor), device, predictor),
                           folder);
  if (reader.graph_floats() != encode::kGraphsFloats)
    throw base::FileError(folder + ": made for graphs of another version: run pretrain again");
  return reader;
}

}  // namespace snake_ddp::train
