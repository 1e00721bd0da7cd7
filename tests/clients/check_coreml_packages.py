"""coremltools reads the packages in a folder: it parses and type-checks each program, and its weights are the model's.

    check_coreml_packages.py <folder of write_coreml_packages> <folder of the golden models>
"""

import re
import sys
from pathlib import Path

import numpy as np
from coremltools.converters.mil.frontend.milproto import load as milproto
from coremltools.libmilstoragepython import _BlobStorageReader as BlobReader
from coremltools.proto import Model_pb2

kHalfNormalized = 65504.0


def read_safetensors(path):
    """Every tensor of a file as float32."""
    import json
    import struct

    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        if entry["dtype"] == "BF16":
            numbers = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            numbers = np.frombuffer(raw, {"F32": np.float32, "F16": np.float16}[entry["dtype"]]).astype(np.float32)
        tensors[name] = numbers.reshape(entry["shape"])
    return tensors


def described(features):
    return [feature.name for feature in features]


def check_description(spec):
    """Inputs have finite ranges; states are those of the program, in fp16, of a static shape."""
    assert spec.specificationVersion >= 9
    description = spec.description
    assert described(description.input) == ["inputIds", "causalMask"]
    assert described(description.output) == ["logits"]
    for feature in description.input:
        for size in feature.type.multiArrayType.shapeRange.sizeRanges:
            assert 1 <= size.lowerBound <= size.upperBound, feature
    main = spec.mlProgram.functions["main"]
    states = [value.name for value in main.inputs if value.type.WhichOneof("type") == "stateType"]
    assert states == described(description.state) == ["keyCache", "valueCache"], states
    for feature in description.state:
        array = feature.type.stateType.arrayType
        assert array.dataType == array.FLOAT16 and len(array.shape) == 5 and min(array.shape) > 0
    operations = main.block_specializations[main.opset].operations
    for state in states:
        assert any(op.type == "write_state" and op.inputs["input"].arguments[0].name == state for op in operations)


def check_weights(spec, folder, model):
    """Each weight of the program is a tensor of the model, number for number, in the precision of the file."""
    tensors = read_safetensors(model / "model.safetensors")
    by_bytes = {}
    for kind in (np.float16, np.float32):
        for tensor in tensors.values():
            clipped = np.clip(tensor, -kHalfNormalized, kHalfNormalized) if kind is np.float16 else tensor
            by_bytes[clipped.astype(kind).tobytes()] = tensor.shape
    main = spec.mlProgram.functions["main"]
    reader = BlobReader(str(folder / "Data/com.apple.CoreML/weights/weight.bin"))
    found = 0
    for op in main.block_specializations[main.opset].operations:
        if op.type != "const" or op.attributes["val"].WhichOneof("value") != "blobFileValue":
            continue
        value = op.attributes["val"]
        tensor = value.type.tensorType
        shape = tuple(dimension.constant.size for dimension in tensor.dimensions)
        if tensor.dataType == 10:
            numbers = reader.read_fp16_data(value.blobFileValue.offset)
        else:
            numbers = reader.read_float_data(value.blobFileValue.offset)
        assert numbers.size == np.prod(shape), op.attributes["name"]
        key = numbers.tobytes()
        assert key in by_bytes, f"{op.outputs[0].name} is no tensor of the model"
        assert by_bytes[key] == shape, (op.outputs[0].name, by_bytes[key], shape)
        found += 1
    unique = {re.sub(r"^(model|transformer)\.", "", name) for name in tensors}
    assert found > 0 and found <= len(unique), (found, len(unique))
    return found


def main():
    packages, models = Path(sys.argv[1]), Path(sys.argv[2])
    failed = 0
    folders = sorted(packages.glob("*/*.mlpackage"))
    assert folders
    for folder in folders:
        spec = Model_pb2.Model.FromString((folder / "Data/com.apple.CoreML/model.mlmodel").read_bytes())
        try:
            check_description(spec)
            weights = check_weights(spec, folder, models / folder.stem.rpartition("-")[0])
            program = milproto.load(spec, 9, str(folder / "Data/com.apple.CoreML/weights"))
            operations = len(program.functions["main"].operations)
            print(f"{folder.stem}: {operations} operations, {weights} weights")
        except Exception as error:  # every package is told of
            failed += 1
            print(f"{folder.stem}: {type(error).__name__}: {error}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
