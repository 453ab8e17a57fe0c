# sd_room(<name> NEEDS <rooms and libraries> [TORCH]): one library from all .cpp files of a folder.
function(sd_room name)
  cmake_parse_arguments(R "TORCH" "" "NEEDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main\\.cpp$")
  if(NOT sources)  # headers only
    add_library(snake_ddp_${name} INTERFACE)
    target_link_libraries(snake_ddp_${name} INTERFACE sd_flags ${R_NEEDS})
    return()
  endif()
  add_library(snake_ddp_${name} STATIC ${sources})
  target_link_libraries(snake_ddp_${name} PUBLIC sd_flags ${R_NEEDS})
  if(R_TORCH)
    target_link_libraries(snake_ddp_${name} PUBLIC sd_torch)
    target_precompile_headers(snake_ddp_${name} REUSE_FROM sd_torch_pch)
  endif()
endfunction()

# sd_test(<name> NEEDS ... LABELS unit property ... [TORCH]): one program test_<name> from all test_*.cpp here, and per
# label one ctest entry <name>.<label> that runs the cases tagged [label] and writes a JUnit report. An entry without
# cases fails.
function(sd_test name)
  cmake_parse_arguments(T "TORCH" "TIMEOUT" "NEEDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.cpp)
  add_executable(test_${name} ${sources})
  if("unit" IN_LIST T_LABELS OR "property" IN_LIST T_LABELS OR "golden" IN_LIST T_LABELS)
    add_dependencies(sd_sanitized_tests test_${name})
  endif()
  target_link_libraries(test_${name} PRIVATE sd_flags sd_catch_main ${T_NEEDS})
  if(T_TORCH)
    target_link_libraries(test_${name} PRIVATE sd_torch)
    target_precompile_headers(test_${name} REUSE_FROM sd_torch_pch)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  foreach(label ${T_LABELS})
    add_test(NAME ${name}.${label}
      COMMAND test_${name} "[${label}]" -w NoTests -r junit -o ${SD_JUNIT_DIR}/${name}.${label}.xml)
    # As torchrun sets it; with more threads than free cores, threads wait for each other.
    set_tests_properties(${name}.${label} PROPERTIES LABELS ${label} TIMEOUT ${T_TIMEOUT}
      ENVIRONMENT OMP_NUM_THREADS=1)
  endforeach()
endfunction()

# sd_pytest(<file without .py> LABEL <label> [BESIDE]): a pytest file that drives the built programs while nothing else runs;
# with BESIDE, other tests may run at the same time, because nothing in it depends on speed.
function(sd_pytest name)
  cmake_parse_arguments(T "BESIDE" "LABEL;TIMEOUT" "" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 600)
  endif()
  add_test(NAME ${name}.${T_LABEL}
    COMMAND ${Python3_EXECUTABLE} -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/${name}.py
      --junitxml=${SD_JUNIT_DIR}/${name}.${T_LABEL}.xml
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(alone ON)
  if(T_BESIDE)
    set(alone OFF)
  endif()
  set_tests_properties(${name}.${T_LABEL} PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT} RUN_SERIAL ${alone}
    ENVIRONMENT
    "SD_BUILD_DIR=${PROJECT_BINARY_DIR};SD_SOURCE_DIR=${PROJECT_SOURCE_DIR};PYTHONPATH=${PROJECT_SOURCE_DIR}/tests")
endfunction()
