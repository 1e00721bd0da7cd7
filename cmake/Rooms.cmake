# What every target of the project shares, and the function that declares a room.

find_program(PASTKV_CCACHE ccache)
if(PASTKV_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PASTKV_CCACHE}")
endif()

add_library(pastkv_options INTERFACE)
target_include_directories(pastkv_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
target_compile_options(pastkv_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                -Wno-missing-field-initializers -Wno-sign-conversion)
# g++ 12 sees overlapping copies in `"text" + std::string(...)` that are not there (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(pastkv_options INTERFACE -Wno-restrict)
endif()
if(PASTKV_WARNINGS_AS_ERRORS)
  target_compile_options(pastkv_options INTERFACE -Werror)
endif()
if(PASTKV_SANITIZE)
  target_compile_options(pastkv_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  # An empty optional, a span's or vector's index out of range: caught where the sanitizers may not see it.
  target_compile_definitions(pastkv_options INTERFACE _GLIBCXX_ASSERTIONS)
  target_link_options(pastkv_options INTERFACE -fsanitize=address,undefined)
endif()
if(PASTKV_FUZZ)
  target_compile_options(pastkv_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# For code whose own speed nobody waits for, and whose headers make it slow to build.
set(PASTKV_QUICK_TO_BUILD $<$<CONFIG:Release>:-O1>)

# pastkv_room(NAME SOURCES file... BELOW room-or-library...)
# Declares the static library pastkv_NAME. BELOW lists the rooms below it that it uses; nothing else can be included.
function(pastkv_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;BELOW" ${ARGN})
  add_library(pastkv_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(pastkv_${name} PUBLIC pastkv_options ${ROOM_BELOW})
endfunction()

# pastkv_not_run(NAME REASON): NAME cannot run with what this machine has. It never counts as passed: ctest lists it as
# disabled, and scripts/test prints it with the reason.
function(pastkv_not_run name reason)
  set_property(GLOBAL APPEND PROPERTY PASTKV_NOT_RUN "${name}: ${reason}")
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES DISABLED TRUE)
  endif()
endfunction()

# pastkv_test(NAME SOURCES file... LINK library... [LABELS label...])
# A GoogleTest program, registered as one ctest test. Tests find their data through the macro PASTKV_TEST_DATA.
# Labels: `unit` (needs nothing but the build; runs under the sanitizers too), `assets` (needs third-party vectors, in
# the folder named by the environment variable PASTKV_ASSETS), `weights` (needs published models, in PASTKV_MODELS).
# scripts/fetch-assets and scripts/fetch-model fill the two folders.
function(pastkv_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE pastkv_options ${TEST_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(${name} PRIVATE PASTKV_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  target_compile_options(${name} PRIVATE ${PASTKV_QUICK_TO_BUILD})
  add_test(NAME ${name} COMMAND ${name})
  pastkv_test_properties(${name} "${TEST_LABELS}")
  if("assets" IN_LIST TEST_LABELS AND NOT EXISTS "${PASTKV_ASSETS}/complete")
    pastkv_not_run(${name} "needs the vectors that scripts/fetch-assets brings")
  elseif("weights" IN_LIST TEST_LABELS AND NOT EXISTS "${PASTKV_MODELS}/SmolLM2-135M-Instruct.Q4_1.gguf")
    pastkv_not_run(${name} "needs the model that scripts/fetch-model smollm2 brings")
  endif()
  if("unit" IN_LIST TEST_LABELS AND PASTKV_SANITIZE_BUILD)
    file(RELATIVE_PATH folder "${PROJECT_BINARY_DIR}" "${CMAKE_CURRENT_BINARY_DIR}")
    add_test(NAME sanitize.${name} COMMAND "${PASTKV_SANITIZE_BUILD}/${folder}/${name}")
    pastkv_test_properties(sanitize.${name} sanitize)
  endif()
endfunction()

# Labels, time limit, place in the order (what is fast and finds most comes first), and where fetched files lie.
function(pastkv_test_properties name labels)
  set(cost 100)
  if("unit" IN_LIST labels)
    set(cost 1000)
  elseif("structure" IN_LIST labels OR "lint" IN_LIST labels)
    set(cost 900)
  endif()
  set_tests_properties(
    ${name} PROPERTIES LABELS "${labels}" COST ${cost} TIMEOUT 900
                       ENVIRONMENT "PASTKV_ASSETS=${PASTKV_ASSETS};PASTKV_MODELS=${PASTKV_MODELS}")
endfunction()

# pastkv_fuzz(NAME LINK room...)
# A libFuzzer harness, fuzz/NAME.cc, with its seeds in fuzz/corpus/NAME. The preset `fuzz` builds it; a build that
# points PASTKV_FUZZ_BUILD there runs it for PASTKV_FUZZ_SECONDS as a ctest test.
function(pastkv_fuzz name)
  cmake_parse_arguments(FUZZ "" "" "LINK" ${ARGN})
  if(PASTKV_FUZZ)
    add_executable(${name} ${name}.cc)
    target_link_libraries(${name} PRIVATE pastkv_options ${FUZZ_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
  if(PASTKV_FUZZ_BUILD)
    set(found "${PROJECT_BINARY_DIR}/fuzz/${name}")
    file(MAKE_DIRECTORY "${found}")
    add_test(NAME fuzz.${name}
             COMMAND "${PASTKV_FUZZ_BUILD}/fuzz/${name}" -max_total_time=${PASTKV_FUZZ_SECONDS} -timeout=10
                     -rss_limit_mb=1024 -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix=${found}/ "${found}"
                     "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
    pastkv_test_properties(fuzz.${name} fuzz)
  endif()
endfunction()
