# cmake -DROOT=<source root> -DTO=<file.cpp> -P cmake/sources_id.cmake: a hash over all that is under src/ and include/, as a
# function of the program. Equal wherever the same sources are built, whatever the machine and compiler.
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
file(WRITE ${TO} "namespace snake_ddp::train {\nextern const char* const kSourcesId;\nconst char* const kSourcesId = \"${id}\";\n}\n")
