package api

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// workers are the programs that lease here, by name: what they hold, so that suspects come to
// them as to any worker, and for the list of workers. It is what this process knows: what another
// one settles is held here until its lease ends.
type workers struct {
	mu     sync.Mutex
	by     map[string]*worker
	looked time.Time // when the store was last asked for messages to be tried alone
}

// worker is one of them.
type worker struct {
	name    string
	began   time.Time
	seen    time.Time
	topics  map[string]int // the limits that it asked for
	polls   int            // leases under way
	asking  int            // claims under way
	weight  int            // of suspects that claims under way may bring
	held    map[int64]*holding
	making  time.Time   // until when it makes way for a message to be tried alone
	rest    time.Time   // until when it does not
	solo    atomic.Bool // it holds a message that is carried out alone
	release int64       // the fence of that
}

// holding is a delivery in the hands of a worker.
type holding struct {
	topic  string
	weight int
	until  time.Time
}

const (
	forgetAfter = time.Minute // a worker that does not come back
	lookEvery   = 2 * time.Second
	mostWorkers = 2000 // that are listed
)

func newWorkers() *workers { return &workers{by: map[string]*worker{}} }

func (ws *workers) enter(q *leaseRequest) *worker {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.by[q.Worker]
	if w == nil {
		w = &worker{name: q.Worker, began: time.Now(), topics: map[string]int{}, held: map[int64]*holding{}}
		ws.by[q.Worker] = w
	}
	w.polls++
	w.seen = time.Now()
	if len(w.topics) < maxTopics {
		for _, t := range q.Topics {
			w.topics[t] = q.limit
		}
	}
	return w
}

func (ws *workers) leave(w *worker) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.polls--
	w.seen = time.Now()
}

// ask says what a claim of a worker may bring: how much its suspects may weigh, and whether it
// promises to carry out nothing else. A negative weight: it may bring nothing, because the worker carries
// out a message alone, or makes way for it.
func (ws *workers) ask(ctx context.Context, s store.Store, w *worker, q *leaseRequest) (suspects int, alone bool) {
	waits := ws.waitsAlone(ctx, s, q)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	now := time.Now()
	weight := w.weight
	for fence, h := range w.held {
		if now.After(h.until) {
			w.drop(fence)
			continue
		}
		weight += h.weight
	}
	empty := len(w.held) == 0 && w.asking == 0
	switch {
	case w.solo.Load():
		suspects = -1
	case empty:
		suspects, alone = max(store.MaxSuspects-weight, 0), true
		w.making = time.Time{}
	case now.Before(w.making):
		suspects = -1
	case waits && now.After(w.rest):
		w.making, w.rest = now.Add(q.lease), now.Add(3*q.lease)
		suspects = -1
	default:
		suspects = max(store.MaxSuspects-weight, 0)
	}
	w.asking++
	w.weight += max(suspects, 0)
	return suspects, alone
}

// waitsAlone reports whether a message waits to be tried alone, asking the store now and then.
func (ws *workers) waitsAlone(ctx context.Context, s store.Store, q *leaseRequest) bool {
	solitary, ok := store.As[store.Suspected](s)
	if !ok {
		return false
	}
	ws.mu.Lock()
	due := time.Since(ws.looked) >= lookEvery
	if due {
		ws.looked = time.Now()
	}
	ws.mu.Unlock()
	if !due {
		return false
	}
	topic, err := solitary.Solitary(ctx, q.lease, q.Topics...)
	return err == nil && topic != ""
}

// asked ends what ask began.
func (ws *workers) asked(w *worker) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.asking--; w.asking == 0 {
		w.weight = 0
	}
}

func (ws *workers) took(w *worker, ds []pawl.Delivery, lease time.Duration, alone bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i := range ds {
		d := &ds[i]
		h := &holding{topic: d.Topic, until: time.Now().Add(lease)}
		if h.weight = store.Weight(d.Rescues); store.Solitary(d.Rescues) {
			h.weight = store.MaxSuspects
			if alone {
				w.release = d.Token.Fence
				w.solo.Store(true)
			}
		}
		w.held[d.Token.Fence] = h
	}
}

func (w *worker) solitary() bool { return w.solo.Load() }

func (ws *workers) settled(name string, fence int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.by[name]; w != nil {
		w.drop(fence)
	}
}

func (ws *workers) extended(name string, fence int64, by time.Duration) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w := ws.by[name]; w != nil && w.held[fence] != nil {
		w.seen = time.Now()
		w.held[fence].until = time.Now().Add(by)
	}
}

// drop forgets a delivery. The caller holds mu.
func (w *worker) drop(fence int64) {
	delete(w.held, fence)
	if w.release == fence {
		w.solo.Store(false)
		w.release = 0
	}
}

// list is the registrations of the workers, those forgotten that do not come back.
func (ws *workers) list(version string) []roster.Registration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	all := []roster.Registration{}
	for name, w := range ws.by {
		running := map[string]int{}
		for fence, h := range w.held {
			if time.Now().After(h.until) {
				w.drop(fence)
				continue
			}
			running[h.topic]++
		}
		if w.polls == 0 && len(w.held) == 0 && time.Since(w.seen) > forgetAfter {
			delete(ws.by, name)
			continue
		}
		if len(all) == mostWorkers {
			continue
		}
		r := roster.Registration{Owner: name, Version: version, StartedAt: w.began.UTC(), Topics: []roster.Topic{}}
		for t, limit := range w.topics {
			r.Topics = append(r.Topics, roster.Topic{Topic: t, Running: running[t], Concurrency: limit})
		}
		all = append(all, r)
	}
	return all
}

// register keeps the workers registered in the state of the store, as dispatchers are.
func (a *API) register() {
	entries, ok := store.As[store.Shared](a.store)
	if !ok {
		return
	}
	key := roster.Prefix + pawl.NewID()
	put := false
	for store.Sleep(a.ctx, time.Second) == nil {
		all := a.workers.list(a.config.Version)
		if len(all) == 0 && !put {
			continue
		}
		put = a.say(entries, key, all)
		_ = store.Sleep(a.ctx, roster.Every-time.Second)
	}
	if put {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = entries.DeleteState(ctx, key, store.AnyVersion) // it expires
	}
}

// say puts the registration, or takes it away if there are no workers; true if it is there.
func (a *API) say(entries store.Shared, key string, all []roster.Registration) bool {
	ctx, cancel := context.WithTimeout(a.ctx, roster.Every)
	defer cancel()
	if len(all) == 0 {
		return entries.DeleteState(ctx, key, store.AnyVersion) != nil
	}
	text, err := json.Marshal(roster.Registration{Owner: a.config.Owner, Version: a.config.Version,
		StartedAt: time.Now().UTC(), Topics: []roster.Topic{}, Workers: all})
	if err == nil {
		_, err = entries.PutState(ctx, key, text, store.AnyVersion, a.config.Owner)
	}
	if err != nil {
		a.config.Logger.Debug("could not register the workers of the API", "error", err)
	}
	return true
}
