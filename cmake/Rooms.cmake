# What every target of the project shares, and the function that declares a room.

find_program(PASTKV_CCACHE ccache)
if(PASTKV_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PASTKV_CCACHE}")
endif()

add_library(pastkv_options INTERFACE)
target_include_directories(pastkv_options INTERFACE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include")
target_compile_options(pastkv_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                -Wno-missing-field-initializers)
if(PASTKV_WARNINGS_AS_ERRORS)
  target_compile_options(pastkv_options INTERFACE -Werror)
endif()
if(PASTKV_SANITIZE)
  target_compile_options(pastkv_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
  target_link_options(pastkv_options INTERFACE -fsanitize=address,undefined)
endif()

# pastkv_room(NAME SOURCES file... BELOW room-or-library...)
# Declares the static library pastkv_NAME. BELOW lists the rooms below it that it uses; nothing else can be included.
function(pastkv_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;BELOW" ${ARGN})
  add_library(pastkv_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(pastkv_${name} PUBLIC pastkv_options ${ROOM_BELOW})
endfunction()

# pastkv_test(NAME SOURCES file... LINK library... [LABELS label...])
# A GoogleTest program, registered as one ctest test. Tests find their data through the macro PASTKV_TEST_DATA.
function(pastkv_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE pastkv_options ${TEST_LINK} GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE PASTKV_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT 600)
endfunction()
