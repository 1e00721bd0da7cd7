# The checks themselves are checked: each fault planted here must be found, and a clean tree must pass.
# `cmake -D CHECKS=<this folder> -D SCRATCH=<folder to write in> -P selftest.cmake`
cmake_minimum_required(VERSION 3.25)

# expect(CHECK CODE FILE TEXT WANTED): with TEXT in FILE, CHECK ends with CODE and prints WANTED.
function(expect check code file text wanted)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/src/base/clean.h" "#pragma once\n#include <string>\n")
  file(WRITE "${SCRATCH}/${file}" "${text}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -D "SOURCES=${SCRATCH}" -P "${CHECKS}/${check}.cmake"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL code OR NOT output MATCHES "${wanted}")
    message(FATAL_ERROR "${check} on ${file} holding '${text}': ended ${result} with\n${output}\nwanted ${code}, ${wanted}")
  endif()
endfunction()

expect(layering 0 src/graph/a.cc "#include \"tensor/dtype.h\"\n#include <vector>\n" "no fault")
expect(layering 0 src/engine/kernels/avx2.cc "#include <immintrin.h>\n__m256 x;\n" "no fault")
expect(layering 0 src/cli/a.cc "#include \"bench/bench.h\"\n" "no fault")
expect(layering 1 src/tensor/a.h "#pragma once\n#include \"formats/gguf.h\"\n" "src/tensor/a.h:2: room 'tensor' includes formats")
expect(layering 1 src/graph/a.cc "#include \"formats/gguf.h\"\n" "'formats' is not below it")
expect(layering 1 src/text/a.cc "  #  include <models/config.h>\n" "'models' is not below it")
expect(layering 1 src/text/a.cc "#include \"graph/graph.h\"\n" "'graph' is not below it")
expect(layering 1 src/targets/onnx/a.cc "#include \"engine/executor.h\"\n" "'engine' is not below it")
expect(layering 1 src/engine/a.cc "#include \"targets/onnx/a.h\"\n" "'targets' is not below it")
expect(layering 1 src/trace/a.cc "#include \"engine/executor.h\"\n" "'engine' is not below it")
expect(layering 1 src/base/a.cc "int a[2];\n#include \"cli/main.h\"\n" "src/base/a.cc:2: room 'base'")
expect(layering 1 src/engine/a.cc "#include <immintrin.h>\n" "outside engine/kernels")
expect(layering 1 src/engine/a.cc "auto y = _mm256_add_ps(a, b);\n" "names an instruction set")
expect(layering 1 src/base/a.cc "#include <gtest/gtest.h>\n" "know nothing of tests")
expect(layering 1 src/base/a.cc "#include \"../tensor/dtype.h\"\n" "relative paths")
expect(layering 1 src/attic/a.cc "int a;\n" "'attic' is no room")

expect(wording 0 README.md "See docs/work/notes and a / b\n" "no fault")
foreach(place work home tmp root)
  expect(wording 1 docs/a.md "fine\nopen /${place}/me/model\n" "docs/a.md:2: ")
endforeach()
# In two halves, or this file would be at fault itself.
foreach(word "TO DO" "FIX ME" "XX X")
  string(REPLACE " " "" word "${word}")
  expect(wording 1 src/base/a.cc "int a;  // ${word}: later\n" "src/base/a.cc:1: ")
endforeach()
set(done "implemented")
expect(wording 1 scripts/a "echo not ${done}\n" "scripts/a:1: ")
file(REMOVE_RECURSE "${SCRATCH}")
