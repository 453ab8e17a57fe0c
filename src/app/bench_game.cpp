#include "snake_ddp/app/bench_game.hpp"
