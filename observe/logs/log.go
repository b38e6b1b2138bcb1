package logs

import (
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/figures"
)

// Config says what is logged, and where to.
type Config struct {
	// Level is the lowest level of a sink that has none of its own; nil is info. It may change while the log is used.
	Level slog.Leveler
	// Include are the fixed fields that records have besides time, level and message, of [Fields]; attributes with
	// other names are never left out. Nil is all that a record has, and in JSON seq and node_id as well.
	Include []string
	// Node names this process in node_id; it may be empty.
	Node string
	// Redact takes secrets out of a line; nil takes none out.
	Redact func(string) string
	// Sinks are where records are written; without any, nowhere.
	Sinks []Sink
}

// Sink is one place where records are written.
type Sink struct {
	Name  string
	Level slog.Leveler // nil is that of the log
	JSON  bool         // else text
	// Buffer is how many records wait at most; 10,000 by default.
	Buffer int
	// Batch is how many records a write waits for, for as long as Flush; by default for none.
	Batch  int
	Flush  time.Duration
	Output Output
}

// Defaults of a sink, and of what is written to it at once.
const (
	DefaultBuffer = 10_000
	DefaultFlush  = 500 * time.Millisecond
	DefaultBatch  = 200   // of a message queue
	DefaultTopic  = "log" // of a message queue
	// bytesPerRecord bounds the bytes that wait for a sink: so many for each record of its buffer.
	bytesPerRecord = 1 << 10
	// linger is how long the first record waits for others before both are handed to the sinks.
	linger = time.Millisecond
	// yieldEvery is after how many records a producer lets others run.
	yieldEvery = 256
)

// Log takes records and hands them to its sinks. Make one with [New].
type Log struct {
	queues         []*queue
	asText, asJSON form
	left           map[string]bool
	redact         func(string) string
	root           *handler
	encoders       sync.Pool

	shards []shard
	taken  [][]*block // from each shard, by hand
	most   uint64     // records in all shards
	seq    atomic.Uint64
	handed atomic.Uint64 // the newest record that the sinks' queues have seen
	awake  atomic.Bool   // the collector is about to look
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once
	done   sync.WaitGroup
}

// shard takes the records of some producers; each holds its lock for as long as a line is copied. A producer takes
// one that is free.
type shard struct {
	mu     sync.Mutex
	blocks []*block
	lost   loss // records that did not fit
	closed bool
	_      [64]byte // on a cache line of its own
}

// New begins to log.
func New(c Config) *Log {
	n := 2 * runtime.GOMAXPROCS(0)
	l := &Log{redact: c.Redact, wake: make(chan struct{}, 1), closed: make(chan struct{}),
		shards: make([]shard, n), taken: make([][]*block, n)}
	if c.Level == nil {
		c.Level = slog.LevelInfo
	}
	named := func(name string) bool { return slices.Contains(c.Include, name) }
	l.asText = form{seq: named(Seq), node: c.Node != "" && named(observe.NodeID)}
	l.asJSON = l.asText
	if c.Include == nil {
		l.asJSON = form{seq: true, node: c.Node != ""}
	} else {
		l.left = map[string]bool{}
		for _, name := range Fields[3:] {
			if !named(name) {
				l.left[name] = true
			}
		}
	}
	for _, s := range c.Sinks {
		if s.Level == nil {
			s.Level = c.Level
		}
		l.asText.on, l.asJSON.on = l.asText.on || !s.JSON, l.asJSON.on || s.JSON
		q := newQueue(s)
		q.report = l.report
		l.most = max(l.most, uint64(q.limit))
		l.queues = append(l.queues, q)
	}
	l.encoders.New = func() any { return l.newEncoder() }
	l.root = l.withNode(c.Node)
	for _, q := range l.queues {
		go q.run() // an output that hangs may keep it beyond the end
	}
	l.done.Go(l.collect)
	return l
}

func (l *Log) newEncoder() *encoder {
	return &encoder{asText: l.asText, asJSON: l.asJSON, left: l.left}
}

