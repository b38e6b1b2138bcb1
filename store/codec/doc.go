// Package codec is a decorator that compresses and re-encodes bodies, and keeps large ones in files. Callers get
// back exactly what they stored: the contract, capabilities and optional interfaces are those of the underlying
// store.
//
// # The header
//
// An encoded message has an additional header, pawl-codec. It is not visible through the codec; a program that
// reads the store directly, for instance from Kafka, has to undo what it says. Its value lists the steps that
// were taken, with their parameters:
//
//	pawl-codec: msgpack,zstd;len=5120;mid=4013;blob=sha256:9f86d081…;size=1830;dir=kq3v7d2n5x
//
// The parts, in the order in which they are undone, which is the last one first:
//
//	dir=ID           the folder of blobs that has the file: the content of its file pawl-blobs
//	blob=sha256:HEX  the body is empty; the encoded one is the file HE/X…/HEX of that folder, with that SHA-256
//	size=N           and that many bytes
//	zstd, lz4        it is compressed: a frame of Zstandard or LZ4 (not a block), both with a checksum
//	mid=N            bytes after decompression, where msgpack comes next
//	msgpack          it is MessagePack; the body is the same as compact JSON, members in the same order
//	raw              none of these: it is as it was
//	len=N            bytes of what came out
//	fold=N           so many of these, the first ones, are a JSON object with further headers; the body follows
//
// A message without the header is untouched: one from a program without the codec,
// or one that would not have become smaller. So the codec can be turned on and off
// on a store that is in use. Other programs may write the header, too; len= is
// never left out, and bounds what decoding allocates.
//
// Names that begin with pawl-codec are the codec's. A message that has one is accepted: its header is folded
// into the body, and comes back as it was. So are other headers where the limits leave no room. What has no room
// for the codec's own header is stored as it is.
//
// # Numbers
//
// JSON becomes msgpack only if the very same bytes come back: compact, numbers of
// 64 bits or in the shortest spelling of a float, no escapes that are not needed.
// Everything else is left alone, so that no number is ever re-encoded.
//
// # What cannot be decoded
//
// A delivery whose body is damaged, or whose file is missing or not what it was, is
// a dead letter of kind pawl.KindDecode at once, in its encoded form, and the
// reason says what is wrong; its lane goes on. What cannot be read now (the folder
// is not mounted or another one, an error of the disk) is released for
// [Config.Again]. Either is reported to [Config.Report]. A record that cannot be
// decoded is shown in its encoded form, with a header pawl-codec-sealed that says
// why; Bury takes it back as it was, and an Amend with a new body makes it
// readable.
//
// # Blobs
//
// A large body is on disk, synchronised, before its message is appended. Bodies
// with the same content share a file. Nothing removes files but [Store.Collect].
// Back up the store first and the folder after it: then no message lacks its file.
package codec
