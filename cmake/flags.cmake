# Compiler flags of all our targets. Contraction into fused multiply-adds is off, so that the same seed
# gives the same bits on machines with and without them.
add_library(sd_flags INTERFACE)
if(PROJECT_IS_TOP_LEVEL)  # in another project its own files would get these flags too
  target_compile_options(sd_flags INTERFACE
    -Wall -Wextra -Wpedantic $<$<BOOL:${SNAKE_DDP_WERROR}>:-Werror> -Wshadow -Wconversion -Wno-sign-conversion
    -Wnon-virtual-dtor -Wno-psabi $<$<CXX_COMPILER_ID:GNU>:-Wno-interference-size>)
endif()
target_compile_options(sd_flags INTERFACE -ffp-contract=off -fno-math-errno)
# Functions are not merged, and their callers stay on the stack: a log's stacks show which collective waited, and from
# where.
target_compile_options(sd_flags INTERFACE
  -fno-optimize-sibling-calls $<$<CXX_COMPILER_ID:GNU>:-fno-reorder-blocks-and-partition>)
# For files that are written for fused multiply-adds. When tuned for some processors (Zen 3), GCC omits them in short
# chains, and then a row's bits would depend on the number of rows beside it.
set(SD_FUSED -ffp-contract=fast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND SD_FUSED --param=avoid-fma-max-bits=0)
  # GCC 12 warns about correct uses of std::string (GCC bugs 105329 and 105651).
  target_compile_options(sd_flags INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
# A target's property SD_MARCH comes before SNAKE_DDP_MARCH.
set(march $<IF:$<BOOL:$<TARGET_PROPERTY:SD_MARCH>>,$<TARGET_PROPERTY:SD_MARCH>,${SNAKE_DDP_MARCH}>)
target_compile_options(sd_flags INTERFACE $<$<BOOL:${march}>:-march=${march}>)
if(SNAKE_DDP_SANITIZE)
  add_compile_options(-O1 -g1)  # before a target's own: see SD_CALLS_ONLY
  target_compile_options(sd_flags INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>  # false positives of GCC 12 in instrumented code
    -fsanitize=${SNAKE_DDP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sd_flags INTERFACE -fsanitize=${SNAKE_DDP_SANITIZE})
endif()
# Link fmt's compiled library: header-only, it costs every file that formats text four seconds. LibTorch ships headers of
# another version, so ours come first.
if(NOT SNAKE_DDP_BUNDLED)
  find_package(fmt QUIET)
endif()
if(fmt_FOUND)
  get_target_property(SD_FMT_INCLUDE fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/fmt_first)
  file(CREATE_LINK ${SD_FMT_INCLUDE}/fmt ${PROJECT_BINARY_DIR}/fmt_first/fmt SYMBOLIC)
  target_include_directories(sd_flags SYSTEM BEFORE INTERFACE ${PROJECT_BINARY_DIR}/fmt_first)
  target_link_libraries(sd_flags INTERFACE fmt::fmt)
else()
  target_compile_definitions(sd_flags INTERFACE FMT_HEADER_ONLY)
endif()
if(SNAKE_DDP_BUNDLED)
  target_include_directories(sd_flags SYSTEM BEFORE INTERFACE
    ${PROJECT_SOURCE_DIR}/third_party/fmt ${PROJECT_SOURCE_DIR}/third_party/random123)
endif()
target_include_directories(sd_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

# With a compiler cache, a second build of the same sources takes seconds, also in another clone. Precompiled
# headers need the sloppiness (ccache's manual, "Precompiled headers"). nvcc comes with each clone's Python environment, so
# it is known by its content, not by its date.
find_program(SD_CCACHE ccache)
set(SD_CACHED_NVCC "")
if(SD_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(cache ${CMAKE_COMMAND} -E env
    CCACHE_INODECACHE=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
  if(SNAKE_DDP_SANITIZE)  # debug information holds the build folder, which would make each clone's another result
    list(APPEND cache CCACHE_NOHASHDIR=1)
  endif()
  set(CMAKE_CXX_COMPILER_LAUNCHER ${cache} ${SD_CCACHE})
  set(SD_CACHED_NVCC ${cache} CCACHE_COMPILERCHECK=content ${SD_CCACHE})
  target_compile_options(sd_flags INTERFACE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
