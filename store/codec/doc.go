// Package codec is a decorator that compresses bodies, and keeps large ones in files. Callers get back exactly what
// they stored: the contract, capabilities and optional interfaces are those of the underlying store.
//
// # The header
//
// An encoded message has an additional header, pawl-codec. It is not visible through the codec; a program that
// reads the store directly, for instance from Kafka, has to undo what it says:
//
//	pawl-codec: zstd;len=5120;blob=sha256:9f86d081…;size=1830;dir=kq3v7d2n5x
//
// The parts, in the order in which they are undone, which is the last one first:
//
//	dir=ID           the folder of blobs that has the file: the content of its file pawl-blobs
//	blob=sha256:HEX  the body is empty; the encoded one is the file HE/X…/HEX of that folder, with that SHA-256
//	size=N           and that many bytes
//	len=N            bytes of what comes out
//	zstd             it is compressed: a frame of Zstandard with a checksum
//	raw              it is not
//
// A message without the header is untouched: one from a program without the codec,
// one that would not have become smaller, or one whose headers leave no room for it. An
// edited dead letter keeps the header, or stays without it. So the codec can be turned
// on and off on a store that is in use. Other programs may
// write the header, too; len= is never left out, and bounds what decoding allocates.
//
// Names that begin with pawl-codec are the codec's: a message that has such a header is
// refused.
//
// # What cannot be decoded
//
// A delivery whose body is damaged, or whose file is missing or not what it was, is
// a dead letter of kind pawl.KindDecode at once, in its encoded form, and the
// reason says what is wrong; its lane goes on. What cannot be read now (the folder
// is not mounted or another one, an error of the disk) is released for
// [Config.Again]. Either is reported to [Config.Report]. A record that cannot be
// decoded is shown in its encoded form, with a header pawl-codec-sealed that says
// why; Import takes it back as it was, and an Edit with a new body makes it
// readable.
//
// # Blobs
//
// A large body is on disk, synchronised, before its message is appended. Bodies
// with the same content share a file. Nothing removes files but [Store.Collect].
// Back up the store first and the folder after it: then no message lacks its file.
package codec
