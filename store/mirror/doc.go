// Package mirror is a decorator over two stores that moves traffic from one to the other,
// topic by topic. It keeps the contract of package store.
//
// # Stages
//
// How a topic is handled is its [Stage], kept in the state of the first store, the primary,
// so that every process agrees. A topic without one is the primary's alone.
//
//	Dual       the primary is in charge; a copy of what it stores goes to the mirrored store
//	Closing    appends wait, for seconds: what follows must come after what is there
//	Draining   appends go to the mirrored store; the primary is worked off first
//	Moved      the mirrored store is in charge
//	Returning  the primary gets back what is not done in the mirrored store
//
// A process relies on the stages that it has read for [Fresh] at most, and reads them again
// before later appends. So after writing a stage and waiting that long, no process acts on
// the previous one.
//
// # Copies
//
// In Dual, the primary's receipts and errors are the caller's. What it stored is
// copied afterwards: same id, key, priority, headers, body. What it refused, or found
// to be a duplicate, is not. Copies wait in bounded queues, one for each share of the
// keys, so that the copies of a key keep the order in which this process appended them.
// A full queue takes nothing more: such a message has no copy, is counted in
// [Stats].Missed, and the mirror is not complete. The primary never waits for the
// mirrored store, and no error of that store is an error of the caller.
//
// Queues are in memory. What a process had in them when it died has no copy; what Close could
// not write in [Config.CloseWait] is counted as missed. Either is found by comparing the
// stores. No message is lost: one without a copy is in the primary, which carries it out.
//
// When two processes append to one key at the same time, the copies may be in another
// order than the originals: each process copies on its own.
//
// # Between the stores
//
// What a delivery of one store emits into a topic whose appends go to the other one is
// appended there before the ack, under the ids that it would have had. A carried
// message (Returning) is appended to the primary before it is acked in the mirrored
// store: a crash in between brings it twice, which the id shows as long as the first one
// is there.
package mirror
