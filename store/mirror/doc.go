// Package mirror is a decorator over two stores that moves traffic from one to the other,
// topic by topic, and back. It keeps the contract of package store.
//
// # Stages
//
// How a topic is handled is its [Stage], kept in the state of the first store, the primary,
// so that every process agrees. A topic without one is the primary's alone.
//
//	Stage      appended to   claimed from
//	Dual       the primary   the primary    what is appended is copied to the mirrored store
//	Closing    neither       as before      for seconds: what follows must come after what is there
//	Draining   the mirrored  the primary    until that is empty
//	Moved      the mirrored  the mirrored
//	Returning  the primary   the mirrored   until that is empty; then Dual
//
// A process relies on the stages that it has read for [Fresh] at most, and reads them again
// before later appends. So after writing a stage and waiting that long, no process acts on
// the previous one.
//
// # Copies
//
// In Dual, the primary's receipts and errors are the caller's. What it stored is
// copied afterwards: same id, key, priority, headers, body, and the header [CopyHeader].
// What it refused, or found to be a duplicate, is not. Copies wait in bounded queues in
// memory, one for each share of the keys, so that the copies of a key keep the order in
// which this process appended them. A message for which there is no room has no copy and is
// counted in [TopicStats].Missed. The primary never waits for the mirrored store, and no
// error of that store is an error of the caller.
//
// A copy is never an original. Its header tells it apart: whoever compares the stores acks
// nothing else, and what reaches the mirrored store late, when that is in charge, is acked
// by [Store.Claim] and handed to nobody. So a copy that is lost or late neither loses a
// message nor repeats one.
//
// # Between the stores
//
// What a delivery of one store emits into a topic whose appends go to the other one is
// appended there before the ack, under the ids that it would have had.
package mirror
