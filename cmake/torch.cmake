# LibTorch from the Python wheel, linked directly: PyTorch's own CMake package requires nvcc if the wheel
# has CUDA, but host code does not need it.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c
    "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
  OUTPUT_VARIABLE SD_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT SD_TORCH_DIR)
  message(FATAL_ERROR "${Python3_EXECUTABLE} has no torch: run ./train_ddp.sh or ./test.sh, which install it, "
    "or name another interpreter with -DPython3_EXECUTABLE=")
endif()
get_filename_component(SD_SITE_DIR ${SD_TORCH_DIR} DIRECTORY)
# Reconfigure when launch/setup.sh installs more, such as nvcc.
set(stamp ${PROJECT_SOURCE_DIR}/.venv/snake_ddp.stamp)
if(EXISTS ${stamp})
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${stamp})
endif()

add_library(sd_libtorch INTERFACE)
target_include_directories(sd_libtorch SYSTEM INTERFACE
  ${SD_TORCH_DIR}/include ${SD_TORCH_DIR}/include/torch/csrc/api/include
  ${PROJECT_SOURCE_DIR}/cmake/gloo_stubs)
target_link_libraries(sd_libtorch INTERFACE
  -Wl,--no-as-needed ${SD_TORCH_DIR}/lib/libtorch_cpu.so ${SD_TORCH_DIR}/lib/libc10.so Threads::Threads)

# An RPATH, unlike a RUNPATH, comes before LD_LIBRARY_PATH, where a module or another environment may have another LibTorch.
target_link_options(sd_libtorch INTERFACE -Wl,--disable-new-dtags)

set(SD_HAVE_CUDA OFF)
if(EXISTS ${SD_TORCH_DIR}/lib/libtorch_cuda.so)
  # The runtime's headers and library come with the wheel's dependencies. A toolkit on this machine is used only on
  # request, so that the build depends neither on the machine nor on which script ran first.
  set(toolkit_include "")
  set(toolkit_lib "")
  if(SNAKE_DDP_TOOLKIT)
    set(toolkit_include ${SNAKE_DDP_TOOLKIT}/include)
    set(toolkit_lib ${SNAKE_DDP_TOOLKIT}/lib64)
  endif()
  find_path(SD_CUDA_INCLUDE cuda_runtime.h
    PATHS ${SD_SITE_DIR}/nvidia/cu13/include ${toolkit_include} NO_DEFAULT_PATH NO_CACHE)
  find_path(SD_NCCL_INCLUDE nccl.h
    PATHS ${SD_SITE_DIR}/nvidia/nccl/include ${toolkit_include} NO_DEFAULT_PATH NO_CACHE)
  find_file(SD_CUDART libcudart.so.13
    PATHS ${SD_SITE_DIR}/nvidia/cu13/lib ${toolkit_lib} NO_DEFAULT_PATH NO_CACHE)
  # cuda_fp16.h includes nv/target from CCCL, which has its own wheel and folder.
  find_path(SD_CCCL_INCLUDE nv/target
    PATHS ${SD_CUDA_INCLUDE} ${SD_CUDA_INCLUDE}/cccl NO_DEFAULT_PATH NO_CACHE)
  if(SD_CUDA_INCLUDE AND SD_NCCL_INCLUDE AND SD_CUDART AND SD_CCCL_INCLUDE
      AND EXISTS ${SD_CUDA_INCLUDE}/crt/host_config.h)
    set(SD_HAVE_CUDA ON)
    target_include_directories(sd_libtorch SYSTEM INTERFACE ${SD_CCCL_INCLUDE})
    target_include_directories(sd_libtorch SYSTEM INTERFACE ${SD_CUDA_INCLUDE} ${SD_NCCL_INCLUDE})
    target_link_libraries(sd_libtorch INTERFACE ${SD_TORCH_DIR}/lib/libc10_cuda.so ${SD_CUDART})
    target_compile_definitions(sd_libtorch INTERFACE SD_HAVE_CUDA USE_C10D_NCCL)
  endif()
endif()
target_compile_definitions(sd_libtorch INTERFACE USE_C10D_GLOO)
target_link_options(sd_libtorch INTERFACE -Wl,--allow-shlib-undefined)
# What programs link. nets/library loads libtorch_cuda.so if there is a driver, also in programs that call
# nothing of it.
add_library(sd_torch INTERFACE)
target_link_libraries(sd_torch INTERFACE sd_libtorch snake_ddp_cuda)
target_link_options(sd_torch INTERFACE -Wl,--undefined=_ZN9snake_ddp4nets9is_loadedEv)
message(STATUS "LibTorch: ${SD_TORCH_DIR}, CUDA and NCCL: ${SD_HAVE_CUDA}")
if(EXISTS ${SD_TORCH_DIR}/lib/libtorch_cuda.so AND NOT SD_HAVE_CUDA)
  message(WARNING "this LibTorch has CUDA, but headers are missing and the program will train on CPU only: runtime "
    "${SD_CUDA_INCLUDE}, NCCL ${SD_NCCL_INCLUDE}, CCCL ${SD_CCCL_INCLUDE}, library ${SD_CUDART}; the wheels "
    "nvidia-cuda-crt and nvidia-cuda-cccl (13.0) from launch/requirements.txt contain them")
endif()
