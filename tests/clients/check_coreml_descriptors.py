"""Every message and field of the project's Core ML format file has the number and the type that coremltools has.

    check_coreml_descriptors.py <descriptor set of src/formats/coreml/model.proto, by protoc --descriptor_set_out>
"""

import sys

from coremltools.proto import FeatureTypes_pb2, MIL_pb2, Model_pb2
from google.protobuf import descriptor_pb2

OUR_PACKAGE = "pastkv.formats.coreml.proto."
THEIR_PACKAGES = ("CoreML.Specification.MILSpec.", "CoreML.Specification.")


def their_files():
    for module in (Model_pb2, FeatureTypes_pb2, MIL_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        yield file


def named(things, name):
    return next((thing for thing in things if thing.name == name), None)


def bare(type_name):
    for package in (OUR_PACKAGE, *THEIR_PACKAGES):
        type_name = type_name.lstrip(".").removeprefix(package)
    return type_name


def kind(field):
    return field.number, field.type, field.label, bare(field.type_name)


def faults_of(ours, theirs, path):
    """Of two messages of the same name."""
    if theirs is None:
        yield f"{path} is no message of coremltools"
        return
    for field in ours.field:
        found = named(theirs.field, field.name)
        if found is None:
            yield f"{path}.{field.name} is no field of coremltools"
        elif kind(field) != kind(found):
            yield f"{path}.{field.name}: {kind(field)}, coremltools has {kind(found)}"
    for enum in ours.enum_type:
        yield from enum_faults(enum, named(theirs.enum_type, enum.name), path)
    for nested in ours.nested_type:
        yield from faults_of(nested, named(theirs.nested_type, nested.name), f"{path}.{nested.name}")


def enum_faults(ours, theirs, path):
    numbers = {value.name: value.number for value in theirs.value}
    for value in ours.value:
        if value.number != 0 and numbers.get(value.name) != value.number:
            yield f"{path}.{value.name} = {value.number}, coremltools has {numbers.get(value.name)}"


def main():
    with open(sys.argv[1], "rb") as file:
        ours = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
    their_messages = [message for file in their_files() for message in file.message_type]
    their_enums = [enum for file in their_files() for enum in file.enum_type]
    faults = []
    for message in ours.message_type:
        faults += faults_of(message, named(their_messages, message.name), message.name)
    for enum in ours.enum_type:
        faults += enum_faults(enum, named(their_enums, enum.name), enum.name)
    print("\n".join(faults) or f"{len(ours.message_type)} messages agree")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
