# Builds the crate in rust/ with cargo and offers it as the target pastkv_text_rust. Every preset gives the same library,
# and it takes minutes: they share one build of it.

find_program(PASTKV_CARGO cargo HINTS "$ENV{HOME}/.cargo/bin" REQUIRED DOC "cargo, 1.85 or later")

set(cargo_folder "${PROJECT_SOURCE_DIR}/build/cargo")
set(cargo_library "${cargo_folder}/release/libpastkv_text.a")
file(GLOB_RECURSE cargo_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/rust/src/*.rs")
add_custom_command(
  OUTPUT "${cargo_library}"
  COMMAND "${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${cargo_folder}" "${PASTKV_CARGO}" build --release --locked --quiet
          --lib
  COMMAND "${CMAKE_COMMAND}" -E touch "${cargo_library}"
  DEPENDS ${cargo_sources} "${PROJECT_SOURCE_DIR}/rust/Cargo.toml" "${PROJECT_SOURCE_DIR}/rust/Cargo.lock"
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}/rust"
  COMMENT "Building the tokenizer and template library (cargo)"
  USES_TERMINAL VERBATIM)
add_custom_target(pastkv_text_cargo DEPENDS "${cargo_library}")

add_library(pastkv_text_rust STATIC IMPORTED GLOBAL)
set_target_properties(pastkv_text_rust PROPERTIES IMPORTED_LOCATION "${cargo_library}")
target_link_libraries(pastkv_text_rust INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(pastkv_text_rust pastkv_text_cargo)
