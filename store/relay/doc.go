// Package relay adds unique keys and delays to a store that is a log. A message with
// one of them waits in a second store, the side store, which supports both, and is
// moved to the log when it is due.
//
//	s, err := relay.New(log, side, relay.Config{})
//
// # What goes where
//
// A message with a unique key or a delay is appended to the topic PREFIX+TOPIC of
// the side store (the prefix is "relay." by default). It is stored there when
// Append returns, and its receipt says whether it is a duplicate. Every process
// that has the store open brings messages over: it claims them in the side store,
// appends them to the log, and acks them. Everything else goes to the log at once.
//
// # What is kept, and what is not
//
// A unique key with a duration, or for ever, is taken for that long. One that is
// taken while its message lives is free when the message has been brought over.
// The messages of a key that pass through the side store keep their order among
// themselves; one that goes to the log at once may overtake them. A crash between
// the append to the log and the ack in the side store brings a message over again,
// under its id.
//
// What a settlement emits is appended before the ack, each to where it belongs, under
// the ids that the contract prescribes: pawl.EmitID of the parent and the index.
//
// A message that the log refuses for good is a dead letter of the side store. One that
// it cannot accept now is offered again after waiting as long again as it has waited so
// far, at least a second and at most a minute; only later messages of its key wait for
// it.
package relay
