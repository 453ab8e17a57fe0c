# cmake -DROOT=<source root> -DTO=<file.cpp> -P cmake/sources_id.cmake: writes a hash of all files under src/ and include/ as
# a constant of the program. The same sources give the same hash on any machine and with any compiler.
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/src/* ${ROOT}/include/*)
list(SORT files)
set(all "")
foreach(file ${files})
  file(SHA256 ${ROOT}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 12 id)
file(WRITE ${TO} "namespace snake_ddp::dist {\nextern const char* const kSourcesId;\nconst char* const kSourcesId = \"${id}\";\n}\n")
