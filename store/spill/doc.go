// Package spill is a store that does not lose what it has accepted while its primary
// store fails: a broker that is away, a disk that is full. What the primary store did
// not certainly accept is kept elsewhere, and brought back in the order of its keys
// when possible.
//
//	s, err := spill.New(primary, fallback, spill.Config{})
//
// All methods except Append are those of the primary store. So is appending within a
// caller's transaction: it fails with the transaction and ignores latches.
//
// # Levels
//
// A message is offered to the primary store, to the dead-letter route
// ([Config.Divert]) and to the fallback store, until one takes it. If none does, its
// receipt has an error, and the call returns a [LostError] with the reason of each.
// What the primary store refuses, because no repetition would help, is refused; and so
// is what is too much for its topic ([store.TopicFullError]), because whoever sends it is
// to wait. Rows that come back are taken however full their topic is.
//
// The two ways out differ. A row in the fallback store keeps the order of its key and
// comes back by itself. A diverted message is a dead letter: what follows of its key
// passes it, as it passes any dead letter, and an operator replays it. If the primary
// store answers, the dead-letter route comes first: a broker that reports the failure of
// a delivery usually has a working dead-letter topic. If the primary store does not
// answer at all, or a message's error says so (store.ErrNoAnswer), the fallback store
// comes first, because the dead-letter topic is at the same broker. So it does for a key
// that has rows, which keeps its order.
//
// Of a caller's deadline the primary store gets three quarters, and of what is left
// then the dead-letter route gets half, if it comes first: so the fallback store has an
// eighth at least. Neither gets more than [Config.PrimaryTimeout]. A dead-letter route
// that fails does not come first again until the primary store has answered.
//
// # Failed and unknown
//
// An outcome is failed if the message is certainly not in the primary store, and
// unknown if it may be ([store.Receipt.Outcome]). Both are spilled; the row says which
// it was. A message of unknown outcome may reach its consumer twice, under one id. If
// the primary store reports it as a duplicate when it is brought back, it had been
// stored, and nothing more is to be done.
//
// # Rows
//
// A row is a message in the topic "spill.TOPIC" of the fallback store, with the id,
// key, body and headers of the message, and headers of its own (HeaderTopic and
// others). Ids make rows unique; the lanes of that topic keep the order; a row that
// failed too often is a dead letter there, frees its key, and comes back when it is
// replayed. Rows have no priority: they come back in the order in which they came.
//
// # Order
//
// Calls of one key are carried out one after the other. While a key has rows, what is
// appended to it goes behind them: while a topic has rows, the fallback store is asked
// about the key of each message. At the start the keys that have rows are read before a
// message with a key is let through.
//
// What is emitted goes behind rows only where the primary store lets it appear before
// the ack; see [Store.Settle]. A Settle that fails is not spilled: the caller repeats
// it.
//
// # Several processes
//
// Processes may share a fallback store that keeps that capability. If Append(a)
// returned in one process before Append(b) began in another, a is before b in their
// lane, whichever of them was spilled. For that a call that adds a row of a key takes 50
// ms longer, and each process asks the fallback store at most that often whether a topic
// to which it appends has rows.
//
// The order can be lost where a process cannot reach the fallback store and another one
// can: it continues with what it knows, because an outage of the fallback store must
// not become one of the primary store, and counts this ([Stats.Blind]). A replayed row
// joins the tail. A compensator that is stopped for longer than its lease, between
// looking at its clock and sending, sends rows again that another one has sent:
// duplicates, behind the first of each.
//
// # The compensator
//
// Every process runs one. Rows come back at once when the primary store accepts
// anything of their topic, a new message or a row. While it accepts nothing, only a few
// rows are tried, after 1 s, 2 s, 4 s … up to 15 s, and new messages do not wait for
// that; such tries are not counted, however long that lasts. A row that fails while
// others are accepted is tried after 1 min, 2 min … up to 1 h, ten times, and no other
// key waits for it. One that was not answered in time may only have been slow, as the
// first calls often are when the primary store has come back: its first two waits are 1
// s and 15 s.
//
// # Cost
//
// In normal operation an Append with keys costs a few locks, and one listing of the
// fallback store every 50 ms where other processes may use that. Memory: an entry per key
// that is known to have rows, and one per row that came back and whose ack the fallback
// store has not accepted yet, at most about 100,000.
package spill
