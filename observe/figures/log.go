package figures

// LogSink has the counts of a sink of the log. The records offered to it are the sum of those written, those dropped
// and those that wait, at any time.
type LogSink struct {
	Name    string
	Emits   map[string]uint64 // offered, by level
	Dropped map[string]uint64 // by reason: full, failed or closed
	Written uint64
	Lag     int // records that wait, or are being written
	MaxLag  int // that ever waited
	// Batches counts the writes by how many records they had: not above each of [LogBatchBounds] and above the one
	// before, and last those above all.
	Batches [len(LogBatchBounds) + 1]uint64
}

// LogBatchBounds are the upper bounds of [LogSink.Batches].
var LogBatchBounds = [...]float64{1, 5, 20, 50, 100, 200, 500, 1000, 5000}
