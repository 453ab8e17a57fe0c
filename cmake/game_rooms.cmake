# SNAKE_DDP_ROOMS=game: the rooms that other programs can link, also into a shared library such as a Python extension.
# They need only fmt and Random123. There are no precompiled headers, so each file must include what it uses.
if(NOT DEFINED CMAKE_POSITION_INDEPENDENT_CODE)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
endif()
find_package(Threads REQUIRED)

function(sd_room name)
  cmake_parse_arguments(R "ALONE" "" "NEEDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cpp)
  list(TRANSFORM R_NEEDS PREPEND snake_ddp_)
  add_library(snake_ddp_${name} STATIC ${sources})
  target_link_libraries(snake_ddp_${name} PUBLIC sd_flags Threads::Threads ${R_NEEDS})
endfunction()

add_subdirectory(src)
