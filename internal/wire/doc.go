// Package wire is the JSON that programs in other languages exchange with Pawl:
// a message as a producer writes it, a delivery as a worker reads it, and the
// verdict that it answers, each an object on a line of its own.
//
// What is read is read strictly, because a message that is understood halfway
// is worse than one that is refused: fields must be known and not repeated,
// text must be valid UTF-8 without lone surrogates, and nothing may follow the
// object. Errors name the place. Payloads are carried byte by byte; no number is
// ever read as one and written again.
package wire