// Handler is the handler of loggers: slog.New(l.Handler()).
func (l *Log) Handler() slog.Handler { return l.root }

// Figures are the counts of each sink.
func (l *Log) Figures() []figures.LogSink {
	all := make([]figures.LogSink, len(l.queues))
	pending := l.seq.Load() - l.handed.Load()
	for i, q := range l.queues {
		all[i] = q.figures()
		all[i].Lag += int(pending)
	}
	return all
}

// Close writes what waits. It gives a sink up that takes nothing for a second: what is left is dropped. Records that
// come later are none any more.
func (l *Log) Close() {
	l.once.Do(func() { close(l.closed) })
	l.done.Wait()
}

// put hands over a line and its number.
func (l *Log) put(e *encoder, level slog.Level, not *queue) {
	s := l.lockShard()
	if s.closed {
		s.mu.Unlock()
		return
	}
	seq := uint64(0)
	if not == nil { // else it is about a sink, and not offered to it: its number would be missing there
		seq = l.seq.Add(1)
	}
	if seq > l.handed.Load()+l.most {
		s.lost.add(seq, rank(level), 1)
	} else {
		b := s.room()
		if l.asText.on {
			b.text = append(b.text, e.text...)
			if l.asText.seq && seq > 0 {
				b.text = strconv.AppendUint(append(b.text, " seq="...), seq, 10)
			}
			b.text = append(b.text, '\n')
		}
		if l.asJSON.on {
			b.json = append(b.json, e.json...)
			if l.asJSON.seq && seq > 0 {
				b.json = strconv.AppendUint(append(b.json, `,"seq":`...), seq, 10)
			}
			b.json = append(b.json, '}', '\n')
		}
		b.recs = append(b.recs, rec{seq, len(b.text), len(b.json), level, not})
	}
	s.mu.Unlock()
	if !l.awake.Load() && l.awake.CompareAndSwap(false, true) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	if seq%yieldEvery == 0 { // producers that never pause would not let those run who empty what they fill
		runtime.Gosched()
	}
}

// lockShard locks a shard that nobody else has, if there is one.
func (l *Log) lockShard() *shard {
	at := rand.IntN(len(l.shards))
	for i := range l.shards {
		if s := &l.shards[(at+i)%len(l.shards)]; s.mu.TryLock() {
			return s
		}
	}
	s := &l.shards[at]
	s.mu.Lock()
	return s
}

// collect hands records to the sinks, a moment after the first of them came.
func (l *Log) collect() {
	for open := true; open; {
		select {
		case <-l.wake:
			time.Sleep(linger)
		case <-l.closed:
			open = false
		}
		l.awake.Store(false)
		l.hand(!open)
	}
	for _, q := range l.queues {
		l.done.Go(q.close)
	}
}

// hand takes what the shards have, all at one moment: the numbers are without gaps, and those of one producer are in
// its order.
func (l *Log) hand(last bool) {
	for i := range l.shards {
		l.shards[i].mu.Lock()
	}
	newest := l.seq.Load()
	var lost loss
	for i := range l.shards {
		s := &l.shards[i]
		l.taken[i], s.blocks = s.blocks, l.taken[i][:0]
		s.closed = last
		lost.merge(&s.lost)
		s.lost = loss{}
	}
	for i := range l.shards {
		l.shards[i].mu.Unlock()
	}
	if lost.n() > 0 {
		for _, q := range l.queues {
			q.offerLost(&lost)
		}
	}
	merge(l.taken, func(b *block) {
		for _, q := range l.queues {
			q.offer(b)
		}
		b.release()
	})
	l.handed.Store(newest)
}

// report tells the other sinks that one takes nothing, or takes records again.
func (l *Log) report(q *queue, err error) {
	h := *l.root
	h.not = q
	logger := slog.New(&h)
	if err != nil {
		logger.Error("a log sink takes no records; they are dropped and counted", "sink", q.name, "error", err)
		return
	}
	logger.Info("a log sink takes records again", "sink", q.name)
}
