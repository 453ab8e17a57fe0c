# For code without hot loops, and for tests: at -O1 it compiles in two thirds of the time, and with sanitizers at -O0 in
# half.
if(SNAKE_DDP_SANITIZE)
  set(SD_CALLS_ONLY -O0)
else()
  set(SD_CALLS_ONLY $<$<CONFIG:Release>:-O1>)
endif()

# Precompiled headers: the most common includes, parsed once. One for code without tensors, one with them, and the
# same two with Catch2 for the tests, their probes, and in sanitized builds for rooms that only call: a header must have
# the optimisation of the code that uses it.
set(SD_COMMON_HEADERS <algorithm> <chrono> <filesystem> <functional> <map> <memory> <optional> <string> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)
function(sd_precompile name)
  cmake_parse_arguments(P "CALLS_ONLY" "" "HEADERS;NEEDS" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp "namespace snake_ddp { int ${name}(); int ${name}() { return 0; } }\n")
  add_library(${name} STATIC ${PROJECT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PUBLIC sd_flags ${P_NEEDS})
  if(P_CALLS_ONLY)
    target_compile_options(${name} PRIVATE ${SD_CALLS_ONLY})
  endif()
  target_precompile_headers(${name} PRIVATE ${P_HEADERS} ${SD_COMMON_HEADERS})
endfunction()
sd_precompile(sd_plain_pch)
sd_precompile(sd_torch_pch HEADERS <ATen/ATen.h> NEEDS sd_libtorch)
sd_precompile(sd_plain_test_pch CALLS_ONLY HEADERS <catch2/catch.hpp>)
sd_precompile(sd_torch_test_pch CALLS_ONLY HEADERS <ATen/ATen.h> <catch2/catch.hpp> NEEDS sd_libtorch)
set_target_properties(sd_plain_test_pch sd_torch_test_pch PROPERTIES EXCLUDE_FROM_ALL ON)

# sd_sort_for_batches(<list>): unity batches are neighbours in a target's list of sources. Files that include the same of
# these headers come together, so that a change of one recompiles few batches.
function(sd_sort_for_batches list)
  set(keyed "")
  foreach(file IN LISTS ${list})
    file(READ ${file} text)
    set(key "")
    foreach(header learner base/error game/game)  # of spied_learner.hpp, too, which includes the first
      string(FIND "${text}" "${header}.hpp" place)
      if(place EQUAL -1)
        string(APPEND key 1)
      else()
        string(APPEND key 0)
      endif()
    endforeach()
    list(APPEND keyed "${key}${file}")
  endforeach()
  list(SORT keyed)
  list(TRANSFORM keyed REPLACE "^[01]+" "")
  set(${list} "${keyed}" PARENT_SCOPE)
endfunction()

# sd_room(<name> NEEDS <rooms> LIBRARIES <targets> [TORCH] [ALONE] [CALLS_ONLY]): one library from all .cpp files of the
# room's folder. ALONE: without precompiled headers, which require the same flags. CALLS_ONLY: no loop over numbers in
# it matters for speed.
function(sd_room name)
  cmake_parse_arguments(R "TORCH;ALONE;CALLS_ONLY" "" "NEEDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  sd_sort_for_batches(sources)
  add_library(snake_ddp_${name} STATIC ${sources})
  list(TRANSFORM R_NEEDS PREPEND snake_ddp_)
  target_link_libraries(snake_ddp_${name} PUBLIC sd_flags ${R_NEEDS} ${R_LIBRARIES})
  if(R_CALLS_ONLY)
    target_compile_options(snake_ddp_${name} PRIVATE ${SD_CALLS_ONLY})
  endif()
  if(R_TORCH)
    target_link_libraries(snake_ddp_${name} PUBLIC sd_torch)
    if(R_CALLS_ONLY AND SNAKE_DDP_SANITIZE)
      target_precompile_headers(snake_ddp_${name} REUSE_FROM sd_torch_test_pch)
    else()
      target_precompile_headers(snake_ddp_${name} REUSE_FROM sd_torch_pch)
    endif()
  elseif(NOT R_ALONE)
    target_precompile_headers(snake_ddp_${name} REUSE_FROM sd_plain_pch)
  endif()
endfunction()

# sd_test(<name> NEEDS ... LABELS unit property ... [TORCH]): one program test_<name> from all test_*.cpp here, and per
# label one ctest entry <name>.<label> that runs the cases tagged [label] and writes a report. An entry without
# cases fails.
function(sd_test name)
  cmake_parse_arguments(T "TORCH" "TIMEOUT" "NEEDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.cpp)
  sd_sort_for_batches(sources)
  add_executable(test_${name} ${sources})
  if("unit" IN_LIST T_LABELS OR "property" IN_LIST T_LABELS OR "golden" IN_LIST T_LABELS)
    add_dependencies(sd_sanitized_tests test_${name})
  endif()
  target_link_libraries(test_${name} PRIVATE sd_flags sd_catch_main ${T_NEEDS})
  if(T_TORCH)
    target_link_libraries(test_${name} PRIVATE sd_torch)
    target_precompile_headers(test_${name} REUSE_FROM sd_torch_test_pch)
  else()
    target_precompile_headers(test_${name} REUSE_FROM sd_plain_test_pch)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  foreach(label ${T_LABELS})
    add_test(NAME ${name}.${label}
      COMMAND test_${name} "[${label}]" -w NoTests -r xml -o ${SD_JUNIT_DIR}/${name}.${label}.xml)
    # As torchrun sets it; with more threads than free cores, threads wait for each other.
    set_tests_properties(${name}.${label} PROPERTIES LABELS ${label} TIMEOUT ${T_TIMEOUT}
      ENVIRONMENT OMP_NUM_THREADS=1)
  endforeach()
endfunction()

# sd_pytest(<file without .py> LABEL <label> [ALONE] [READS] [COST <seconds>] [PYTHON <path>]): a pytest file that drives the built
# programs. ALONE: nothing else runs at the same time, because its result depends on the programs' speed. READS: it
# starts no programs, only reads files. COST: about how long it takes; ctest starts long ones first, so that none runs alone
# at the end, also in a new build folder, where it has not measured them yet. PYTHON: the interpreter.
function(sd_pytest name)
  cmake_parse_arguments(T "ALONE;READS" "LABEL;TIMEOUT;COST;PYTHON" "" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 1200)
  endif()
  if(NOT T_COST)
    set(T_COST 0)
  endif()
  if(NOT T_PYTHON)
    set(T_PYTHON ${Python3_EXECUTABLE})
  endif()
  add_test(NAME ${name}.${T_LABEL}
    COMMAND ${T_PYTHON} -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py
      --junitxml=${SD_JUNIT_DIR}/${name}.${T_LABEL}.xml
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(labels ${T_LABEL})
  if(NOT T_READS)
    list(APPEND labels program)  # not in `./test.sh quick`
  endif()
  set_tests_properties(${name}.${T_LABEL} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT} RUN_SERIAL ${T_ALONE} COST ${T_COST}
    ENVIRONMENT
    "SD_BUILD_DIR=${PROJECT_BINARY_DIR};SD_SOURCE_DIR=${PROJECT_SOURCE_DIR};PYTHONPATH=${PROJECT_SOURCE_DIR}/tests")
endfunction()
