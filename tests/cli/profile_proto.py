"""pprof's profile.proto as a descriptor made at run time, so that the protobuf library itself reads what is written."""

import gzip

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto
# name, number, type, repeated; a type that is no scalar names a message.
MESSAGES = {
    "Profile": [("sample_type", 1, "ValueType", True), ("sample", 2, "Sample", True), ("mapping", 3, "Mapping", True),
                ("location", 4, "Location", True), ("function", 5, "Function", True), ("string_table", 6, "string", True),
                ("drop_frames", 7, "int64", False), ("keep_frames", 8, "int64", False), ("time_nanos", 9, "int64", False),
                ("duration_nanos", 10, "int64", False), ("period_type", 11, "ValueType", False), ("period", 12, "int64", False),
                ("comment", 13, "int64", True), ("default_sample_type", 14, "int64", False)],
    "ValueType": [("type", 1, "int64", False), ("unit", 2, "int64", False)],
    "Sample": [("location_id", 1, "uint64", True), ("value", 2, "int64", True), ("label", 3, "Label", True)],
    "Label": [("key", 1, "int64", False), ("str", 2, "int64", False), ("num", 3, "int64", False), ("num_unit", 4, "int64", False)],
    "Mapping": [("id", 1, "uint64", False), ("memory_start", 2, "uint64", False), ("memory_limit", 3, "uint64", False),
                ("file_offset", 4, "uint64", False), ("filename", 5, "int64", False), ("build_id", 6, "int64", False),
                ("has_functions", 7, "bool", False), ("has_filenames", 8, "bool", False), ("has_line_numbers", 9, "bool", False),
                ("has_inline_frames", 10, "bool", False)],
    "Location": [("id", 1, "uint64", False), ("mapping_id", 2, "uint64", False), ("address", 3, "uint64", False),
                 ("line", 4, "Line", True), ("is_folded", 5, "bool", False)],
    "Line": [("function_id", 1, "uint64", False), ("line", 2, "int64", False)],
    "Function": [("id", 1, "uint64", False), ("name", 2, "int64", False), ("system_name", 3, "int64", False),
                 ("filename", 4, "int64", False), ("start_line", 5, "int64", False)],
}
SCALARS = {"int64": FIELD.TYPE_INT64, "uint64": FIELD.TYPE_UINT64, "bool": FIELD.TYPE_BOOL, "string": FIELD.TYPE_STRING}


def _profile_class():
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            row = message.field.add(name=field, number=number, label=FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL)
            if kind in SCALARS:
                row.type = SCALARS[kind]
            else:
                row.type = FIELD.TYPE_MESSAGE
                row.type_name = f".perftools.profiles.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("perftools.profiles.Profile"))


PROFILE = _profile_class()


class Pprof:
    """A profile with its numbers looked up; refuses one that refers to what is not there."""

    def __init__(self, data):
        self.raw = PROFILE()
        self.raw.ParseFromString(gzip.decompress(data))
        assert not self.raw.UnknownFields(), "a field that profile.proto does not have"
        self.text = list(self.raw.string_table)
        assert self.text[0] == "" and len(set(self.text)) == len(self.text)
        self.types = [(self.text[t.type], self.text[t.unit]) for t in self.raw.sample_type]
        self.functions = self._by_id(self.raw.function)
        self.mappings = self._by_id(self.raw.mapping)
        self.locations = self._by_id(self.raw.location)
        for mapping in self.raw.mapping:
            assert 0 < mapping.memory_start < mapping.memory_limit
        starts = sorted((m.memory_start, m.memory_limit) for m in self.raw.mapping)
        assert all(a[1] <= b[0] for a, b in zip(starts, starts[1:])), "modules overlap"
        for location in self.raw.location:
            assert location.line, "a place without a name"
            if location.mapping_id:
                mapping = self.mappings[location.mapping_id]
                assert mapping.memory_start <= location.address < mapping.memory_limit
        for sample in self.raw.sample:
            assert len(sample.value) == len(self.types) and sample.location_id

    @staticmethod
    def _by_id(rows):
        table = {row.id: row for row in rows}
        assert len(table) == len(rows) and 0 not in table
        return table

    def lines(self, location_id):
        """[(function, file, line)] of a place, the innermost inlined function first."""
        found = []
        for line in self.locations[location_id].line:
            function = self.functions[line.function_id]
            found.append((self.text[function.name], self.text[function.filename], line.line))
        return found

    def samples(self):
        """[(stack, {type: value}, labels)], stacks as lists of places' lines, innermost first."""
        for sample in self.raw.sample:
            labels = {self.text[x.key]: self.text[x.str] if x.str else x.num for x in sample.label}
            yield [self.lines(i) for i in sample.location_id], dict(zip((t for t, _ in self.types), sample.value)), labels
