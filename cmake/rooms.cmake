# cmake -DSCRATCH=<folder> -P cmake/rooms.cmake: checks every #include under include/, src/ and python/src/ against the
# table of rooms below: which rooms and libraries each room may include. Then it checks
# planted violations to prove that it notices them. Paths are relative to this script; -DROOT=<folder> checks another tree.
cmake_minimum_required(VERSION 3.25)

# ---- the table -----------------------------------------------------------------------------------------------------
# sd_may(<room> ROOMS ... LIBRARIES ...). Every room may include itself, the standard library and fmt.
macro(sd_may room)
  cmake_parse_arguments(MAY_${room} "" "" "ROOMS;LIBRARIES" ${ARGN})
  list(APPEND SD_ROOMS ${room})
endmacro()

sd_may(base      ROOMS LIBRARIES random123 intrinsics system)
sd_may(cuda      ROOMS base LIBRARIES torch c10d system)
sd_may(config    ROOMS base LIBRARIES json)
sd_may(game      ROOMS base LIBRARIES intrinsics)
sd_may(encode    ROOMS base game)
sd_may(agents    ROOMS base game)
sd_may(play      ROOMS base game encode agents)
sd_may(records   ROOMS base game encode agents play LIBRARIES json zlib system)
sd_may(kernels   ROOMS base LIBRARIES intrinsics)
sd_may(search    ROOMS base game encode kernels play)
sd_may(nets      ROOMS base cuda kernels LIBRARIES torch)
sd_may(replay    ROOMS base cuda LIBRARIES torch)
sd_may(rollout   ROOMS base cuda game encode agents play search nets replay LIBRARIES torch)
sd_may(learners  ROOMS base cuda config nets replay LIBRARIES torch)
sd_may(dist      ROOMS base cuda LIBRARIES torch c10d cuda system)
sd_may(files     ROOMS base records LIBRARIES torch json protozero zlib system)
sd_may(data      ROOMS base game encode records files LIBRARIES torch zlib system)
sd_may(running   ROOMS base dist records files LIBRARIES torch json system)
sd_may(train     ROOMS base cuda config game encode agents play search nets replay rollout learners dist records files running
                 LIBRARIES torch json cuda system)
sd_may(pretrain  ROOMS base config game encode nets learners dist records files data running LIBRARIES torch json)
sd_may(app       ROOMS base cuda config game encode agents play search nets replay rollout learners dist records files data running train pretrain
                 LIBRARIES torch json cuda system cli)
sd_may(python    ROOMS base kernels game encode agents play search nets LIBRARIES nanobind)  # of nets the shape of actors, which needs no torch

# A header belongs to the first library whose pattern it matches.
set(SD_LIBRARIES std fmt random123 c10d torch cuda json protozero zlib cli nanobind intrinsics system)
set(PATTERN_std "^[a-z_0-9]+$")
set(PATTERN_fmt "^fmt/")
set(PATTERN_random123 "^Random123/")
set(PATTERN_c10d "^torch/csrc/distributed/")
set(PATTERN_torch "^(ATen|c10|torch|caffe2)/")
set(PATTERN_cuda "^(cuda|cooperative_groups|cub/|thrust/|nccl)")
set(PATTERN_json "^nlohmann/")
set(PATTERN_protozero "^protozero/")
set(PATTERN_zlib "^zlib\\.h$")
set(PATTERN_cli "^CLI/")
set(PATTERN_nanobind "^nanobind/")
set(PATTERN_intrinsics "^immintrin\\.h$")
set(PATTERN_system "^[a-z_0-9]+\\.h$|^(sys|net|netinet|arpa|linux)/")

# ---- the check -----------------------------------------------------------------------------------------------------
# Sets <why> to the reason why `room` may not include `header`, or to nothing. `folder` is the including file's folder.
function(sd_judge room header folder why)
  set(${why} "" PARENT_SCOPE)
  if(header MATCHES "^snake_ddp/([a-z]+)/")
    set(other ${CMAKE_MATCH_1})
    if(NOT other STREQUAL room AND NOT other IN_LIST MAY_${room}_ROOMS)
      set(${why} "room ${room} may not include room ${other}" PARENT_SCOPE)
    endif()
    return()
  endif()
  if(EXISTS ${folder}/${header} AND NOT header MATCHES "/")  # a private header of the same room
    return()
  endif()
  foreach(library ${SD_LIBRARIES})
    if(header MATCHES "${PATTERN_${library}}")
      if(NOT library MATCHES "^(std|fmt)$" AND NOT library IN_LIST MAY_${room}_LIBRARIES)
        set(${why} "room ${room} may not include library ${library}" PARENT_SCOPE)
      endif()
      return()
    endif()
  endforeach()
  set(${why} "neither a file of the room nor a header of a library in the table" PARENT_SCOPE)
endfunction()

