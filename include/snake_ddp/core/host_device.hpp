// SD_HD marks functions that compile for the host and, under nvcc, for the device. SD_HD_APART marks large ones, which a
// device calls instead of inlining, and SD_ROLLED loops that it does not unroll: otherwise nvcc takes minutes.
#pragma once

#ifdef __CUDACC__
#define SD_HD __host__ __device__
#define SD_HD_APART __host__ __device__ __noinline__
#else
#define SD_HD
#define SD_HD_APART
#endif

#ifdef __CUDA_ARCH__
#define SD_ROLLED _Pragma("unroll 1")
#else
#define SD_ROLLED
#endif
