// Package gate computes how far a log is finished when its positions are finished in
// any order.
//
// A reader of a log registers positions as it reads them and hands them out. Each
// is finished when its work is over, in any order. The
// gate folds the finished prefix: all before [Gate.Base] is done, Base itself is
// not. That is the one number a reader may write down as its place. Of what is
// finished above it, a [Checkpoint] is the memory: a short text to be kept beside
// the number, so that a crash does not repeat it.
//
// A gate belongs to one reading of one log, from the moment the log is assigned to when
// it is taken away. Another reading of the log needs a new gate. It is not safe for
// concurrent use.
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
package gate
