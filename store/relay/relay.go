package relay

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Config has the options of a store; the zero value has the defaults.
type Config struct {
	// Prefix begins the names of topics in the side store; empty is "relay.".
	Prefix string
	// Batch is how many messages are brought over at once; 0 is 500.
	Batch int
	// Poll is how often the side store is asked, beside its wake-ups; 0 is a second.
	Poll time.Duration
	// Lease is for how long messages are claimed in the side store; 0 is a minute.
	Lease time.Duration
	// Owner names this process to people, at most 256 bytes.
	Owner string
	// Logger logs problems; nil is none.
	Logger *slog.Logger
}

// Store is a log with a side store. Make one with [New]. It is safe for concurrent
// use.
type Store struct {
	log, side store.Store
	topics    store.Topics // of the side store
	cfg       Config

	kick chan struct{}
	ctx  context.Context // of the mover
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	known   map[string]*way // topics of the side store that are ours
	brought brought
}

// New returns the store log with unique keys and delays from side. It owns both: Close
// closes them. Side must keep unique keys, delays and topics; [store.ErrUnsupported] if
// it does not.
func New(log, side store.Store, cfg Config) (*Store, error) {
	d, ok := store.As[store.Describer](side)
	topics, ok2 := store.As[store.Topics](side)
	if !ok || !ok2 {
		return nil, lacks(store.CanTopics)
	}
	for _, c := range []store.Capability{store.CanUnique, store.CanDelay, store.CanTopics} {
		if !d.Describe().Capabilities.Has(c) {
			return nil, lacks(c)
		}
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "relay.")
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	cfg.Poll = cmp.Or(cfg.Poll, time.Second)
	cfg.Lease = cmp.Or(cfg.Lease, time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{log: log, side: side, topics: topics, cfg: cfg, kick: make(chan struct{}, 1), known: map[string]*way{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.wg.Go(s.moveLoop)
	return s, nil
}

func lacks(c store.Capability) error {
	return &store.Error{
		Op: "open", Code: store.ErrUnsupported, Err: errors.New("the side store does not keep " + string(c)),
		Hint: "use sqlite: or postgres://",
	}
}

// Unwrap returns the log, whose optional interfaces are this store's.
func (s *Store) Unwrap() store.Store { return s.log }

// Side returns the side store.
func (s *Store) Side() store.Store { return s.side }

// waitsInSide tells whether a message has to wait in the side store.
func waitsInSide(m *pawl.Message) bool { return m.Unique.Key != "" || m.Delay > 0 }

// Fit implements [store.Fitter]: a message that has to wait in the side store reaches
// the log without unique key and delay.
func (s *Store) Fit(m *pawl.Message) error {
	plain := *m
	plain.Delay, plain.Unique = 0, pawl.Unique{}
	return store.Fit(s.log, &plain)
}

// Append implements [store.Store].
func (s *Store) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := store.Admit(batch)
	if err != nil {
		return nil, err
	}
	var direct, rest []int
	for i := range batch.Items {
		switch {
		case receipts[i].Err != nil:
		case waitsInSide(&batch.Items[i]):
			rest = append(rest, i)
		default:
			direct = append(direct, i)
		}
	}
	if err := s.appendTo(ctx, s.side, batch, rest, receipts, ".side", s.sideways); err != nil {
		// Its error is not theirs: these are certainly not stored.
		for _, i := range direct {
			receipts[i].Err = &store.Error{Op: "append", Code: store.ErrUnavailable,
				Err: errors.New("not tried, because the side store failed: " + err.Error())}
		}
		return receipts, err
	}
	if len(rest) > 0 {
		s.wake(batch, rest)
	}
	return receipts, s.appendTo(ctx, s.log, batch, direct, receipts, "", func(m pawl.Message) pawl.Message { return m })
}

// appendTo appends some messages of a batch to one of the stores. Their receipts are
// filled in in any case: one that is left as it is would say that its message is stored.
func (s *Store) appendTo(ctx context.Context, to store.Store, batch store.Batch[pawl.Message], which []int,
	receipts []store.Receipt, suffix string, as func(pawl.Message) pawl.Message) error {
	if len(which) == 0 {
		return nil
	}
	part := store.Batch[pawl.Message]{Items: make([]pawl.Message, len(which))}
	if batch.ID != "" {
		part.ID = batch.ID + suffix
	}
	for j, i := range which {
		part.Items[j] = as(batch.Items[i])
		part.Items[j].ID = receipts[i].ID
	}
	got, err := to.Append(ctx, part)
	for j, r := range store.Answers(len(which), got, err) {
		if r.ID == "" {
			r.ID = part.Items[j].ID
		}
		receipts[which[j]] = r
	}
	return err
}

// sideways is a message as it is in the side store.
func (s *Store) sideways(m pawl.Message) pawl.Message {
	m.Topic = s.cfg.Prefix + m.Topic
	return m
}

func (s *Store) wake(batch store.Batch[pawl.Message], which []int) {
	s.mu.Lock()
	for _, i := range which {
		s.know(s.cfg.Prefix + batch.Items[i].Topic)
	}
	s.mu.Unlock()
	s.wakeMover()
}

// wakeMover makes the mover look again.
func (s *Store) wakeMover() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Claim implements [store.Store]: it is that of the log.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	return s.log.Claim(ctx, wants, lease)
}

// Extend implements [store.Store]: it is that of the log.
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return s.log.Extend(ctx, by, tokens...)
}

