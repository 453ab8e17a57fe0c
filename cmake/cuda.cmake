# Our own kernels, compiled with nvcc from the wheel nvidia-cuda-nvcc or from the toolkit in SNAKE_DDP_TOOLKIT.
# Without nvcc the program is still built; games are then played on the CPU, and learners on GPUs use LibTorch's
# kernels.
set(SNAKE_DDP_CUDA auto CACHE STRING "kernels for GPUs: auto (if nvcc is found), on, off")
set_property(CACHE SNAKE_DDP_CUDA PROPERTY STRINGS auto on off)
set(SNAKE_DDP_CUDA_ARCHITECTURES "" CACHE STRING
  "compute capabilities to compile kernels for, such as 80;90; empty: those of this machine's GPUs, or 75 without a GPU")

set(SD_HAVE_KERNELS OFF)
if(NOT SNAKE_DDP_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "SNAKE_DDP_CUDA=${SNAKE_DDP_CUDA} is not auto, on or off")
endif()
if(NOT SNAKE_DDP_CUDA STREQUAL "off" AND SD_HAVE_CUDA)
  set(toolkit_bin "")
  if(SNAKE_DDP_TOOLKIT)
    set(toolkit_bin ${SNAKE_DDP_TOOLKIT}/bin)
  endif()
  find_program(SD_NVCC nvcc PATHS ${SD_SITE_DIR}/nvidia/cu13/bin ${toolkit_bin} NO_DEFAULT_PATH NO_CACHE)
  if(SD_NVCC)
    execute_process(COMMAND ${SD_NVCC} --version OUTPUT_VARIABLE version ERROR_VARIABLE version RESULT_VARIABLE failed)
    if(failed OR NOT version MATCHES "release ([0-9]+)\\.([0-9]+)")
      message(WARNING "${SD_NVCC} does not report its version: ${version}")
    elseif(NOT CMAKE_MATCH_1 EQUAL 13)
      message(STATUS "${SD_NVCC} belongs to CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, LibTorch to 13: not used")
    else()
      set(SD_HAVE_KERNELS ON)
    endif()
  endif()
endif()
if(SNAKE_DDP_CUDA STREQUAL "on" AND NOT SD_HAVE_KERNELS)
  message(FATAL_ERROR "SNAKE_DDP_CUDA=on, but there is no nvcc of CUDA 13 (or LibTorch has no CUDA): install the wheels of "
    "launch/requirements-cuda.txt into the environment of ${Python3_EXECUTABLE}, or name a toolkit with "
    "-DSNAKE_DDP_TOOLKIT=/usr/local/cuda")
endif()
# Intermediate code for these is always included: the driver translates the newest that a device is not too old for. The first is
# the oldest capability that CUDA 13 supports.
set(SD_INTERMEDIATE_CODE 75 90)
list(GET SD_INTERMEDIATE_CODE 0 SD_OLDEST_ARCHITECTURE)
set(SD_CUDA_ARCHITECTURES ${SNAKE_DDP_CUDA_ARCHITECTURES})
if(SD_HAVE_KERNELS AND NOT SD_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed)
  if(failed EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${found}")
    string(REPLACE "." "" SD_CUDA_ARCHITECTURES "${found}")
    list(REMOVE_DUPLICATES SD_CUDA_ARCHITECTURES)
  endif()
  if(NOT SD_CUDA_ARCHITECTURES)
    set(SD_CUDA_ARCHITECTURES ${SD_OLDEST_ARCHITECTURE})
  endif()
endif()
if(SD_HAVE_KERNELS)
  target_compile_definitions(sd_libtorch INTERFACE SD_HAVE_KERNELS)
  list(JOIN SD_CUDA_ARCHITECTURES " " listed)
  message(STATUS "Kernels: ${SD_NVCC}, compute capabilities ${listed}")
  file(CONFIGURE OUTPUT nvcc.txt CONTENT "${SD_NVCC}")  # for tests
else()
  message(STATUS "Kernels: none")
endif()

# sd_kernels(<room>): adds the room's .cu files to its library as objects. They do not include LibTorch, so nvcc is fast.
# Fused multiply-adds are off, as on the host: the same seed gives the same bits. Intermediate code is not compressed, so that
# tests can read it.
function(sd_kernels room)
  if(NOT SD_HAVE_KERNELS)
    return()
  endif()
  set(errors "")
  if(SNAKE_DDP_WERROR)
    set(errors -Werror all-warnings)
  endif()
  set(includes -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/src)
  if(SNAKE_DDP_BUNDLED)
    list(APPEND includes -I${PROJECT_SOURCE_DIR}/third_party/random123)
  endif()
  set(targets "")
  foreach(arch ${SD_CUDA_ARCHITECTURES})
    list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  foreach(arch ${SD_INTERMEDIATE_CODE})
    list(APPEND targets -gencode arch=compute_${arch},code=compute_${arch})
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cu)
  foreach(source ${sources})
    cmake_path(GET source FILENAME name)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object} DEPENDS ${source} DEPFILE ${object}.d VERBATIM
      COMMENT "Building CUDA object ${name}.o"
      COMMAND ${SD_CACHED_NVCC} ${SD_NVCC} -c ${source} -o ${object} -MD -MF ${object}.d -ccbin ${CMAKE_CXX_COMPILER} -std=c++20 -O3
        --expt-relaxed-constexpr -fmad=false --no-compress --threads 2 -DSD_HAVE_KERNELS ${includes}
        ${errors} -Xcompiler -fPIC,-Wall ${targets})
    target_sources(snake_ddp_${room} PRIVATE ${object})
    set_property(GLOBAL APPEND PROPERTY SD_KERNEL_OBJECTS ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
endfunction()
