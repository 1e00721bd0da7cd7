# Finds what a reader of the repository should never meet: paths of one machine, work left for later.
# `cmake -D SOURCES=<repository> -P wording.cmake`. This folder's own patterns are spelt so that they do not match.
cmake_minimum_required(VERSION 3.25)

set(kPatterns
    "(^|[^A-Za-z0-9_./])/(work|home|Users|root|tmp)/"
    "(^|[^A-Za-z])(TO[D]O|FIX[M]E|XX[X])([^A-Za-z]|$)"
    "[Nn]ot [i]mplemented"
    "march=[n]ative")

file(GLOB_RECURSE files RELATIVE "${SOURCES}" "${SOURCES}/*.md" "${SOURCES}/*.h" "${SOURCES}/*.cc" "${SOURCES}/*.c"
     "${SOURCES}/*.rs" "${SOURCES}/*.py" "${SOURCES}/*.sh" "${SOURCES}/*.cmake" "${SOURCES}/*.txt" "${SOURCES}/*.toml"
     "${SOURCES}/scripts/*" "${SOURCES}/benchmarks/*" "${SOURCES}/.ci/*")
# Folders that git ignores, and data that is not prose of ours.
list(FILTER files EXCLUDE REGEX "^(build|models|assets|\\.venv|\\.git|rust/target|tests/data|fuzz/corpus)/")
list(FILTER files EXCLUDE REGEX "(^|/)(__pycache__|tests/data|target)/")

set(found 0)
list(LENGTH files count)
foreach(file IN LISTS files)
  file(READ "${SOURCES}/${file}" text)
  string(REGEX REPLACE "[][;\\]" " " text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    foreach(pattern IN LISTS kPatterns)
      if(line MATCHES "${pattern}")
        math(EXPR found "${found} + 1")
        message(NOTICE "${file}:${number}: '${CMAKE_MATCH_0}' does not belong into the repository")
      endif()
    endforeach()
  endforeach()
endforeach()

if(found)
  message(FATAL_ERROR "${found} fault(s) in ${count} files")
endif()
message(STATUS "wording: ${count} files, no fault")