// Close implements [store.Store]: it closes both stores. What waits in the side
// store stays there. What is on its way to the log is waited for, for a few seconds.
func (s *Store) Close() error {
	s.stop()
	s.wg.Wait()
	return errors.Join(s.log.Close(), s.side.Close())
}

// Describe implements [store.Describer].
func (s *Store) Describe() store.Description {
	var d store.Description
	if of, ok := store.As[store.Describer](s.log); ok {
		d = of.Describe()
	}
	return d
}

// List implements [store.Looker]: what is in the log, every id once, however often
// it was brought over, and then what still waits in the side store.
func (s *Store) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		looker, ok := store.As[store.Looker](s.log)
		if !ok {
			yield(store.Record{}, &store.Error{Op: "list", Code: store.ErrUnsupported})
			return
		}
		// First, so that nothing is missed that is brought over meanwhile.
		beside, err := s.listSide(ctx, f)
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		l := listing{yield: yield, limit: f.Limit, seen: map[string]bool{}}
		if !l.log(ctx, looker, f) {
			return
		}
		for _, r := range beside {
			if !l.give(r, nil) {
				return
			}
		}
	}
}

// listing yields every message once, and no more of them than its limit.
type listing struct {
	yield func(store.Record, error) bool
	limit int // 0: none
	seen  map[string]bool
}

// give yields a record unless it was seen; false to stop.
func (l *listing) give(r store.Record, err error) bool {
	if err != nil {
		l.yield(r, err)
		return false
	}
	if l.seen[r.ID] {
		return true
	}
	l.seen[r.ID] = true
	return l.yield(r, nil) && len(l.seen) != l.limit
}

// log lists what is in the log; false to stop. What is there several times counts
// once: then the log is asked for more, until there is enough or no more.
func (l *listing) log(ctx context.Context, looker store.Looker, f store.Filter) bool {
	for {
		n := 0
		for r, err := range looker.List(ctx, f) {
			if n++; !l.give(r, err) {
				return false
			}
		}
		if f.Limit == 0 || n < f.Limit {
			return true
		}
		f.Limit *= 2
	}
}

// listSide lists what waits in the side store.
func (s *Store) listSide(ctx context.Context, f store.Filter) ([]store.Record, error) {
	looker, ok := store.As[store.Looker](s.side)
	if !ok {
		return nil, nil
	}
	if f.Topic != "" {
		f.Topic = s.cfg.Prefix + f.Topic
	}
	limit := f.Limit
	if f.Topic == "" {
		f.Limit = 0 // others' messages do not count
	}
	var all []store.Record
	for r, err := range looker.List(ctx, f) {
		if err != nil {
			return nil, err
		}
		if name, ours := strings.CutPrefix(r.Topic, s.cfg.Prefix); ours {
			r.Topic = name
			if all = append(all, r); len(all) == limit {
				break
			}
		}
	}
	return all, nil
}

// Get implements [store.Looker]: what is not in the log may wait in the side store.
func (s *Store) Get(ctx context.Context, id string) (store.Record, error) {
	looker, ok := store.As[store.Looker](s.log)
	if !ok {
		return store.Record{}, &store.Error{Op: "get", Code: store.ErrUnsupported}
	}
	r, err := looker.Get(ctx, id)
	if !errors.Is(err, store.ErrNotFound) {
		return r, err
	}
	other, ok := store.As[store.Looker](s.side)
	if !ok {
		return r, err
	}
	if r, err = other.Get(ctx, id); err == nil {
		r.Topic = strings.TrimPrefix(r.Topic, s.cfg.Prefix)
	}
	return r, err
}
