# The contents of launch/bundle.sh's archive. start.sh and launch/gpu_check.sh find them at the same paths as in a
# build:
#   cmake --install build/release --component bundle --strip --prefix FOLDER
foreach(target snake_ddp snake_ddp_starter bench device_check test_rollout test_learners test_train train_probe)
  if(NOT TARGET ${target})  # device_check, without kernels
    continue()
  endif()
  get_target_property(folder ${target} RUNTIME_OUTPUT_DIRECTORY)
  if(NOT folder)
    get_target_property(folder ${target} BINARY_DIR)
  endif()
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_BINARY_DIR})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/../../src/app")
  install(TARGETS ${target} RUNTIME DESTINATION bin/${folder} COMPONENT bundle EXCLUDE_FROM_ALL)
endforeach()
if(TARGET snake_ddp_torch_cuda)
  set_target_properties(snake_ddp_torch_cuda PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS snake_ddp_torch_cuda LIBRARY DESTINATION bin/src/app COMPONENT bundle EXCLUDE_FROM_ALL)
endif()
