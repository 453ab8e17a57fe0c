// SD_HD marks functions that compile for the host and, under nvcc, for the device.
#pragma once

#ifdef __CUDACC__
#define SD_HD __host__ __device__
#else
#define SD_HD
#endif