# Sets <violations> to a list of messages and <count> to the number of includes read.
function(sd_check_tree root violations count)
  set(found "")
  set(includes 0)
  file(GLOB_RECURSE files RELATIVE ${root}
    ${root}/include/*.hpp ${root}/include/*.h ${root}/include/*.cuh ${root}/include/*.inc
    ${root}/src/*.hpp ${root}/src/*.h ${root}/src/*.cpp ${root}/src/*.cu ${root}/src/*.cuh ${root}/src/*.inc
    ${root}/python/src/*.hpp ${root}/python/src/*.cpp)
  foreach(file ${files})
    if(NOT file MATCHES "^(include/snake_ddp/|src/|)([a-z]+)/" OR NOT CMAKE_MATCH_2 IN_LIST SD_ROOMS)
      list(APPEND found "${file}: is in no room of the table")
      continue()
    endif()
    set(room ${CMAKE_MATCH_2})
    get_filename_component(folder ${root}/${file} DIRECTORY)
    file(STRINGS ${root}/${file} lines REGEX "^[ \t]*#[ \t]*include")
    foreach(line IN LISTS lines)
      math(EXPR includes "${includes} + 1")
      if(line MATCHES "^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]")
        set(header ${CMAKE_MATCH_1})
        sd_judge(${room} ${header} ${folder} why)
      else()
        set(header "${line}")
        set(why "names no file")
      endif()
      if(why)
        list(APPEND found "${file} includes ${header}: ${why}")
      endif()
    endforeach()
  endforeach()
  set(${violations} "${found}" PARENT_SCOPE)
  set(${count} ${includes} PARENT_SCOPE)
endfunction()

if(NOT ROOT)
  get_filename_component(ROOT ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
endif()
if(NOT SCRATCH)
  message(FATAL_ERROR "usage: cmake -DSCRATCH=<folder for planted violations> -P cmake/rooms.cmake")
endif()

sd_check_tree(${ROOT} violations count)
list(JOIN violations "\n  " text)
if(violations)
  message(FATAL_ERROR "The house is not in order:\n  ${text}")
endif()
if(count LESS 100)
  message(FATAL_ERROR "only ${count} includes found under ${ROOT}: is it the project's folder?")
endif()

# ---- the proof -----------------------------------------------------------------------------------------------------
# Each line is a file, its include, and a word that the verdict must contain; `fine` for none.
set(planted
  "src/game/a.cpp|<ATen/ATen.h>|library torch"
  "include/snake_ddp/encode/b.hpp|<torch/torch.h>|library torch"
  "src/agents/c.cpp|<fcntl.h>|library system"
  "src/learners/d.cpp|\"snake_ddp/game/game.hpp\"|room game"
  "src/learners/e.cpp|\"snake_ddp/dist/world.hpp\"|room dist"
  "include/snake_ddp/dist/f.hpp|\"snake_ddp/nets/policy.hpp\"|room nets"
  "src/files/g.cpp|\"../dist/network.hpp\"|neither a file of the room"
  "src/files/h.cpp|<torch/csrc/distributed/c10d/Store.hpp>|library c10d"
  "src/nets/i.cpp|<nlohmann/json.hpp>|library json"
  "src/train/j.cpp|<CLI/CLI.hpp>|library cli"
  "src/base/k.cpp|\"snake_ddp/config/fields.hpp\"|room config"
  "src/utils/l.cpp|<vector>|no room"
  "src/replay/m.cpp|SOME_MACRO|names no file"
  "python/src/q.cpp|<ATen/ATen.h>|library torch"
  "python/src/r.cpp|\"snake_ddp/train/loop.hpp\"|room train"
  "src/game/n.cpp|\"snake_ddp/base/error.hpp\"|fine"
  "src/train/o.cpp|<ATen/ATen.h>|fine"
  "src/files/p.cpp|\"p.hpp\"|fine"
  "src/files/p.hpp|<zlib.h>|fine")
foreach(plant ${planted})
  string(REPLACE "|" ";" parts "${plant}")
  list(GET parts 0 file)
  list(GET parts 1 header)
  list(GET parts 2 expected)
  file(REMOVE_RECURSE ${SCRATCH})
  file(WRITE ${SCRATCH}/src/files/p.hpp "#pragma once\n")
  file(WRITE ${SCRATCH}/${file} "#pragma once\n  #  include ${header}\n")
  sd_check_tree(${SCRATCH} verdict read)
  if(expected STREQUAL "fine")
    if(verdict OR NOT read EQUAL 1)
      message(FATAL_ERROR "the check rejects an allowed include, ${plant}: ${verdict}")
    endif()
  elseif(NOT verdict MATCHES "${expected}")
    message(FATAL_ERROR "the check does not notice ${plant}; it says: ${verdict}")
  endif()
endforeach()
file(REMOVE_RECURSE ${SCRATCH})
list(LENGTH planted plants)
message(STATUS "${count} includes follow the table of rooms; ${plants} planted ones were judged correctly")
