// Package gate computes how far a log is finished when its positions are finished in
// any order.
//
// A reader of a log registers positions as it reads them and hands them out. Each
// is finished when its work is over, in any order and from any goroutine. The
// gate folds the finished prefix: all before [Gate.Base] is done, Base itself is
// not. That is the one number a reader may write down as its place. Of what is
// finished above it, a [Checkpoint] is the memory: a short text to be kept beside
// the number, so that a crash does not repeat it.
//
// # One reading, one gate
//
// A gate belongs to one reading of one log, from the moment the log is assigned to when
// it is taken away. Another reading of the log needs a new gate. A [Ticket] refers to
// its gate, so that a late acknowledgement finds the old one, which is closed, and
// changes nothing.
//
// # The window
//
// A gate has a window of [Window] positions and one bit for each, in a ring. It
// does not grow: when the window is full, [Gate.Register] says so and the reader
// waits. Because of this bound every pattern of finished positions has a text of
// at most [MaxText] bytes; there is no case in which marks have to be thrown away.
//
// A position that the reader leaves out (it was never there, or it was removed)
// counts as finished.
//
// # Who may call what
//
// The owner, one goroutine at a time, calls Register, Advance, Checkpoint and
// Close. [Ticket.Ack] and the figures (Base, Tail, Backlog, Late) are
// for any goroutine at any time. No call takes a lock, waits, or does I/O.
//
// # Order in memory
//
// All shared words are changed by atomic operations, which Go orders
// sequentially. An ack sets its bit before it returns true: whatever the caller
// did before the ack happened before the owner sees the bit, so it may write the
// position down. Close seals each word in the same atomic step that an ack would
// change it by: an ack is either in the word before the seal, and returns true
// and is in every later checkpoint, or it changes nothing, and returns false. When
// the owner moves the base it stores the new base first and clears bits after it:
// a figure reads the base last, and so takes no cleared bit for unfinished work.
package gate
